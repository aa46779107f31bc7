// Removes dead ops and unused constants. Writes to states stay. Walks backwards, so that one walk removes
// dead chains of any length. After coremltools' pass of this name.
#include "passes/dead_nodes.h"

namespace sardonyx::mil {

Pass dead_code_elimination() {
  return Pass::on_graph(Numerics::kExact,
                        [](Graph& top, PassContext& context) { return erase_dead_code(top, context, "ops"); });
}

}  // namespace sardonyx::mil
