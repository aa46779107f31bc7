// max x y   =>   Max(x, y), bools: Or;  the other operand where one is -inf (as softmax makes it)
// min x y   =>   Min(x, y), bools: And;  the other operand where one is inf
#include <limits>

#include "lower/kernels.h"

namespace sardonyx {
namespace {

std::vector<Value*> extreme(Lowering& at, std::string_view op, std::string_view bool_op, double neutral) {
  auto xs = operands(at);
  if (at.out_dtype() == DType::kBool) return {via(at, bool_op, xs)};
  for (size_t i = 0; i < 2; ++i) {
    auto value = splat_value(xs[i]);
    if (value && *value == neutral && xs[1 - i]->type() == at.out_type()) return {xs[1 - i]};
  }
  return {via(at, op, xs)};
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

std::vector<Value*> lower_max(Lowering& at) { return extreme(at, "Max", "Or", -kInfinity); }
std::vector<Value*> lower_min(Lowering& at) { return extreme(at, "Min", "And", kInfinity); }

}  // namespace sardonyx
