//   x ── real_div(c) ── y    =>    x ── mul(1/c) ── y
//
// Only for floats, and only if every reciprocal is finite. After coremltools' pass of this name, names
// included.
#include <fmt/format.h>

#include <cmath>

#include "passes/mil/named.h"
#include "passes/mil/params.h"

namespace sardonyx::mil {

Pass divide_to_multiply() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, c{"c"};
  return Rule{
      .numerics = Numerics::kRounds,
      .match = m::real_div(x, constant.as(c)),
      .when = [](const Match& found) { return is_float(found[c]->dtype()); },
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Tensor& t = *found[c]->constant();
        const DType dtype = t.dtype();
        std::vector<std::byte> bytes(t.byte_size());
        for (int64_t i = 0; i < t.size(); ++i) {
          encode_element(dtype, bytes.data(), i, 1.0 / t.as_double(i));
          if (!std::isfinite(decode_element(dtype, bytes.data(), i))) return nullptr;
        }
        const std::vector<int64_t> shape(t.shape().begin(), t.shape().end());
        Value* reciprocal = b.constant(Tensor::own(dtype, shape, std::move(bytes)));
        Value* y = b.mul(found[x], reciprocal);
        const std::string_view name = found.root().name().view();
        return named(b, y, name.empty() ? std::string() : fmt::format("_inversed_{}", name));
      },
  };
}

}  // namespace sardonyx::mil
