//   x ── MatMul(W) ── y   =>   x ── DynamicQuantizeLinear ──┬─ codes ── MatMulInteger(codes of W) ── Cast ──┐
//                                                            └─ scale ── Mul(scales of W) ─────────────── Mul ── y
//
// Computes products with large constant weights in integers of 8 bits: MatMul with a constant right side, and
// Gemm, whose bias is added afterwards. Each run chooses the scale of x by its least and largest element; the
// weights have a scale for each column. onnxruntime joins the five nodes into one.
//
// Processors without dot products of 8 bits (x86 before VNNI) add two products in 16 bits, which saturates.
// Codes of weights are small enough that no two neighbors of a column reach that, so results do not depend on
// the machine; the option full_range gives weights all 8 bits.
//
// What stops it: few elements, as small products are not faster; infinite or NaN weights; types other than
// f32. Relaxed: x is rounded to 256 steps. A batch shares these steps.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "passes/compress/four.h"
#include "passes/compress/weights.h"
#include "passes/onnx/quantize/quantize_weights.h"
#include "rewrite/onnx_rewriter.h"
#include "support/system/interrupt.h"

namespace sardonyx::onnx {
namespace {

// A product y = x W + bias.
struct Product {
  Value *x = nullptr, *weight = nullptr, *bias = nullptr;
  bool is_transposed = false;  // W is stored by columns
};

std::optional<Product> product_of(const Node& n) {
  if (n.unchecked()) return std::nullopt;
  const bool is_gemm = n.is("Gemm");
  if (!is_gemm && !n.is("MatMul")) return std::nullopt;
  if (is_gemm && (int_attr(n, "transA") != 0 || float_attr(n, "alpha") != 1.0 || float_attr(n, "beta") != 1.0))
    return std::nullopt;
  Product p{.x = n.operands()[0].value, .weight = n.operands()[1].value};
  if (is_gemm) {
    p.bias = n.operands().size() > 2 ? n.operands()[2].value : nullptr;
    p.is_transposed = int_attr(n, "transB") == 1;
  }
  if (!p.weight->is_constant() || p.x->is_constant() || p.weight->dtype() != DType::kF32 || p.x->dtype() != DType::kF32)
    return std::nullopt;
  if (p.weight->constant()->rank() != 2 || p.weight->constant()->is_promise()) return std::nullopt;
  const Type* x = p.x->type();
  return x != nullptr && x->ranked() && x->rank() >= 2 ? std::optional(p) : std::nullopt;
}

struct Codes {
  TensorPtr codes, scales;  // i8[K,N], f32[N]
};

// The codes of a weight f32[K,N], or f32[N,K] if it is stored by columns. Unlike encode_summed() it cuts
// nothing off: weights that 8 bits hold stay exact. Nullopt if an element is infinite or NaN.
std::optional<Codes> encode(const Tensor& t, bool is_transposed, bool full_range) {
  std::vector<std::byte> scratch;
  const auto bytes = t.bytes(scratch);
  const auto rows = static_cast<size_t>(t.shape()[is_transposed ? 1 : 0]);
  const auto columns = static_cast<size_t>(t.shape()[is_transposed ? 0 : 1]);
  const auto weight = [&](size_t row, size_t column) {
    float x = 0;
    const size_t at = is_transposed ? column * rows + row : row * columns + column;
    std::memcpy(&x, bytes.data() + at * sizeof x, sizeof x);
    return x;
  };
  // The codes of two neighbors with one sign add up to 128 at most, rounded: 255 * 128 fits into 16 bits.
  constexpr float kMost = 127;
  constexpr size_t kTile = 16;  // columns that are read together, whichever way they are stored
  std::vector<float> scales(columns);
  std::vector<std::byte> codes(rows * columns);
  for (size_t first = 0; first < columns; first += kTile) {
    check_interrupt();
    const size_t count = std::min(kTile, columns - first);
    std::array<float, kTile> largest{}, above{}, steps{};
    bool is_finite = true;
    for (size_t k = 0; k < rows; ++k) {
      for (size_t n = 0; n < count; ++n) {
        const float x = weight(k, first + n);
        is_finite &= std::isfinite(x);
        const bool adds_up = !full_range && x * above[n] > 0;
        largest[n] = std::max(largest[n], std::abs(x) + (adds_up ? std::abs(above[n]) : 0));
        above[n] = x;
      }
    }
    if (!is_finite) return std::nullopt;
    for (size_t n = 0; n < count; ++n) {
      // The inverse of a smaller scale would be infinite.
      scales[first + n] = largest[n] > 0 ? std::max(largest[n] / kMost, std::numeric_limits<float>::min()) : 0;
      steps[n] = largest[n] > 0 ? 1 / scales[first + n] : 0;
    }
    for (size_t k = 0; k < rows; ++k) {
      for (size_t n = 0; n < count; ++n) {
        const float code = std::clamp(compress::nearest(weight(k, first + n) * steps[n]), -kMost, kMost);
        codes[k * columns + first + n] = static_cast<std::byte>(static_cast<int8_t>(code));
      }
    }
  }
  const auto as_bytes = std::as_bytes(std::span(scales));
  return Codes{Tensor::own(DType::kI8, {static_cast<int64_t>(rows), static_cast<int64_t>(columns)}, std::move(codes)),
               Tensor::own(DType::kF32, {static_cast<int64_t>(columns)}, {as_bytes.begin(), as_bytes.end()})};
}

// x as codes, with its scale and the code of zero.
struct Rounded {
  Value *codes = nullptr, *scale = nullptr, *zero = nullptr;
};

class ProductQuantizer {
 public:
  ProductQuantizer(Graph& top, PassContext& context)
      : top_(top),
        context_(context),
        min_elements_(context.options().number("min_elements", 1 << 16)),
        full_range_(context.options().flag("full_range", false)) {
    if (min_elements_ < 0) throw Error(ErrorCode::kInvalidArgument, "min_elements of quantize_products is not negative");
  }

