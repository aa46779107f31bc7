//   matmul(transpose<last two axes swapped>(x), y)    =>    matmul<transpose_x = !transpose_x>(x, y)      and so for y
//
// A transpose with other users stays for them. It may be outside of the block. After coremltools' pass of
// this name.
#include "passes/mil/weights.h"

namespace sardonyx::mil {
namespace {

bool swaps_last_two(Node& transpose, PassContext& context) {
  const auto perm = param_ints(params(transpose, context), "perm");
  if (!perm) return false;
  const auto rank = static_cast<int64_t>(perm->size());
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t p = (*perm)[static_cast<size_t>(i)], axis = p < 0 ? p + rank : p;
    if (axis != (i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i)) return false;
  }
  return true;
}

// The operand of the transpose that computes operand i; null unless matmul can absorb it.
Value* swapped(const Match& found, size_t i) {
  Node* n = found.root().input(i)->def();
  return n != nullptr && n->is("transpose") && !n->unchecked() && swaps_last_two(*n, found.context()) ? n->input(0) : nullptr;
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
            const InferContext at = params(found.root(), b.context());
            Value *x = swapped(found, 0), *y = swapped(found, 1);
            const auto flag = [&](const Value* moved, std::string_view slot) {
              return moved != nullptr ? Rewriter::Flags(!param_bool(at, slot)) : operand(found.root(), b.context(), slot);
            };
            return b.like(found.root(), {{"x", x != nullptr ? x : found.root().input(0)},
                                         {"y", y != nullptr ? y : found.root().input(1)},
                                         {"transpose_x", flag(x, "transpose_x")},
                                         {"transpose_y", flag(y, "transpose_y")}});
          },
  };
}

}  // namespace sardonyx::mil
