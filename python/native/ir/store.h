// Connects Python's ir objects to native models: stores, handles, and moves between models.
//
// A Store is one native Model with a table from native objects to their live Python handles, so that `a is b`
// holds whenever two expressions name the same native object. Values, nodes and graphs made outside a model
// live in their own stores. When something connects them, combine() merges the stores and the handles follow.
// A store that belongs to an ir.Model or to native code never moves: what joins it moves into it. Two such
// stores refuse to merge.
//
//   x = ir.val("x")              lobby:     x                     values without users share this store
//   n = ir.Node("", "Neg", [x])  store 1:   x ── Neg              the handle of x follows
//   m = ir.Model(ir.Graph(...))  store 1:   graph { x ── Neg }    owned from here on
//
// The smaller store is cloned into the larger one, so that a graph of n nodes costs O(n log n) at worst. Its
// originals are erased afterwards; users that stay behind get placeholders.
//
// Relies on nanobind's inst_alloc, inst_mark_ready and find: run test_ir_handles.py and test_ir_fuzz.py
// before moving to a new nanobind or Python.
//
// Everything here needs the interpreter lock, which also makes it safe to use from several threads.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "native/errors.h"
#include "sardonyx/ir.h"

namespace sardonyx::python {

namespace nb = nanobind;

// As refuse(), for an argument of the wrong type: the error is also a Python TypeError.
[[noreturn]] void refuse_type(std::string_view message);

class Store;
using StorePtr = std::shared_ptr<Store>;

// Facts about a graph that native graphs do not hold.
struct GraphFacts {
  std::vector<OpsetImport> opsets;  // of graphs that are not a function's body
  // Names in use, collected when the first name (val_0, node_Add_0, ...) is generated. They are kept at the
  // outermost graph for all its nested graphs, since a name in a nested graph must not shadow one outside.
  bool names_known = false;
  uint64_t next_value = 0, next_node = 0;
  std::unordered_set<std::string> value_names, node_names;
  std::unordered_set<const Graph*> joined;  // nested graphs whose names are included
  // Initializers by name. Complete when it has as many entries as the graph has initializers.
  std::unordered_map<std::string, Value*> initializers;
};

class Store : public std::enable_shared_from_this<Store> {
 public:
  std::shared_ptr<Model> model;
  bool owned = false;  // belongs to an ir.Model or to native code: its content leaves only on request
  bool lobby = false;  // holds values that nothing uses yet
  StorePtr moved_to;   // set when everything moved into another store

  std::unordered_map<const void*, void*> handles;          // native object -> PyValue, PyNode, ... (weak)
  std::unordered_map<const void*, nb::object> meta;        // .meta of values, nodes, graphs
  std::unordered_map<const Value*, ValueInfo> loose_info;  // doc strings and metadata of values in no graph
  std::unordered_map<const Value*, nb::object> tensors;    // const_value objects
  std::unordered_map<const Value*, bool> auto_named;       // values with a generated name
  std::unordered_map<const Value*, bool> absent;           // named "": unwanted outputs, which get no name
  std::unordered_map<const Node*, int> versions;           // node.version where it was given
  std::unordered_map<const Graph*, GraphFacts> graph_facts;
  std::vector<Value*> placeholders;  // may include values that are filled by now
  std::vector<Node*> loose_nodes;    // may include nodes that are linked or dead by now
  std::vector<Graph*> roots;         // may include graphs that have an owner by now

  // Makes a store with a new model that imports the newest operators.
  static StorePtr make();
  // The store of a model that native code owns (a model being lowered, a model read from a file). The same
  // one on each call.
  static StorePtr of(std::shared_ptr<Model> model);
  // The store that holds this store's content now.
  StorePtr now();

  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  GraphFacts& facts(const Graph& g) { return graph_facts[&g]; }
};

// The current lobby.
StorePtr lobby();

// ---------------------------------------------------------------------------------------------------------------------
// Handles: what Python objects hold

template <class T>
class Handle {
 public:
  Handle() = default;
  Handle(StorePtr s, T* p) : store(std::move(s)), ptr(p) { store->handles[p] = this; }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { forget(); }
  void bind(StorePtr s, T* p) {
    forget();
    store = std::move(s);
    ptr = p;
    store->handles[p] = this;
  }

  StorePtr store;
  T* ptr = nullptr;

