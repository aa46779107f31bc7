//   x ── DynamicQuantizeLinear ── MatMulInteger(w) ── Cast ── Mul(scale of x * scale of w) ── y
//     =>    x ── DynamicQuantizeLinear ── DequantizeLinear ── MatMul(DequantizeLinear(w)) ── y
//
// The same for ConvInteger. What onnxruntime's quantizer writes for a runtime that multiplies integers; where
// none does, as in Core ML, the sums of integers exceed what floats hold, single precision from 2^24 on and
// half precision from 65504 on. The scales are one number, or for w of a MatMulInteger one for each column.
// What stops it: other users of the product or of its cast; a zero point of w of another shape than its
// scale; opsets before 13, whose DequantizeLinear takes no scale for each column. Relaxed: a sum of floats
// instead of an exact one of integers.
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

// The product of integers of which v is a cast; null if there is none, or if something else uses it.
const Node* product_of(const Value* v) {
  const Node* cast = v->def();
  if (cast == nullptr || cast->unchecked() || !cast->is("Cast") || cast->op().since_version < 13) return nullptr;
  if (!is_float(v->dtype()) || !v->has_one_use()) return nullptr;
  const Node* n = cast->input(0)->def();
  const bool is_product = n != nullptr && !n->unchecked() && (n->is("MatMulInteger") || n->is("ConvInteger"));
  return is_product && n->result()->has_one_use() ? n : nullptr;
}

// The node that quantizes the product's first operand; null if that has another zero point.
Node* quantizer_of(const Node& product) {
  Node* n = product.input(0)->def();
  const bool fits = n != nullptr && !n->unchecked() && n->is("DynamicQuantizeLinear") && product.input(0) == n->result(0) &&
                    product.input(2) == n->result(2);
  return fits ? n : nullptr;
}

// Whether DequantizeLinear takes this scale and zero point for the second operand.
bool fits(const Node& product, const Value* scale) {
  const Value *w = product.input(1), *zero = product.input(3);
  if (!w->ranked() || !scale->ranked() || (zero != nullptr && !zero->ranked())) return false;
  if (zero != nullptr && zero->type()->dims().size() != scale->type()->rank()) return false;
  if (scale->type()->rank() == 0) return true;
  const bool columns = product.is("MatMulInteger") && w->type()->rank() == 2 && scale->type()->rank() == 1;
  const auto has_columns = [&](const Value* v) { return v->type()->dim(0) == w->type()->dim(1); };
  return columns && has_columns(scale) && (zero == nullptr || has_columns(zero));
}

Value* in_floats(Rewriter& b, const Node& product, Node& quantizer, Value* scale) {
  Value* x = b.DequantizeLinear(quantizer.result(0), quantizer.result(1), quantizer.result(2));
  Value* w = b.DequantizeLinear(product.input(1), scale, product.input(3));
  if (product.is("MatMulInteger")) return b.MatMul(x, w);
  const auto list = [&](std::string_view name) { return product.attr_ints(name).value_or(std::vector<int64_t>{}); };
  const std::string auto_pad = product.attr_string("auto_pad", "NOTSET");
  return b.Conv(x, w, nullptr,
                {.auto_pad = auto_pad,
                 .dilations = list("dilations"),
                 .group = product.attr_int("group", 1),
                 .kernel_shape = list("kernel_shape"),
                 .pads = list("pads"),
                 .strides = list("strides")});
}

}  // namespace

Pass dequantize_products() {
  using namespace pattern;
  static constexpr Var p{"p"}, s{"s"}, t{"t"};
  return Rule{
      .numerics = Numerics::kRelaxed,
      .match = Mul(p, Mul(s, t)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Node* product = product_of(found[p]);
        Node* quantizer = product != nullptr ? quantizer_of(*product) : nullptr;
        if (quantizer == nullptr) return nullptr;
        const bool first = found[s] == quantizer->result(1);
        Value* scale = first ? found[t] : found[s];
        if ((!first && found[t] != quantizer->result(1)) || !fits(*product, scale)) return nullptr;
        return in_floats(b, *product, *quantizer, scale);
      },
  };
}

}  // namespace sardonyx::onnx
