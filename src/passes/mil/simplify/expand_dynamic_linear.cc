//   linear<w, b>(x), w computed      =>    add(matmul<transpose_y>(x, w), b)
//   linear<w, b>(x), only b computed =>    add(linear<w>(x), b)
//
// The addition is omitted if b is absent or zero, compressed or not. The weights of linear must be constant,
// or results of constexpr ops. After coremltools' pass of this name.
#include <algorithm>
#include <cmath>

#include "passes/mil/constants/weights.h"
#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

bool is_static(const Value* v) {
  return v == nullptr || v->is_constant() || (v->def() != nullptr && v->def()->op().name.starts_with("constexpr_"));
}

// Whether every stored element equals its zero point.
bool is_compressed_zero(const Value* v, PassContext& context) {
  Node* n = v->def();
  if (n == nullptr) return false;
  const auto constant = [&](std::string_view slot) -> TensorPtr {
    const Value* given = operand(*n, context, slot);
    return given != nullptr && given->is_constant() && !given->constant()->is_promise() ? given->constant() : nullptr;
  };
  const TensorPtr data = constant("quantized_data"), zero = constant("zero_point"), scale = constant("scale");
  if (data == nullptr || zero == nullptr || zero->rank() > 1 || scale == nullptr) return false;
  if (zero->rank() == 1 && zero->size() != data->size()) return false;
  if (!std::ranges::all_of(doubles(*scale), [](double s) { return std::isfinite(s); })) return false;
  for (int64_t i = 0; i < data->size(); ++i) {
    if (data->as_int(i) != zero->as_int(zero->rank() == 0 ? 0 : i)) return false;
  }
  return true;
}

}  // namespace

Pass expand_dynamic_linear() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, w{"w"};
  return Rule{
      .numerics = Numerics::kRounds,
      .match = m::linear(x, Pattern(w)),
      .when = [](const Match& found) { return !is_static(found[w]) || !is_static(found.root().input(2)); },
      .build = [](Rewriter& b, const Match& found) -> Value* {
        Value* bias = found.root().input(2);
        if (is_static(found[w])) return b.add(b.linear(found[x], {.weight = found[w]}), bias);
        Value* product = b.matmul(found[x], found[w], {.transpose_y = true});
        const bool zero = bias == nullptr || b.context().splat(bias) == 0.0 || is_compressed_zero(bias, b.context());
        return zero ? product : b.add(product, bias);
      },
  };
}

}  // namespace sardonyx::mil