 private:
  void forget() {
    if (store == nullptr) return;
    auto at = store->handles.find(ptr);
    if (at != store->handles.end() && at->second == this) store->handles.erase(at);
  }
};

class PyValue : public Handle<Value> {
 public:
  using Handle::Handle;
};
class PyNode : public Handle<Node> {
 public:
  using Handle::Handle;
};
class PyGraph : public Handle<Graph> {
 public:
  using Handle::Handle;
};
class PyModel : public Handle<Model> {
 public:
  using Handle::Handle;
};
// A function whose graph is not in a model yet keeps its data in `own` and is not in its store's table.
class PyFunction : public Handle<Function> {
 public:
  using Handle::Handle;
  std::unique_ptr<Function> own;
  nb::object graph;  // the PyGraph
  Function& data() const { return own ? *own : *ptr; }
};

// A constant's payload, with the name that Python users give tensors.
class PyTensor {
 public:
  TensorPtr tensor;
  std::optional<std::string> name, doc;
  Metadata metadata;
  std::string unknown;  // other fields of the TensorProto it was read from, in wire format
};
// All of these fields in wire format, as NamedAttr::tensor_fields has them.
std::string tensor_fields(const PyTensor& t);

// The Python classes of new handles. They are subclasses, written in Python, of the ones bound here.
struct PythonClasses {
  nb::handle value, node, graph, function, model, tensor;
};
PythonClasses& python_classes();

// The handle of a native object: the live one, or a new one.
nb::object wrap(const StorePtr& s, Value* v);  // null: None
nb::object wrap(const StorePtr& s, Node* n);
nb::object wrap(const StorePtr& s, Graph* g);
nb::object wrap(const StorePtr& s, Function* f);
nb::object wrap_model(const StorePtr& s);
nb::object wrap_tensor(TensorPtr t, std::optional<std::string> name = {});
nb::object wrap_tensor_with(TensorPtr t, std::string_view fields);  // fields: see tensor_fields()

// The native object behind a handle. Refuses handles of erased objects.
Value& live(const PyValue& v);
Node& live(const PyNode& n);
Graph& live(const PyGraph& g);

// Descriptions for messages.
std::string describe(const Value& v);
std::string describe(const Node& n);
std::string describe(const Graph& g);

// ---------------------------------------------------------------------------------------------------------------------
// Moving between stores (moving.cc)

// Merges stores into one; a no-op if they are one already. Refuses when two of them are owned. Skips nulls
// and lobbies, whose values move one by one with bring(). Makes a new store when none is left.
StorePtr combine(std::vector<StorePtr> stores);
// Returns v in store s, which combine() made from all stores involved. Moves v out of the lobby.
Value* bring(const StorePtr& s, PyValue& v);
// Moves detached nodes and unowned graphs, and the placeholders they use. Refuses when they use anything that
// stays.
void transfer(const StorePtr& from, const StorePtr& to, const std::vector<Node*>& nodes, const std::vector<Graph*>& graphs);

// Copies g into `to`, another store or the same one, as an unowned graph. Values that g captures are shared.
Graph& copy_graph(Graph& g, const StorePtr& to);

// Replaces v, an input or initializer that is about to be removed, by a placeholder for all users. The handle
// follows.
Value& uproot(const StorePtr& s, Value& v);
// The inverse: replaces a placeholder by v, which was newly made.
void plant(const StorePtr& s, Value& placeholder, Value& v);

// ---------------------------------------------------------------------------------------------------------------------
// Names, types and facts of values (names.cc)

std::string value_name(const Value& v);  // the port's name of inputs and results
void rename(Store& s, Value& v, std::string_view name);
// The doc string and metadata of a value, wherever they are kept.
Notes notes_of(Store& s, Value& v);
void set_notes(Store& s, Value& v, Notes notes);
void keep_loose(Store& s, const Value& v, Notes notes);  // for a value in no graph; drops empty notes
// An initializer of g by name, or null.
Value* find_initializer(Store& s, Graph& g, std::string_view name);
// The payload of an initializer (also of an input with a default), or null.
const TensorPtr& initializer_of(const Value& v);
// Sets the type that the user gives a value: it is known from now on, and written to the file.
void declare(Value& v, const Type* type);
// The graph that returns v, or null.
Graph* output_of(const Value& v);
// Names a node that was just linked, and its results. What is known of them moves to the facts of their new
// graph.
void settle(Store& s, Node& n);
// Renames values in the graphs nested in n, which were just given to it, where they shadow names around it.
void join_bodies(Store& s, Node& n);
void note_name(Store& s, Graph& g, const std::string& name);  // reserves a name, so that none is generated equal to it
std::string fresh_value_name(Store& s, Graph& g, std::string_view base = {});
// Unlinks the node from its graph. What is known of its results is kept.
void unlink(Store& s, Node& n);

// ---------------------------------------------------------------------------------------------------------------------
// Types and attributes as Python sees them (types.cc, attrs.cc)

// ("tensor", dtype), ("sparse", dtype), ("sequence", inner), ("optional", inner), ("map", key, inner),
// ("opaque", text); None if unknown.
nb::object type_to_python(const Type* t);
// The dims of the innermost tensor: a list of int, str or None. None if the rank is unknown.
nb::object dims_to_python(const Dims& dims, const Type* t);
const Type* type_from_python(Types& types, nb::handle type, nb::handle dims);
Dim dim_from_python(Dims& dims, nb::handle d);

// An attribute is (name, type number, value, ref_attr_name or None, doc or None). Graphs are bodies of the
// node. A sparse tensor is (values, indices, dims).
nb::list attributes_to_python(const StorePtr& s, Node& n);
std::vector<PyGraph*> graphs_among(nb::handle items);
// Replaces all attributes of n, a node of s. Graphs among them must already be in s.
void set_attributes(const StorePtr& s, Node& n, nb::handle items);
NamedAttr attribute_from_python(Types& types, nb::handle item);
nb::tuple attribute_to_python(const NamedAttr& a, const Types& types);

Metadata metadata_from_python(nb::handle pairs);
nb::list metadata_to_python(const Metadata& m);
nb::object str_or_none(std::string_view text);  // "" is None

void bind_ir(nb::module_& m);
void bind_ir_tensor(nb::module_& m);
void bind_ir_value(nb::module_& m);
void bind_ir_node(nb::module_& m);
void bind_ir_graph(nb::module_& m);
void bind_ir_model(nb::module_& m);
void bind_ir_io(nb::module_& m);
void bind_ir_write(nb::module_& m);
void bind_ir_text(nb::module_& m);

}  // namespace sardonyx::python
