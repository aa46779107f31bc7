//   x: rank 4 ── mul(g) ── add(b) ── y    =>    x ── batch_norm<gamma = g, beta = b> ── y
//
// g and b have the shape (1, C, 1, 1) or (C, 1, 1), with more than one channel. The product must have no
// other user and not be returned by the block; coremltools' pass of this name requires this of the sum, too.
// Relaxed: batch_norm divides by sqrt(1 + 1e-5), its default epsilon.
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

bool along_channels(const Tensor& t) {
  const auto s = t.shape();
  return is_float(t.dtype()) && s.size() >= 3 && s[s.size() - 3] == t.size() && t.size() > 1;
}

TensorPtr vector_of(const Tensor& t) { return tensor_of(t.dtype(), {t.size()}, doubles(t)); }

}  // namespace

Pass fuse_elementwise_to_batchnorm() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, gamma{"gamma"}, beta{"beta"};
  return Rule{
      .numerics = Numerics::kRelaxed,
      .match = m::add(sole(m::mul(x, constant.as(gamma))), constant.as(beta)),
      .when =
          [](const Match& found) {
            const TensorPtr &g = found[gamma]->constant(), &b = found[beta]->constant();
            return found[x]->ranked() && found.type(x)->rank() == 4 && !found[x]->is_constant() && along_channels(*g) &&
                   along_channels(*b);
          },
      .build =
          [](Rewriter& b, const Match& found) {
            const TensorPtr &g = found[gamma]->constant(), &shift = found[beta]->constant();
            return b.batch_norm(found[x], {.beta = vector_of(*shift),
                                           .gamma = vector_of(*g),
                                           .mean = Tensor::full(g->dtype(), {g->size()}, 0),
                                           .variance = Tensor::full(g->dtype(), {g->size()}, 1)});
          },
  };
}

}  // namespace sardonyx::mil
