//   matmul(x * a, y * b)    =>    matmul(x * (a * b), y)      of numbers a and b; a transpose may follow either factor
//
// PyTorch's exporter multiplies both the queries and the keys of attention by the root of its scale. The
// products must have no other user. Floats only, and only if a * b neither overflows nor vanishes in half
// precision.
#include <cmath>

#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

Pass fuse_product_scales() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, y{"y"}, a{"a"}, b{"b"}, xt{"xt"}, yt{"yt"};
  const Pattern left = sole(m::mul(constant.as(a), x)), right = sole(m::mul(constant.as(b), y));
  return Rule{
      .numerics = Numerics::kRounds,
      .match = m::matmul(any_of(left, sole(m::transpose(left)).as(xt)), any_of(right, sole(m::transpose(right)).as(yt))),
      .build = [](Rewriter& at, const Match& found) -> Value* {
        const auto first = found.splat(a), second = found.splat(b);
        const DType d = found[x]->dtype();
        const bool numbers = found[a]->constant()->size() == 1 && found[b]->constant()->size() == 1;
        if (!first || !second || !numbers || !is_float(d) || found[y]->dtype() != d) return nullptr;
        const double scale = *first * *second;
        constexpr double kLeast = 0x1p-14, kMost = 65504;
        if (!(std::abs(scale) >= kLeast && std::abs(scale) <= kMost)) return nullptr;
        const auto retransposed = [&](Var transpose, Value* v) {
          return found[transpose] == nullptr ? v : at.like(*found[transpose]->def(), {{"x", v}});
        };
        Value* scaled = retransposed(xt, at.mul(found[x], at.scalar(d, scale)));
        return at.like(found.root(), {{"x", scaled}, {"y", retransposed(yt, found[y])}});
      },
  };
}

}  // namespace sardonyx::mil
