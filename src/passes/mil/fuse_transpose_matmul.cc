//   matmul(transpose<last two axes swapped>(x), y)    =>    matmul<transpose_x = !transpose_x>(x, y)      and so for y
//
// A transpose with other readers stays for them. After coremltools' pass of this name.
#include "passes/mil/weights.h"

namespace sardonyx::mil {
namespace {

bool swaps_last_two(Node& transpose, PassContext& context) {
  const auto perm = param_ints(params(transpose, context), "perm");
  if (!perm || perm->size() < 2) return false;
  const auto rank = static_cast<int64_t>(perm->size());
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t p = (*perm)[static_cast<size_t>(i)], axis = p < 0 ? p + rank : p;
    if (axis != (i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i)) return false;
  }
  return true;
}

}  // namespace

Pass fuse_transpose_matmul() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, moved{"moved"};
  const Pattern transposed = m::transpose(x).as(moved);
  return Rule{
      .match = any_of(m::matmul(transposed, any), m::matmul(any, transposed)),
      .when = [](const Match& found) { return swaps_last_two(found.node(moved), found.context()); },
      .build =
          [](Rewriter& b, const Match& found) {
            const bool first = found.root().input(0) == found[moved];
            const std::string_view flag = first ? "transpose_x" : "transpose_y";
            const bool now = !param_bool(params(found.root(), b.context()), flag);
            return with_operands(b, found.root(), {{first ? "x" : "y", found[x]}, {flag, b.boolean(now)}});
          },
  };
}

}  // namespace sardonyx::mil
