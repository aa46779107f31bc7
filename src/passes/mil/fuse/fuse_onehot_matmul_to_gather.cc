//   one_hot<axis -1, on 1, off 0>(ids) ── matmul(W) ── y    =>    gather<axis 0>(W, ids)
//
// W is constant, of rank 2, and neither operand is transposed. From iOS 17 on, gather needs ids that are not
// negative: a select adds the number of rows, which an op computes, as in coremltools. The one-hot value must
// have no other user. After coremltools' pass of this name, whose documentation draws a gather with the
// one-hot value itself.
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr int kIos17 = 8;

}  // namespace

Pass fuse_onehot_matmul_to_gather() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var ids{"ids"}, hot{"hot"}, w{"w"};
  return Rule{
      .numerics = Numerics::kRelaxed,  // ids beyond the rows give zeros before, and are not allowed after
      .match = m::matmul(sole(m::one_hot(ids)).as(hot), constant.as(w)),
      .when =
          [](const Match& found) {
            const OneHot one(found.node(hot), found.context().facts);
            const Matmul product(found.root(), found.context().facts);
            if (!found[ids]->ranked() || found[w]->constant()->rank() != 2) return false;
            if (one.axis() != found.type(ids)->rank()) return false;
            const auto value = [&](std::string_view slot, double otherwise) {
              const Value* v = one.value_in(slot);
              return v == nullptr ? std::optional(otherwise) : found.context().splat(v);
            };
            return value("on_value", 1) == 1.0 && value("off_value", 0) == 0.0 &&
                   one.one_hot_vector_size() == found[w]->constant()->shape()[0] && !product.transpose_x() &&
                   !product.transpose_y();
          },
      .build =
          [](Rewriter& b, const Match& found) {
            Value* indices = found[ids];
            if (b.version() >= kIos17) {
              Value* test = b.greater_equal(indices, 0);
              Value* rows = element_of(b, b.shape(found[w]), 0);
              Value* sum = b.add(indices, rows);
              indices = b.select(test, indices, sum);
            }
            return b.gather(found[w], indices, {.axis = 0});
          },
  };
}

}  // namespace sardonyx::mil
