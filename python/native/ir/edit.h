// Edits that several of the bound classes share.
#pragma once

#include <string_view>

#include "native/ir/store.h"

namespace sardonyx::python {

// A store that a tape keeps its nodes together in.
struct Stage {
  StorePtr store;
};

// The operator for a node of `g` (null: of no graph): at `version` if given, else at the opset that g imports, else the newest.
const Op& op_for(Store& s, const Graph* g, std::string_view domain, std::string_view name, std::optional<int> version);
// Looks all operators below g up again: its opset imports changed.
void resolve_ops(Store& s, Graph& g);

std::vector<OpsetImport>& opsets_of(Store& s, Graph& g);

// One store for a graph and nodes that are to join it. Nodes that were removed from another model move over.
StorePtr gather(const StorePtr& graph_store, const std::vector<PyNode*>& nodes);
// Puts nodes into g in order, before or after `at` (null: at the end). All are checked before the first moves.
void link_nodes(PyGraph& g, const std::vector<PyNode*>& nodes, PyNode* at, bool before);

// Checks that v can become an input, initializer or result of g; refuses otherwise. Nothing changes.
void check_input(const PyValue& v);
void check_initializer(const PyValue& v);
void check_output(const PyValue& v, const Graph* g);
// The changes; v is in the store of g.
void add_input(const StorePtr& s, Graph& g, PyValue& v);
void add_initializer(const StorePtr& s, Graph& g, PyValue& v);
void add_output(const StorePtr& s, Graph& g, Value& v);

// Refuses a model in which something is read that nothing defines: what only Python can leave behind.
void check_complete(Store& s);

}  // namespace sardonyx::python
