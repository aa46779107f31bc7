//   floor(x / y)    =>    floor_div(x, y)
//   1 / sqrt(x)     =>    rsqrt(x)
//
// Floats only. The inner op must have no other user. divide_to_multiply, which comes later, would round x *
// (1 / y) to the other side of an integer. coremltools has no such pass: it gets both ops from PyTorch.
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

Pass fuse_quotients() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, y{"y"};
  const auto of_floats = [](const Match& found) { return is_float(found[x]->dtype()); };
  return std::vector<Rule>{
      {.name = "floor_div",
       .numerics = Numerics::kRounds,
       .match = m::floor(sole(m::real_div(x, y))),
       .when = of_floats,
       .build = [](Rewriter& b, const Match& found) { return b.floor_div(found[x], found[y]); }},
      {.name = "rsqrt",
       .numerics = Numerics::kRounds,
       .match = m::real_div(splat(1), sole(m::sqrt(x))),
       .when = of_floats,
       .build = [](Rewriter& b, const Match& found) { return b.rsqrt(found[x], {.epsilon = b.scalar(found[x]->dtype(), 0)}); }},
  };
}

}  // namespace sardonyx::mil
