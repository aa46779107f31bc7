// The graph: Model owns Functions, a Function has a Graph, a Graph owns Nodes, a Node defines Values.
//
// Always true between calls of the public functions (and checked by verify()):
//  - each operand of a linked node is in the use list of its value, exactly once per slot;
//  - a value is defined before it is used, in its own graph or in one that encloses it (a capture);
//  - a constant is a value with a payload, wherever it is written;
//  - what a graph returns are uses, owned by its boundary node; names of inputs and results belong to ports.
//    Objects live in the model's arena until the model dies. Pointers stay valid; an erased node is !alive()
//    until compact(). One model is used by one thread at a time; different models are independent.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sardonyx/attr.h"
#include "sardonyx/dim.h"
#include "sardonyx/error.h"
#include "sardonyx/name.h"
#include "sardonyx/node.h"
#include "sardonyx/op.h"
#include "sardonyx/tensor.h"
#include "sardonyx/type.h"

namespace sardonyx {

class Function;
class Graph;
class Journal;
class Model;
struct FileRecord;

// ---------------------------------------------------------------------------------------------------------------------
// Graphs

// An input or a result in the signature of a graph.
struct Port {
  Name name;                       // the interface name; stays when the value changes
  const Type* declared = nullptr;  // the promised type; null = none
  Value* value = nullptr;          // inputs: the value they define
  Use* use = nullptr;              // results: the use of the returned value
  std::string doc;
  Metadata metadata;
  // ONNX from IR version 4: an initializer with an input's name is the default value of that input.
  TensorPtr default_value;
  uint32_t entry = 0;  // of the file that was read, for writers (src/ir/file_record.h); 0: none, or what it said was changed
};

// Facts that few values have, kept beside the graph.
struct ValueInfo {
  const Type* declared = nullptr;      // what a value_info entry promises
  std::shared_ptr<const Notes> notes;  // null: none
  uint32_t entry = 0;                  // as Port::entry
};

class Graph {
 public:
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Model& model() const { return *model_; }
  Name name() const { return name_; }
  void set_name(Name n) { name_ = n; }
  Node* parent() const { return parent_; }          // the node whose body this is; null for a function's graph
  Function* function() const { return function_; }  // the function whose body this is; null for nested graphs
  Graph* enclosing() const { return parent_ ? parent_->graph() : nullptr; }

  // --- order
  NodeRange nodes() const { return NodeRange(first()); }
  Node* first() const;
  Node* last() const;
  size_t num_nodes() const { return num_nodes_; }  // live, linked nodes of this graph, nested ones not counted
  void append(Node& n);
  void insert_before(Node& at, Node& n);
  void insert_after(Node& at, Node& n);
  // Unlinks n and keeps its operands; it may be inserted again, anywhere in this model.
  void detach(Node& n);
  // Erases n, whose results must have no users, with its bodies.
  void erase(Node& n);
  // Stable topological order; throws kInvalidModel naming a cycle.
  void sort();

  // --- signature
  std::span<const Port> inputs() const { return inputs_; }
  std::span<const Port> outputs() const { return outputs_; }
  Port& input_port(size_t i) {
    if (detail::is_recording()) note_signature();
    return inputs_[i];
  }
  Port& output_port(size_t i) {
    if (detail::is_recording()) note_signature();
    return outputs_[i];
  }
  Value* input(size_t i) const { return inputs_[i].value; }
  Value* output(size_t i) const { return outputs_[i].use->value; }
  Value* add_input(std::string_view name, const Type* declared);
  void add_output(Value& v, std::string_view name, const Type* declared = nullptr);
  void set_output(size_t i, Value& v);
  void remove_input(size_t i);  // must have no users
  void remove_output(size_t i);
  void clear_outputs();
  Node& boundary() const { return *boundary_; }  // owns the result uses

  // --- constants (initializers), in file order
  std::span<Value* const> constants() const { return constants_; }
  Value* add_constant(TensorPtr payload, std::string_view name = {});
  void erase_constant(Value& v);                   // must have no users
  size_t erase_unread_constants();                 // those without users, in linear time; returns how many
  void set_constant(Value& v, TensorPtr payload);  // also for results of Constant nodes

  void replace_uses(Value& from, Value& to);

  // --- what is declared and said
  std::string doc;
  Metadata metadata;
  std::unordered_map<const Value*, ValueInfo> value_info;  // passes edit it through the next three, which can be undone
  ValueInfo& edit_value_info(const Value& v);              // a new one if there is none
  void erase_value_info(const Value& v);
  // What is declared of `from`, a value of this graph, is declared of `to` from now on, which may be of
  // another graph (or `from` itself).
  void move_value_info(const Value& from, const Value& to, Graph& of_to);

 private:
  friend class Journal;
  friend class Model;
  friend class Node;
  Graph() = default;
  void note_signature();
  void link(Node& n, struct OrderBlock* block, uint32_t slot);
  void drop_operands(Node& n);

