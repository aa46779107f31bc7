//   x: S ── Reshape(constant S) ── z      =>   x
//
// Only where every size is a number that the shape names: no 0, no -1, no symbol.
// After jax2onnx's pass of this name.
#include <algorithm>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

Pass remove_identity_reshapes() {
  using namespace pattern;
  static constexpr Var x{"x"}, shape{"shape"};
  return Rule{
      .match = Reshape(x, constant.as(shape)),
      .when =
          [](const Match& m) {
            if (!m[x]->ranked() || m.type(x)->rank() != static_cast<size_t>(m[shape]->constant()->size())) return false;
            const auto wanted = m.ints(shape);
            const auto dims = m.type(x)->dims();
            return wanted && std::equal(dims.begin(), dims.end(), wanted->begin(), wanted->end(),
                                        [](Dim d, int64_t w) { return d.is_int() && d.value() == w && w > 0; });
          },
      .build = [](Rewriter&, const Match& m) { return m[x]; },
      .same_type = true,
  };
}

}  // namespace sardonyx::onnx
