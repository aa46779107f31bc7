//   x ── reduce_sum<axes> ── mul(1/n) or real_div(n) ── y    =>    x ── reduce_mean<axes> ── y      where n elements are summed
//
// The sizes of the axes must be known; n matches within coremltools' tolerance. The sum must have no other
// user. After its pass of this name.
#include <cmath>

#include "passes/mil/params.h"

namespace sardonyx::mil {

Pass fuse_reduce_mean() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, sum{"sum"}, n{"n"};
  const Pattern inner = sole(m::reduce_sum(x)).as(sum);
  return Rule{
      .numerics = Numerics::kRounds,
      .match = any_of(m::mul(inner, constant.as(n)), m::real_div(inner, constant.as(n))),
      .when =
          [](const Match& found) {
            const auto axes = ReduceSum(found.node(sum), found.context().facts).axes();
            const Type* t = found.type(x);
            if (!axes || !found[x]->ranked() || found[n]->constant()->size() != 1) return false;
            double count = 1;
            for (int64_t a : *axes) {
              const Dim d = t->dim(static_cast<size_t>(a));
              if (!d.is_int()) return false;
              count *= static_cast<double>(d.value());
            }
            const double given = found[n]->constant()->as_double(0);
            if (!found.root().is("mul")) return std::abs(given - count) <= 1e-2;
            return std::abs(given - 1 / count) <= 1e-6 && std::abs(given * count - 1) <= 1e-2;  // for large counts
          },
      .build =
          [](Rewriter& b, const Match& found) {
            const ReduceSum s(found.node(sum), b.facts());
            return b.reduce_mean(found[x], {.axes = s.value_in("axes"), .keep_dims = s.value_in("keep_dims")});
          },
  };
}

}  // namespace sardonyx::mil