  Model* model_ = nullptr;
  Name name_;
  Node* parent_ = nullptr;
  Function* function_ = nullptr;
  Node* boundary_ = nullptr;
  OrderBlock* first_block_ = nullptr;
  OrderBlock* last_block_ = nullptr;
  size_t num_nodes_ = 0;
  std::vector<Port> inputs_, outputs_;
  std::vector<Value*> constants_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Functions and models

struct OpsetImport {
  std::string domain;
  int64_t version = 0;
};

// A named graph. The main function of an ONNX model is its main graph; the others are its local functions.
// A MIL program has one function per entry point.
class Function {
 public:
  Model& model() const { return graph_->model(); }
  Graph& graph() const { return *graph_; }
  std::string domain, name, overload;
  std::string doc;
  Metadata metadata;
  std::vector<std::string> attributes;        // ONNX: names of attributes without default
  std::vector<NamedAttr> default_attributes;  // ONNX: attribute_proto
  std::vector<OpsetImport> opset_imports;     // of ONNX functions; the main function uses the model's
  std::string mil_opset;                      // MIL: "CoreML7"

 private:
  friend class Journal;
  friend class Model;
  Graph* graph_ = nullptr;
};

// The source of a node.
struct Source {
  std::string file;  // base name, or a path with provenance `full`
  int line = 0;
  std::string function;
  std::string scope;      // module path: "Model/encoder/layers.3/attn"
  std::string primitive;  // "dot_general"
  std::string lowering;   // "lower_dot_general"
  std::string stack;      // provenance `full` only
  friend bool operator==(const Source&, const Source&) = default;
};
struct Provenance {
  std::vector<Source> sources;     // at most 4
  uint32_t source_count = 0;       // before the list was cut
  std::vector<std::string> rules;  // that rewrote it
};

class Model {
 public:
  explicit Model(DialectId dialect = DialectId::kOnnx);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  DialectId dialect() const { return dialect_; }

  // --- functions; the first added is the main one
  Function& add_function(std::string_view name);
  // The same with a graph that belongs to nothing yet (from new_graph()) as its body.
  Function& add_function(std::string_view name, Graph& body);
  std::span<const std::unique_ptr<Function>> functions() const { return functions_; }
  Function& main() const;  // throws kInternal when there is none
  Graph& graph() const { return main().graph(); }
  Function* find_function(std::string_view domain, std::string_view name, std::string_view overload = {}) const;
  void erase_function(Function& f);

  // --- making things
  // A graph that belongs to no node yet: give it to Node::add_body.
  Graph& new_graph(std::string_view name = {});
  // A detached node. Operands may be null (absent). Result types are unknown and the node is marked
  // unchecked: see infer_types() in dialect layer, or use a builder, which types and checks what it makes.
  Node& new_node(const Op& op, std::span<Value* const> inputs, size_t num_results, const Attrs* attrs = nullptr);
  NodeExtra& edit_extra(Node& n);  // detached nodes too
  // A value to be used before its producer exists. fill() moves its users, name and type to the producer's
  // result.
  Value& new_placeholder(std::string_view name = {}, const Type* type = nullptr);
  void fill(Value& placeholder, Value& producer);

  // The op for (domain, name) at the model's opset import (or `version`), else an opaque one interned here.
  const Op& op(std::string_view domain, std::string_view name, std::optional<int> version = {});
  const Op& opaque_op(std::string_view domain, std::string_view name, int version);
  // The same for operands with names (MIL), one slot for each; those of a list have the same name and stand
  // side by side.
  const Op& opaque_op(std::string_view name, int version, std::span<const std::string_view> operands);
  uint32_t op_count(const Op& op) const;  // live linked nodes with that op
  // One more than the largest Op::id in this model; side tables by op are sized by it.
  uint32_t op_id_limit() const;

  Name name(std::string_view text);  // copies into the arena; not deduplicated
  const Attrs* attrs(AttrInit items);
  const Attrs* empty_attrs() const { return empty_attrs_; }
  // The set with these wire bytes, which must outlive the model; calls `parse` only if they are new.
  const Attrs* attrs_from_wire(std::string_view wire, const std::function<AttrInit()>& parse);
  const Attrs* with_attr(const Attrs& base, std::string_view name, Attr value);
  const Attrs* without_attr(const Attrs& base, std::string_view name);

  Types& types() { return *types_; }
  Dims& dims() { return *dims_; }
  const Types& types() const { return *types_; }
  const Dims& dims() const { return *dims_; }

  // --- provenance
  uint32_t add_provenance(Provenance p);  // interned; returns its index (0 is "none")
  const Provenance& provenance(uint32_t index) const;
  uint32_t merge_provenance(uint32_t a, uint32_t b);

  // --- sizes and ids
  uint32_t node_id_limit() const { return next_node_id_; }  // ids are below
  uint32_t value_id_limit() const { return next_value_id_; }
  size_t num_nodes() const;  // live, linked, in all functions and bodies
  // Drops dead nodes from the order and renumbers ids: side tables become stale, addresses stay.
  void compact();

