//   x: rank 0 ── sub(c) ── expand_dims<0>    =>    expand_dims<0>(x) ── sub(expand_dims<0>(c))
//
// For add, sub, mul, real_div and floor_div with one constant. Other readers get the result through a squeeze; there may be only one
// expand_dims, and the value between may not be a result of the block. After coremltools' pass of this name.
#include <algorithm>

#include "passes/mil/params.h"

namespace sardonyx::mil {

Pass rank0_expand_dims_swap() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, y{"y"}, scalar{"scalar"};
  std::vector<Pattern> ops;
  for (const PatternOp& op : {m::add, m::sub, m::mul, m::real_div, m::floor_div}) ops.push_back(op(x, y));
  return Rule{
      .match = m::expand_dims(any_of(std::move(ops)).as(scalar)),
      .when =
          [](const Match& found) {
            const auto is_scalar = [](const Value* v) { return v->ranked() && v->type()->rank() == 0; };
            if (!is_scalar(found[x]) || !is_scalar(found[y]) || found[x]->is_constant() == found[y]->is_constant())
              return false;
            const auto axes = param_ints(params(found.root(), found.context()), "axes");
            if (!axes || *axes != std::vector<int64_t>{0} || is_graph_result(*found[scalar])) return false;
            return std::ranges::count_if(found[scalar]->uses(), [](const Use& u) { return u.owner->is("expand_dims"); }) == 1;
          },
      .build =
          [](Rewriter& b, const Match& found) {
            const std::vector<int64_t> first{0};
            const auto expanded = [&](Value* v) { return b.mil("expand_dims", {{"x", v}, {"axes", b.i32s(first)}}); };
            Value* one = expanded(found[x]);
            Value* other = expanded(found[y]);
            return b.mil(found.node(scalar).op().name, {{"x", one}, {"y", other}});
          },
  };
}

}  // namespace sardonyx::mil
