// Removes dead ops and unused constants. Writes to states stay. Walks backwards, so that one walk removes
// dead chains of any length. After coremltools' pass of this name.
#include "rewrite/pass.h"

namespace sardonyx::mil {

Pass dead_code_elimination() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    const size_t ops = erase_dead_nodes(top);
    size_t constants = 0;
    for (Graph* g : graphs_in(top)) constants += g->erase_unread_constants();
    context.log.count("ops", ops);
    context.log.count("constants", constants);
    return ops + constants > 0;
  });
}

}  // namespace sardonyx::mil
