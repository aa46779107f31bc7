//   matmul(transpose<last two axes swapped>(x), y)    =>    matmul<transpose_x = !transpose_x>(x, y)      and so for y
//
// A transpose with other users stays for them. It may be outside of the block. After coremltools' pass of
// this name.
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

// The operand of the transpose that computes operand i; null unless matmul can absorb it.
Value* swapped(const Match& found, size_t i) {
  const auto t = Transpose::of(found.root().input(i)->def(), found.context().facts);
  const auto perm = t ? t->perm() : std::nullopt;
  return perm && swaps_last_two(*perm) ? t->x() : nullptr;
}

}  // namespace

Pass fuse_transpose_matmul() {
  using namespace pattern;
  namespace m = pattern::mil;
  return Rule{
      .match = m::matmul(any, any),
      .when = [](const Match& found) { return swapped(found, 0) != nullptr || swapped(found, 1) != nullptr; },
      .build =
          [](Rewriter& b, const Match& found) {
            const Matmul product(found.root(), b.facts());
            Value *x = swapped(found, 0), *y = swapped(found, 1);
            const auto flag = [&](const Value* absorbed, std::string_view slot) {
              return absorbed != nullptr ? Rewriter::Flags(!product.flag_in(slot)) : product.value_in(slot);
            };
            return b.like(found.root(), {{"x", x != nullptr ? x : found.root().input(0)},
                                         {"y", y != nullptr ? y : found.root().input(1)},
                                         {"transpose_x", flag(x, "transpose_x")},
                                         {"transpose_y", flag(y, "transpose_y")}});
          },
  };
}

}  // namespace sardonyx::mil
