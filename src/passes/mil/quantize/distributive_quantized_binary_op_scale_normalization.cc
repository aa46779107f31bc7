//   x ── dequantize(s_x) ──┐                                 x ── dequantize(s_x / s_y) ──┐
//                         add ── quantize(s_z) ── z    =>                                add ── quantize(s_z / s_y) ── z
//   y ── dequantize(s_y) ──┘                                 y ── dequantize(1) ──────────┘
//
// Hardware fuses the scale of one operand; a scale of 1 costs nothing. The same for sub, and with a relu
// before the quantize. s_y must be one number: if it is not, or if a quotient does not fit half precision, x
// and y swap roles. The dequantized values may have other users, which keep them; no value in between may
// be a result of the block or, after the op, have another user. Relaxed: rounding differs at ties, so a
// quantized result may be off by one. After coremltools' pass of this name.
#include <algorithm>
#include <cmath>

#include "passes/mil/constants/weights.h"
#include "passes/mil/quantize/sum_scales.h"

namespace sardonyx::mil {
namespace {

// The dequantize that computes v; null if another op does.
Node* dequantized(const Value* v) {
  Node* def = v != nullptr ? v->def() : nullptr;
  return def != nullptr && def->is("dequantize") && !is_graph_result(*v) ? def : nullptr;
}

// The only user of n's result, if it is such an op.
Node* only_user(const Node& n, std::string_view op) {
  if (!n.result()->has_one_use()) return nullptr;
  Node* user = (*n.result()->uses().begin()).owner;
  return user->graph() == n.graph() && user->is(op) ? user : nullptr;
}

// a / b in single precision, rounded to a's own type; null if half precision cannot represent it.
TensorPtr quotient(const Tensor& a, float b) {
  std::vector<double> out = doubles(a);
  for (double& v : out) {
    v = static_cast<double>(static_cast<float>(v) / b);
    if (!(std::abs(v) <= 65504 && std::abs(v) >= std::ldexp(1.0, -24))) return nullptr;
  }
  return tensor_of(a.dtype(), {a.shape().begin(), a.shape().end()}, out);
}

struct Site {
  Node *op, *x, *y, *quantize;
};

TensorPtr scale_of(Node& n, PassContext& context) {
  const Value* scale = operand(n, context, "scale");
  return scale != nullptr ? scale->constant() : nullptr;
}

// Divides by y's scale. Returns nullopt if that is impossible, else whether anything changed.
std::optional<bool> normalize(const Site& at, Rewriter& b, PassContext& context) {
  const TensorPtr by = scale_of(*at.y, context);
  if (operand(*at.y, context, "axis") != nullptr || by == nullptr || by->size() != 1) return std::nullopt;
  const auto s_y = static_cast<float>(by->as_double(0));
  const TensorPtr of_x = scale_of(*at.x, context), of_z = scale_of(*at.quantize, context);
  if (of_x == nullptr || of_z == nullptr) return std::nullopt;
  const TensorPtr new_x = quotient(*of_x, s_y), new_z = quotient(*of_z, s_y);
  if (new_x == nullptr || new_z == nullptr) return std::nullopt;
  if (s_y == 1) return false;
  Graph& g = *at.op->graph();
  b.set_insertion_point(at.op);
  b.set_provenance(at.op->provenance());
  Value *old_x = at.x->result(), *old_y = at.y->result();
  Value* x = b.like(*at.x, {{"scale", new_x}});
  Value* y = old_x == old_y ? x : b.like(*at.y, {{"scale", Rewriter::Numbers(1)}});
  for (size_t i = 0; i < 2; ++i) {
    Value* old = at.op->input(i);
    at.op->set_input(i, old == old_x ? x : y);
  }
  b.set_insertion_point(at.quantize);
  b.set_provenance(at.quantize->provenance());
  Value* z = b.like(*at.quantize, {{"scale", new_z}});
  z->set_name(at.quantize->result()->name());
  z->def()->set_name(at.quantize->name());
  g.replace_uses(*at.quantize->result(), *z);
  g.erase(*at.quantize);
  return true;
}

}  // namespace

bool normalize_scales(Node& op, Rewriter& b, PassContext& context) {
  Node* relu = only_user(op, "relu");
  Node* quantize = only_user(relu != nullptr ? *relu : op, "quantize");
  Site at{&op, dequantized(operand(op, context, "x")), dequantized(operand(op, context, "y")), quantize};
  if (at.x == nullptr || at.y == nullptr || quantize == nullptr) return false;
  auto done = normalize(at, b, context);
  if (!done) {
    std::swap(at.x, at.y);
    done = normalize(at, b, context);
  }
  return done.value_or(false);
}

Pass distributive_quantized_binary_op_scale_normalization() {
  return Pass::on_graph(Numerics::kRelaxed, needs({"quantize"}), [](Graph& top, PassContext& context) {
    size_t changed = 0;
    for (Graph* g : graphs_in(top)) {
      Rewriter b(*g, context);
      for (Node& n : g->nodes()) {
        if (!n.unchecked() && (n.is("add") || n.is("sub")) && normalize_scales(n, b, context)) ++changed;
      }
    }
    if (changed == 0) return false;
    erase_dead_nodes(top);
    context.log.count("normalized", changed);
    return true;
  });
}

}  // namespace sardonyx::mil
