//   x ── conv ── mul(c) or real_div(c) ── y    =>    x ── conv ── y
//
// Also for conv_transpose. c is one number or one per channel: (C, 1, ...) or (1, C, 1, ...), also where C is 1; the convolution must have no other
// reader. After coremltools' pass of this name.
#include "passes/mil/weights.h"

namespace sardonyx::mil {

Pass fuse_conv_scale() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var conv{"conv"}, c{"c"};
  const Pattern layer = sole(any_of(m::conv(any), m::conv_transpose(any))).as(conv);
  return Rule{
      .numerics = Numerics::kRounds,
      .match = any_of(m::mul(layer, constant.as(c)), m::real_div(layer, constant.as(c))),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const auto conv_layer = convolution(found.node(conv), b.context());
        if (!conv_layer) return nullptr;
        const Tensor& t = *found[c]->constant();
        const size_t rank = conv_layer->weight->rank();
        if (t.rank() > 1 && (t.size() != conv_layer->channels || t.rank() + 1 < rank)) return nullptr;
        auto scale = per_channel(t, rank - 2, conv_layer->channels);
        if (!scale) return nullptr;
        if (found.root().is("real_div")) {
          for (double& s : *scale) s = 1 / s;
        }
        return scaled(b, *conv_layer, *scale, {0.0});
      },
      .same_type = true,  // sizes of the image may be symbols that only the convolution has
  };
}

}  // namespace sardonyx::mil
