// What stands between Python's ir objects and native models: stores, handles, and how things move between models.
//
// A Store is one native Model with a table from native objects to their live Python handles, so that `a is b` holds whenever
// two expressions name the same native object. Values, nodes and graphs made outside a model live in stores of their own;
// combine() brings stores together when something connects them, and the handles follow. A store that belongs to an ir.Model,
// or to native code, never moves: what joins it comes to it.
//
// Everything here needs the interpreter lock, which is also what makes two threads safe.
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

// The same for an argument of a wrong type: the error is Python's TypeError, too.
[[noreturn]] void refuse_type(std::string_view message);

class Store;
using StorePtr = std::shared_ptr<Store>;

// Facts about a graph that native graphs do not hold.
struct GraphFacts {
  std::vector<OpsetImport> opsets;  // of graphs that are no function's body
  // Names given to what has none: val_0, node_Add_0, ... Kept at the outermost graph, for all that is nested in it: a name of
  // a nested graph must not hide one outside.
  bool names_known = false;
  uint64_t next_value = 0, next_node = 0;
  std::unordered_set<std::string> value_names, node_names;
  std::unordered_set<const Graph*> joined;  // nested graphs whose names are among them
  // Initializers by name; complete when as many as the graph has.
  std::unordered_map<std::string, Value*> initializers;
};

class Store : public std::enable_shared_from_this<Store> {
 public:
  std::shared_ptr<Model> model;
  bool owned = false;  // belongs to an ir.Model or to native code: nothing leaves unless it is asked for
  bool lobby = false;  // where values wait that nothing reads yet
  StorePtr moved_to;   // set when everything went into another store

  std::unordered_map<const void*, void*> handles;          // native object -> PyValue, PyNode, ... (weak)
  std::unordered_map<const void*, nb::object> meta;        // .meta of values, nodes, graphs
  std::unordered_map<const Value*, ValueInfo> loose_info;  // doc strings and metadata of values in no graph
  std::unordered_map<const Value*, nb::object> tensors;    // const_value objects
  std::unordered_map<const Value*, bool> auto_named;       // values whose name was made here
  std::unordered_map<const Value*, bool> absent;           // named "": outputs that nobody wants, which get no name
  std::unordered_map<const Node*, int> versions;           // node.version where given
  std::unordered_map<const Graph*, GraphFacts> graph_facts;
  std::vector<Value*> placeholders;  // may list values that are filled by now
  std::vector<Node*> loose_nodes;    // may list nodes that are linked or dead by now
  std::vector<Graph*> roots;         // may list graphs that have an owner by now

  // A new model that knows the newest operators.
  static StorePtr make();
  // The store of a model that native code owns (a model being lowered, a model read from a file). The same store each time.
  static StorePtr of(std::shared_ptr<Model> model);
  // Where this store's content is now.
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
// A function whose graph is not in a model yet has its data in `own`, and is not in its store's table.
class PyFunction : public Handle<Function> {
 public:
  using Handle::Handle;
  std::unique_ptr<Function> own;
  nb::object graph;  // the PyGraph
  Function& data() const { return own ? *own : *ptr; }
};

// A constant's payload with the name that Python users give tensors.
class PyTensor {
 public:
  TensorPtr tensor;
  std::optional<std::string> name, doc;
  Metadata metadata;
  std::string unknown;  // other fields of the TensorProto that it was read from, in wire format
};
// All of that in wire format, as NamedAttr::tensor_fields has it.
std::string tensor_fields(const PyTensor& t);

// The Python classes (subclasses, written in Python, of the ones bound here) of new handles.
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

// The native object behind a handle; refuses handles of what was erased.
Value& live(const PyValue& v);
Node& live(const PyNode& n);
Graph& live(const PyGraph& g);

// What a message calls them.
std::string describe(const Value& v);
std::string describe(const Node& n);
std::string describe(const Graph& g);

// ---------------------------------------------------------------------------------------------------------------------
// Moving between stores (moving.cc)

// One store for all: nothing is done if they are one already. Refuses when two of them are owned. Lobbies and nulls are
// skipped (values of a lobby come one by one, with bring()); with none left, a new store is made.
StorePtr combine(std::vector<StorePtr> stores);
// v in store s, which combine() has made from all that is involved: moves values out of the lobby.
Value* bring(const StorePtr& s, PyValue& v);
// Moves detached nodes and graphs without owner, and the placeholders they read. Refuses when they read anything that stays.
void transfer(const StorePtr& from, const StorePtr& to, const std::vector<Node*>& nodes, const std::vector<Graph*>& graphs);

// A copy of g as a graph without owner in `to`, another store or the same one. What g reads from outside is shared.
Graph& copy_graph(Graph& g, const StorePtr& to);

// A placeholder takes the place of v (an input or initializer that is about to go) for all readers; the handle follows.
Value& uproot(const StorePtr& s, Value& v);
// The other way: v, newly made, takes the place of a placeholder.
void plant(const StorePtr& s, Value& placeholder, Value& v);

// ---------------------------------------------------------------------------------------------------------------------
// Names, types and facts of values (names.cc)

std::string value_name(const Value& v);  // the port's name of inputs and results
void rename(Store& s, Value& v, std::string_view name);
// Doc string and metadata of a value, wherever they are kept.
Notes notes_of(Store& s, Value& v);
void set_notes(Store& s, Value& v, Notes notes);
void keep_loose(Store& s, const Value& v, Notes notes);  // of a value in no graph, unless they are empty
// An initializer of g by name, or null.
Value* find_initializer(Store& s, Graph& g, std::string_view name);
// The payload of an initializer (also of an input that has a default), or null.
const TensorPtr& initializer_of(const Value& v);
// What the user says about a value's type: known from now on, and declared where it is written.
void declare(Value& v, const Type* type);
// The graph that returns v, or null.
Graph* output_of(const Value& v);
// Names for a node that was just linked and for its results; what is known of them goes to the graph that has them now.
void settle(Store& s, Node& n);
// The names inside the graphs nested in n, which were just given to it, must not hide those around it.
void join_bodies(Store& s, Node& n);
void note_name(Store& s, Graph& g, const std::string& name);  // one that will not be made for another value
std::string fresh_value_name(Store& s, Graph& g, std::string_view base = {});
// The node leaves its graph; what is known of its results stays known.
void unlink(Store& s, Node& n);

// ---------------------------------------------------------------------------------------------------------------------
// Types and attributes as Python sees them (types.cc, attrs.cc)

// ("tensor", dtype), ("sparse", dtype), ("sequence", inner), ("optional", inner), ("map", key, inner), ("opaque", text); None
// = unknown.
nb::object type_to_python(const Type* t);
// Dims of the innermost tensor: a list of int, str or None; None = rank unknown.
nb::object dims_to_python(const Dims& dims, const Type* t);
const Type* type_from_python(Types& types, nb::handle type, nb::handle dims);
Dim dim_from_python(Dims& dims, nb::handle d);

// An attribute is (name, type number, value, ref_attr_name or None, doc or None). Graphs are bodies of the node. A sparse tensor is
// (values, indices, dims).
nb::list attributes_to_python(const StorePtr& s, Node& n);
std::vector<PyGraph*> graphs_among(nb::handle items);
// Replaces all attributes of n, a node of s; graphs among them are in s already.
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
