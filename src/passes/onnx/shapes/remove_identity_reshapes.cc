//   x: S ── Reshape(constant S) ── z      =>   x
//
// Applies only if the target lists every size as a number: no 0, no -1, no symbol.
// After jax2onnx's pass of this name.
#include <algorithm>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

Pass remove_identity_reshapes() {
  using namespace pattern;
  static constexpr Var x{"x"}, shape{"shape"};
  return Rule{
      .match = Reshape(x, constant.as(shape)),
      .when =
          [](const Match& m) {
            // The driver checks that x has this shape.
            const auto wanted = m.ints(shape);
            return m[x]->ranked() && wanted && std::all_of(wanted->begin(), wanted->end(), [](int64_t w) { return w > 0; });
          },
      .build = [](Rewriter&, const Match& m) { return m[x]; },
  };
}

}  // namespace sardonyx::onnx
