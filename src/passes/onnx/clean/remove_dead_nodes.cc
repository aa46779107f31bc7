// Removes dead nodes, in reverse order so that one walk removes a chain of any length, then constants without
// users. Values that leave a body through an unused result of its If or Loop stay: the node determines the
// signature of its body.
#include "passes/dead_nodes.h"

namespace sardonyx::onnx {

Pass remove_dead_nodes() {
  return Pass::on_graph(Numerics::kExact,
                        [](Graph& top, PassContext& context) { return erase_dead_code(top, context, "nodes"); });
}

}  // namespace sardonyx::onnx
