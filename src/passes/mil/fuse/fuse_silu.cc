//   x ── sigmoid ── mul(x) ── y    =>    x ── silu ── y
//
// ONNX has no operator for it before opset 24, and JAX has none. The sigmoid must have no other user.
// coremltools has no such pass: it gets silu from PyTorch and TensorFlow.
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

Pass fuse_silu() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"};
  return Rule{
      .numerics = Numerics::kRounds,
      .match = m::mul(x, sole(m::sigmoid(x))),
      .when = [](const Match& found) { return is_float(found[x]->dtype()); },
      .build = [](Rewriter& b, const Match& found) { return b.silu(found[x]); },
  };
}

}  // namespace sardonyx::mil
