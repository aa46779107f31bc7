// Edits shared by several bound classes.
#pragma once

#include <string_view>

#include "native/ir/store.h"

namespace sardonyx::python {

// The store in which a tape keeps its nodes together.
struct Stage {
  StorePtr store;
};

// The operator for a node of `g`, or of no graph when `g` is null. Its version is `version` if given, else
// the opset that g imports, else the newest.
const Op& op_for(Store& s, const Graph* g, std::string_view domain, std::string_view name, std::optional<int> version);
// Looks up all operators below g again after its opset imports changed.
void resolve_ops(Store& s, Graph& g);

std::vector<OpsetImport>& opsets_of(Store& s, Graph& g);

// Brings a graph and the nodes that are to join it into one store. Nodes that were removed from another model
// move over.
StorePtr gather(const StorePtr& graph_store, const std::vector<PyNode*>& nodes);
// Inserts nodes into g in order, before or after `at` (null: at the end). Checks all of them before moving
// the first.
void link_nodes(PyGraph& g, const std::vector<PyNode*>& nodes, PyNode* at, bool before);

// Throws unless v can become an input, initializer or result of g. Changes nothing.
void check_input(const PyValue& v);
void check_initializer(const PyValue& v);
void check_output(const PyValue& v, const Graph* g);
// These make the change; v must already be in g's store.
void add_input(const StorePtr& s, Graph& g, PyValue& v);
void add_initializer(const StorePtr& s, Graph& g, PyValue& v);
void add_output(const StorePtr& s, Graph& g, Value& v);

// Refuses a model that uses a value nothing defines. Only edits in Python can leave one behind.
void check_complete(Store& s);

// What keeps the bytes alive for a model that refers to them, from any thread.
std::shared_ptr<const void> kept_alive(const nb::bytes& bytes);

}  // namespace sardonyx::python
