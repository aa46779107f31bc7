//   concat<1>(x0, ..., xn-1): (B, nC, H, W) ── reshape (B, n, C, H, W) ── transpose<0,2,1,3,4> ── reshape (B, Cn, H, W)    =>    concat<1, interleave>
//
// All operands have the same, known shape. Values in between must have no other users. After coremltools'
// pass of this name.
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {

Pass detect_concat_interleave() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var joined{"joined"}, split{"split"}, transposed{"transposed"};
  return Rule{
      .match = m::reshape(sole(m::transpose(sole(m::reshape(sole(m::concat()).as(joined))).as(split))).as(transposed)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Concat concat(found.node(joined), b.facts());
        const std::vector<Value*> values = concat.values();
        if (concat.interleave()) return nullptr;
        if (Transpose(found.node(transposed), b.facts()).ints_in("perm") != std::vector<int64_t>{0, 2, 1, 3, 4}) return nullptr;
        const Type* one = values.front()->type();
        for (const Value* v : values) {
          if (v->type() != one || one == nullptr || !one->is_static() || one->rank() != 4) return nullptr;
        }
        const int64_t B = one->dim(0).value(), C = one->dim(1).value(), H = one->dim(2).value(), W = one->dim(3).value();
        const auto n = static_cast<int64_t>(values.size());
        if (found.type(split) != b.types().tensor(one->dtype(), {B, n, C, H, W})) return nullptr;
        return b.like(found.node(joined), {{"interleave", true}});
      },
  };
}

}  // namespace sardonyx::mil