  bool run() {
    bool changed = false;
    for (Graph* g : graphs_in(top_)) {
      rounded_.clear();
      for (Node* n = g->first(); n != nullptr;) {
        Node& at = *n;
        n = n->next();
        if (const auto product = product_of(at)) changed |= narrow(*g, at, *product);
      }
    }
    for (Value* weight : replaced_) {
      if (!weight->has_uses()) compress::erase_constant(*weight);
    }
    return changed;
  }

 private:
  bool narrow(Graph& g, Node& n, const Product& p) {
    const Tensor& t = *p.weight->constant();
    if (t.size() < min_elements_) {
      context_.log.near_miss(n, fmt::format("the weight has {} elements, and small products are not faster", t.size()));
      return false;
    }
    require_opset();
    const Codes* weight = codes_of(p);
    if (weight == nullptr) {
      context_.log.near_miss(n, "the weight is infinite or NaN");
      return false;
    }
    Rewriter b(g, context_);
    b.set_insertion_point(&n);
    const Rounded& x = rounding(*p.x, b);
    const std::string name(p.weight->name().view());
    const auto constant = [&](const TensorPtr& c, std::string_view suffix) {
      return b.constant(c, name.empty() ? std::string() : fmt::format("{}_{}", name, suffix));
    };
    Value* sums = b.MatMulInteger(x.codes, constant(weight->codes, "quantized"), x.zero);
    Value* scale = b.Mul(x.scale, constant(weight->scales, "scale"));
    Value* y = b.Mul(b.Cast(sums, {.to = DType::kF32}), scale);
    if (p.bias != nullptr) y = b.Add(y, p.bias);
    replaced_.insert(p.weight);
    context_.log.count("products");
    g.replace_uses(*n.result(), *y);
    g.erase(n);
    return true;
  }

  void require_opset() const {
    const auto has = context_.model.opset_version("");
    if (has && *has >= kDynamicQuantization) return;
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("products of 8 bits need opset {}, and the model imports {}", kDynamicQuantization, has.value_or(0)),
        {fmt::format("help: --opset {} converts the model first", kDynamicQuantization)});
  }

  // The codes of the weight, by rows; null if it has none.
  const Codes* codes_of(const Product& p) {
    const auto [at, is_new] = codes_.try_emplace({p.weight, p.is_transposed});
    if (is_new) at->second = encode(*p.weight->constant(), p.is_transposed, full_range_);
    return at->second ? &*at->second : nullptr;
  }

  const Rounded& rounding(Value& x, Rewriter& b) {
    Rounded& found = rounded_[&x];
    if (found.codes == nullptr) {
      Node& n = b.DynamicQuantizeLinear(&x);
      found = {.codes = n.result(0), .scale = n.result(1), .zero = n.result(2)};
    }
    return found;
  }

  Graph& top_;
  PassContext& context_;
  const int64_t min_elements_;
  const bool full_range_;
  std::map<std::pair<const Value*, bool>, std::optional<Codes>> codes_;
  std::set<Value*> replaced_;                // weights of products that are made
  std::map<const Value*, Rounded> rounded_;  // in the graph at hand
};

}  // namespace

Pass quantize_products() {
  return Pass::on_graph(Numerics::kRelaxed, needs({"MatMul", "Gemm"}),
                        [](Graph& top, PassContext& context) { return ProductQuantizer(top, context).run(); })
      .option("full_range", "true: codes of weights take 8 bits, which x86 processors without VNNI compute wrongly")
      .option("min_elements", "products with smaller weights stay (default: 65536)")
      .after_verification();
}

}  // namespace sardonyx::onnx