  void keep_alive(std::shared_ptr<const void> what) { keepalive_.push_back(std::move(what)); }
  // Keeps alive all that `other` keeps: names, wire bytes and payloads that were copied from it may point
  // there.
  void keep_alive_like(const Model& other);
  void* allocate(size_t bytes, size_t align);  // arena memory, lives as long as the model

  // --- what is said of the model
  int64_t ir_version = 10;
  std::string producer_name, producer_version, domain, doc;
  int64_t model_version = 0;
  Metadata metadata;
  std::vector<OpsetImport> opset_imports;
  std::optional<int64_t> specification_version;  // of a Core ML model: 4 (iOS 13) ... 9 (iOS 18)

  // What the file that was read says beside all this; only for readers, writers and copies
  // (src/ir/file_record.h).
  const FileRecord& file_record() const;
  FileRecord& edit_file_record();
  // For a pass that makes a node anew: what the file says of `from` holds for `to`.
  void keep_file_record(const Node& from, const Node& to);

  // The journal that records edits now, so that they can be undone (src/ir/journal.h); or null.
  Journal* journal() const { return journal_; }

  std::optional<int64_t> opset_version(std::string_view domain) const;  // "" and "ai.onnx" are the same
  void set_opset_version(std::string_view domain, int64_t version);

 private:
  friend class Graph;
  friend class Journal;
  friend class Node;
  friend class Value;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  Journal* journal_ = nullptr;
  DialectId dialect_;
  std::unique_ptr<Dims> dims_;
  std::unique_ptr<Types> types_;
  std::vector<std::unique_ptr<Function>> functions_;
  std::vector<std::shared_ptr<const void>> keepalive_;
  const Attrs* empty_attrs_ = nullptr;
  uint32_t next_node_id_ = 0;
  uint32_t next_value_id_ = 0;
};

// A dense table of facts about nodes or values: valid until Model::compact(). Grows on demand.
template <class T>
class NodeMap {
 public:
  explicit NodeMap(const Model& m, T otherwise = {}) : otherwise_(otherwise), data_(m.node_id_limit(), otherwise) {}
  T& operator[](const Node& n) {
    if (n.id() >= data_.size()) data_.resize(n.id() + 1 + data_.size() / 2, otherwise_);
    return data_[n.id()];
  }

 private:
  T otherwise_;
  std::vector<T> data_;
};

template <class T>
class ValueMap {
 public:
  explicit ValueMap(const Model& m, T otherwise = {}) : otherwise_(otherwise), data_(m.value_id_limit(), otherwise) {}
  T& operator[](const Value& v) {
    if (v.id() >= data_.size()) data_.resize(v.id() + 1 + data_.size() / 2, otherwise_);
    return data_[v.id()];
  }

 private:
  T otherwise_;
  std::vector<T> data_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Whole-graph services (src/ir)

// Copies nodes, constants, signature and nested graphs of `from` into the empty graph `to` (same or another
// model). Captures are mapped by `outer` (from value -> to value), or kept when both graphs share a model.
void clone_graph(const Graph& from, Graph& to, const std::unordered_map<const Value*, Value*>& outer = {});
std::unique_ptr<Model> clone_model(const Model& from);

// Equal up to names of values, of nodes and of nested graphs, and up to attribute order; interface names
// count. On a difference, *why (if given) says where.
bool equal_graphs(const Graph& a, const Graph& b, std::string* why = nullptr);
bool equal_models(const Model& a, const Model& b, std::string* why = nullptr);

// Throws Error(kInvalidModel) that names the broken invariant and shows the node.
struct VerifyOptions {
  bool types = true;            // operand types against the ops' rules
  bool allow_unchecked = true;  // unchecked nodes are reported by warnings() only
  bool shapes = false;          // infer a copy from scratch and compare: costs a copy of the graph
};
void verify(const Model& m, const VerifyOptions& options = {});
// Findings that are no errors: unchecked nodes, unknown attributes (with the likely intent), values that
// share a name, deprecated operators. At most a hundred, then a count of the rest.
std::vector<std::string> warnings(const Model& m);

// The .sx text form.
struct PrintOptions {
  bool full_constants = false;  // else long ones print as a digest
  bool provenance = false;      // a comment with the source line after each node
  bool types = false;           // a comment with the result types after each node
};
std::string print(const Model& m, const PrintOptions& options = {});
std::string print(const Graph& g, const PrintOptions& options = {});
std::string print(const Node& n);
// The constant behind a digest, or null if it is not there.
using PayloadSource = std::function<TensorPtr(uint64_t digest)>;
// Parses the text form (docs/text_form.md). Throws kParse with line, column and a caret. Types are inferred
// where the dialect has rules; a node that its rule refuses stays, unchecked. Without `payloads`, a digest
// becomes a Tensor::promise.
std::unique_ptr<Model> parse(std::string_view text, std::string_view file_name = "<text>", const PayloadSource& payloads = {});

}  // namespace sardonyx
