//   conv_transpose(x)    =>    conv_transpose<output_shape>(x)      where the shape of the result is known
//
// After coremltools' pass of this name, names included.
#include <fmt/format.h>

#include "passes/mil/constants/weights.h"
#include "passes/mil/named.h"

namespace sardonyx::mil {

Pass add_conv_transpose_output_shape() {
  using namespace pattern;
  namespace m = pattern::mil;
  return Rule{
      .match = m::conv_transpose(any),
      .when =
          [](const Match& found) {
            const Type* t = found.root().result()->type();
            return t != nullptr && t->is_static() && operand(found.root(), found.context(), "output_shape") == nullptr;
          },
      .build =
          [](Rewriter& b, const Match& found) {
            std::vector<int64_t> shape;
            for (Dim d : found.root().result()->type()->dims()) shape.push_back(d.value());
            Value* y = b.like(found.root(), {{"output_shape", shape}});
            const std::string_view name = found.root().name().view();
            return named(b, y, name.empty() ? std::string() : fmt::format("{}_has_output_shape", name));
          },
  };
}

}  // namespace sardonyx::mil
