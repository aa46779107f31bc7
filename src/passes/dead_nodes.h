// Dead code elimination for the passes of both dialects.
#pragma once

#include "rewrite/pass.h"

namespace sardonyx {

// Erases dead nodes of `top` and its bodies, in reverse order so that one walk removes a chain of any length,
// then constants without users. Logs the counts, the nodes' under `unit` ("nodes", "ops"). Returns whether
// anything was erased.
inline bool erase_dead_code(Graph& top, PassContext& context, std::string_view unit) {
  const size_t nodes = erase_dead_nodes(top);
  size_t constants = 0;
  for (Graph* g : graphs_in(top)) constants += g->erase_unused_constants();
  context.log.count(unit, nodes);
  context.log.count("constants", constants);
  return nodes + constants > 0;
}

}  // namespace sardonyx
