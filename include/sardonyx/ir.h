// The graph: Model owns Functions, a Function has a Graph, a Graph owns Nodes, a Node defines Values.
//
// Invariants between calls of the public functions (verify() checks them):
//  - each operand of a linked node is in the use list of its value, exactly once per slot;
//  - a value is defined before it is used, in its own graph or in one that encloses it (a capture);
//  - a constant is a value with a payload, wherever it is written;
//  - a graph's boundary node owns the uses of its results; ports hold the names of inputs and results.
//
// Objects live in the model's arena until the model dies. Pointers stay valid; an erased node is !alive()
// until compact(). Only one thread may use a model at a time; different models are independent.
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
  uint32_t entry = 0;  // index in the file's record, for writers (src/ir/graph/file_record.h); 0: none, or it no longer applies
};

// Facts about a few values, stored beside the graph.
struct ValueInfo {
  const Type* declared = nullptr;      // declared by a value_info entry
  std::shared_ptr<const Notes> notes;  // null: none
  uint32_t entry = 0;                  // like Port::entry
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
  // Unlinks n, which keeps its operands; it may be inserted again anywhere in this model.
  void detach(Node& n);
  // Erases n and its bodies; its results must have no users.
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
  size_t erase_unused_constants();                 // erases those without users in linear time; returns how many
  void set_constant(Value& v, TensorPtr payload);  // also for results of Constant nodes

  void replace_uses(Value& from, Value& to);

  // --- declarations and metadata
  std::string doc;
  Metadata metadata;
  std::unordered_map<const Value*, ValueInfo>
      value_info;                              // passes edit it through the next three functions, which can be undone
  ValueInfo& edit_value_info(const Value& v);  // creates it if necessary
  void erase_value_info(const Value& v);
  // Moves the declaration of `from`, a value of this graph, to `to`, a value of `of_to` (possibly `from`
  // itself).
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

// A named graph. The main function of an ONNX model is its main graph; the others are its local functions. A
// MIL program has one function per entry point.
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

// The origin of a node in the user's program.
struct Source {
  std::string file;  // base name; with provenance `full`, a path
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
  std::vector<std::string> rules;  // rules that rewrote it
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
  // Adds a function whose body is `body`, a graph from new_graph().
  Function& add_function(std::string_view name, Graph& body);
  std::span<const std::unique_ptr<Function>> functions() const { return functions_; }
  Function& main() const;  // throws kInternal when there is none
  Graph& graph() const { return main().graph(); }
  Function* find_function(std::string_view domain, std::string_view name, std::string_view overload = {}) const;
  void erase_function(Function& f);

  // --- making things
  // Makes a graph that belongs to no node yet: give it to Node::add_body.
  Graph& new_graph(std::string_view name = {});
  // Makes a detached node. Operands may be null (absent). Result types are unknown and the node is unchecked:
  // infer_model() types it. Builders type and check what they make.
  Node& new_node(const Op& op, std::span<Value* const> inputs, size_t num_results, const Attrs* attrs = nullptr);
  NodeExtra& edit_extra(Node& n);  // detached nodes too
  // A value that can be used before its producer exists. fill() moves its users, name and type to the
  // producer's result.
  Value& new_placeholder(std::string_view name = {}, const Type* type = nullptr);
  void fill(Value& placeholder, Value& producer);

  // The op for (domain, name) at the model's opset import (or `version`); an unknown one is interned here.
  const Op& op(std::string_view domain, std::string_view name, std::optional<int> version = {});
  const Op& opaque_op(std::string_view domain, std::string_view name, int version);
  // The same for an unknown op with named operands (MIL), one slot for each. Operands of a list are adjacent
  // and have the same name.
  const Op& opaque_op(std::string_view name, int version, std::span<const std::string_view> operands);
  uint32_t op_count(const Op& op) const;  // live linked nodes with that op
  // One more than the largest Op::id in this model; the size of side tables by op.
  uint32_t op_id_limit() const;

  Name name(std::string_view text);  // copies into the arena; not deduplicated
  const Attrs* attrs(AttrInit items);
  const Attrs* empty_attrs() const { return empty_attrs_; }
  // The set with these wire bytes, which must outlive the model. Calls `parse` only for new ones.
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
  uint32_t node_id_limit() const { return next_node_id_; }  // all ids are smaller
  uint32_t value_id_limit() const { return next_value_id_; }
  size_t num_nodes() const;  // live, linked, in all functions and bodies
  // Drops dead nodes from the order and renumbers ids: side tables become stale, addresses stay.
  void compact();

  void keep_alive(std::shared_ptr<const void> what) { keepalive_.push_back(std::move(what)); }
  // Keeps alive everything that `other` keeps alive: names, wire bytes and payloads copied from it may refer
  // to that.
  void keep_alive_like(const Model& other);
  void* allocate(size_t bytes, size_t align);  // arena memory, lives as long as the model

  // --- metadata of the model
  int64_t ir_version = 10;
  std::string producer_name, producer_version, domain, doc;
  int64_t model_version = 0;
  Metadata metadata;
  std::vector<OpsetImport> opset_imports;
  std::optional<int64_t> specification_version;  // of a Core ML model: 4 (iOS 13) ... 9 (iOS 18)

  // The contents of the file that the graph does not represent; only for readers, writers and copies
  // (src/ir/graph/file_record.h).
  const FileRecord& file_record() const;
  FileRecord& edit_file_record();
  // For a pass that rebuilds a node: transfers the file's record of `from` to `to`.
  void keep_file_record(const Node& from, const Node& to);

  // The open journal, which records edits so that they can be undone (src/ir/graph/journal.h); or null.
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

// Whether the graphs are equal, ignoring names of values, nodes and nested graphs, and attribute order;
// interface names count. If not, *why (if given) says where they differ.
bool equal_graphs(const Graph& a, const Graph& b, std::string* why = nullptr);
bool equal_models(const Model& a, const Model& b, std::string* why = nullptr);

// Options of verify(), which throws Error(kInvalidModel) with the broken invariant and the node.
struct VerifyOptions {
  bool types = true;            // operand types against the ops' rules
  bool allow_unchecked = true;  // unchecked nodes are reported by warnings() only
  bool shapes = false;          // infer a copy from scratch and compare; takes the memory of a copy
};
void verify(const Model& m, const VerifyOptions& options = {});
// Findings that are not errors: unchecked nodes, unknown attributes (with the likely intent), duplicate value
// names, deprecated operators. At most a hundred, then the number of remaining ones.
std::vector<std::string> warnings(const Model& m);

// The .sx text form.
struct PrintOptions {
  bool full_constants = false;  // otherwise long ones print as a digest
  bool provenance = false;      // a comment with the source line after each node
  bool types = false;           // a comment with the result types after each node
};
std::string print(const Model& m, const PrintOptions& options = {});
std::string print(const Graph& g, const PrintOptions& options = {});
std::string print(const Node& n);
// The constant for a digest, or null if it is unknown.
using PayloadSource = std::function<TensorPtr(uint64_t digest)>;
// Parses the text form (docs/reference/text_form.md). Throws kParse with line, column and a caret. Infers
// types where the dialect has rules; a node that its rule refuses stays, unchecked. Without `payloads`, a
// digest becomes a Tensor::promise.
std::unique_ptr<Model> parse(std::string_view text, std::string_view file_name = "<text>", const PayloadSource& payloads = {});

}  // namespace sardonyx
