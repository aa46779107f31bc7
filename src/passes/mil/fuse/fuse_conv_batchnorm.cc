//   x ── conv ── batch_norm ── y    =>    x ── conv ── y
//
// Also for conv_transpose. With s = gamma / sqrt(variance + epsilon): weights times s, bias (b - mean) * s +
// beta. The convolution must have no other user. After coremltools' pass of this name, which scales the wrong
// channels of a grouped conv_transpose.
#include <cmath>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {

Pass fuse_conv_batchnorm() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var conv{"conv"};
  return Rule{
      .numerics = Numerics::kRounds,
      .match = m::batch_norm(sole(any_of(m::conv(any), m::conv_transpose(any))).as(conv)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const auto layer = convolution(found.node(conv), b.context());
        if (!layer) return nullptr;
        const auto channels = static_cast<size_t>(layer->channels);
        const BatchNorm norm(found.root(), b.facts());
        const auto vector = [&](const Value* v, double otherwise = 0) -> std::optional<std::vector<double>> {
          if (v == nullptr) return std::vector<double>(channels, otherwise);
          if (!v->is_constant() || v->constant()->size() != layer->channels) return std::nullopt;
          return doubles(*v->constant());
        };
        const auto mean = vector(norm.mean()), variance = vector(norm.variance()), gamma = vector(norm.gamma(), 1),
                   beta = vector(norm.beta());
        const auto epsilon = norm.epsilon();
        if (!mean || !variance || !gamma || !beta || !epsilon) return nullptr;
        std::vector<double> scale(channels), shift(channels);
        for (size_t i = 0; i < channels; ++i) {
          scale[i] = (*gamma)[i] / std::sqrt((*variance)[i] + *epsilon);
          shift[i] = (*beta)[i] - (*mean)[i] * scale[i];
          if (!std::isfinite(scale[i])) return nullptr;  // sums of infinities would be NaN
        }
        return scaled(b, *layer, scale, shift);
      },
      .same_type = true,  // sizes of the image may be symbols that only the convolution has
  };
}

}  // namespace sardonyx::mil
