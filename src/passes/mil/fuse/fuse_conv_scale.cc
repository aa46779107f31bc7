//   x ── conv ── mul(c) or real_div(c) ── y    =>    x ── conv ── y
//
// Also for conv_transpose. c is one number or one per channel: (C, 1, ...) or (1, C, 1, ...), also if C is 1;
// the convolution must have no other user. Divisors may be zero and factors infinite, as in coremltools:
// infinities and NaN stay infinite or NaN, but may become the other. After coremltools' pass of this name.
#include <algorithm>
#include <cmath>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr Var conv{"conv"}, c{"c"};

// The convolution with its weights times c, if all factors are finite; with `finite` = false, if one is not.
Value* fuse(Rewriter& b, const Match& found, bool finite) {
  const auto layer = convolution(found.node(conv), b.context());
  if (!layer) return nullptr;
  const Tensor& t = *found[c]->constant();
  const size_t rank = layer->weight->rank();
  if (t.rank() > 1 && (t.size() != layer->channels || t.rank() + 1 < rank)) return nullptr;
  auto scale = per_channel(t, rank - 2, layer->channels);
  if (!scale) return nullptr;
  if (found.root().is("real_div")) {
    for (double& s : *scale) s = 1 / s;
  }
  if (std::ranges::all_of(*scale, [](double s) { return std::isfinite(s); }) != finite) return nullptr;
  return scaled(b, *layer, *scale, {0.0});
}

}  // namespace

Pass fuse_conv_scale() {
  using namespace pattern;
  namespace m = pattern::mil;
  const Pattern layer = sole(any_of(m::conv(any), m::conv_transpose(any))).as(conv);
  const Pattern product = any_of(m::mul(layer, constant.as(c)), m::real_div(layer, constant.as(c)));
  // The same type: sizes of the image may be symbols that only the convolution has.
  return std::vector<Rule>{
      {.name = "finite",
       .numerics = Numerics::kRounds,
       .match = product,
       .build = [](Rewriter& b, const Match& found) { return fuse(b, found, true); },
       .same_type = true},
      {.name = "infinite",
       .numerics = Numerics::kRelaxed,
       .match = product,
       .build = [](Rewriter& b, const Match& found) { return fuse(b, found, false); },
       .same_type = true},
  };
}

}  // namespace sardonyx::mil
