//   Dropout(x, ratio, false)        =>   Dropout(x, ratio)
//   Dropout(x, ratio, Not(true))    =>   Dropout(x, ratio)
//
// An absent training_mode means false. One that is true or computed at run time stays.
// After jax2onnx's pass of this name.
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

bool is_false(PassContext& context, const Value* mode) {
  if (mode == nullptr) return false;
  if (context.splat(mode) == 0.0) return true;
  const Node* def = mode->def();
  return def != nullptr && def->is("Not") && context.splat(def->input(0)) == 1.0;
}

}  // namespace

Pass inline_dropout_training_mode_constants() {
  using namespace pattern;
  return Rule{
      .match = Dropout(any, rest).since(12),
      .when = [](const Match& m) { return is_false(m.context(), m.root().input(2)); },
      .build_all =
          [](Rewriter& b, const Match& m) {
            const Node& n = m.root();
            std::vector<Value*> operands{n.input(0)};
            if (n.input(1) != nullptr) operands.push_back(n.input(1));
            return results_of(b.make(n.op(), operands, n.num_results(), attrs_of(n)));
          },
  };
}

}  // namespace sardonyx::onnx
