// The graph: Model owns Functions, a Function has a Graph, a Graph owns Nodes, a Node defines Values.
//
// Always true between calls of the public functions (and checked by verify()):
//  - each operand of a linked node is in the use list of its value, exactly once per slot;
//  - a value is defined before it is read, in its own graph or in one that encloses it (a capture);
//  - a constant is a value with a payload, wherever it is written;
//  - what a graph returns are uses, owned by its boundary node; names of inputs and results belong to ports.
// Objects live in the model's arena until the model dies. Pointers stay valid; an erased node says !alive() until compact().
// One model is used by one thread at a time; different models are independent.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
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
#include "sardonyx/op.h"
#include "sardonyx/tensor.h"
#include "sardonyx/type.h"

namespace sardonyx {

class Graph;
class Function;
class Journal;
class MappedFile;
class Model;
class Node;
class Value;

// ---------------------------------------------------------------------------------------------------------------------
// Values and uses

// One operand slot that reads a value. Embedded in its owner: a node, or a graph's boundary node (for results).
struct Use {
  Value* value = nullptr;  // null: an absent optional operand
  Use* next = nullptr;     // next reader of the same value; the order carries no meaning
  Use** link = nullptr;    // the pointer that points at this use
  Node* owner = nullptr;   // never null
};

enum class ValueKind : uint8_t {
  kResult,       // result `index` of a node
  kInput,        // input `index` of a graph
  kConstant,     // an initializer: a payload that belongs to a graph and to no node
  kPlaceholder,  // read before its producer exists; an error in a closed graph
};

class UseRange {
 public:
  class iterator {
   public:
    using value_type = Use;
    using difference_type = std::ptrdiff_t;
    explicit iterator(Use* at = nullptr) : at_(at) {}
    Use& operator*() const { return *at_; }
    Use* operator->() const { return at_; }
    iterator& operator++() { return at_ = at_->next, *this; }
    iterator operator++(int) {
      auto old = *this;
      return at_ = at_->next, old;
    }
    bool operator==(const iterator&) const = default;

   private:
    Use* at_;
  };
  explicit UseRange(Use* first) : first_(first) {}
  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(); }
  bool empty() const { return first_ == nullptr; }

 private:
  Use* first_;
};

namespace detail {
// How many journals (src/ir/journal.h) are open in the process. While there is none, an edit costs one look at this.
inline std::atomic<uint32_t> open_journals{0};
inline bool is_recording() { return open_journals.load(std::memory_order_relaxed) != 0; }
}  // namespace detail

// Something a node, a graph's signature or an initializer defines. 40 bytes.
class Value {
 public:
  const Type* type() const { return type_; }  // the best known type; null = nothing known
  void set_type(const Type* t) {
    if (detail::is_recording()) note_type();
    type_ = t;
  }
  Name name() const { return name_; }  // may be empty: names are made when written
  void set_name(Name n) {
    if (detail::is_recording()) note_name();
    name_ = n;
  }

  ValueKind kind() const { return kind_; }
  uint32_t index() const { return index_; }  // among the results of its node, or the inputs of its graph
  uint32_t id() const { return id_; }        // dense per model; renumbered by compact()

  Node* def() const { return kind_ == ValueKind::kResult ? def_ : nullptr; }
  Graph* graph() const;  // where it is defined; null for detached nodes and placeholders
  // The payload if it is a constant: an initializer, or the result of a Constant / const node. Else null.
  const TensorPtr& constant() const;
  bool is_constant() const;

  UseRange uses() const { return UseRange(uses_); }
  bool has_uses() const { return uses_ != nullptr; }
  bool has_one_use() const { return uses_ != nullptr && uses_->next == nullptr; }

  DType dtype() const { return type_ ? type_->dtype() : DType::kUndefined; }
  bool ranked() const { return type_ && type_->is_tensor() && type_->ranked(); }

 private:
  friend class Node;
  friend class Graph;
  friend class Model;
  friend class Journal;
  friend struct UseList;
  void note_type();
  void note_name();

  const Type* type_ = nullptr;
  Use* uses_ = nullptr;
  union {
    Node* def_ = nullptr;  // kResult
    Graph* graph_;         // kInput, kConstant
    Model* model_;         // kPlaceholder
  };
  Name name_;
  uint32_t id_ = 0;
  uint32_t index_ : 24 = 0;
  ValueKind kind_ : 8 = ValueKind::kResult;
};

// ---------------------------------------------------------------------------------------------------------------------
// Nodes

// A nested graph of a node and the name of the attribute or parameter that holds it ("then_branch", "jaxpr").
// Several bodies with one name stand for a list of graphs (ONNX GRAPHS, jax `branches`), in order.
struct Body {
  Name name;
  Graph* graph = nullptr;
  bool in_list = false;     // ONNX: an element of a GRAPHS attribute, not a GRAPH
  std::string fields = {};  // ONNX: doc_string and unknown fields of the attribute, in wire format
};

using Metadata = std::vector<std::pair<std::string, std::string>>;  // in file order, keys unique

// What few nodes have.
struct NodeExtra {
  std::vector<Body> bodies;
  std::string doc;
  std::string overload;
  Metadata metadata;
  std::string unknown_fields;  // protobuf fields we do not know, in wire format
  TensorPtr payload;           // of Constant / const nodes
  Attrs const* payload_attrs = nullptr;
};

// Flags of a node.
enum NodeFlag : uint16_t {
  kAlive = 1,      // not erased
  kLinked = 2,     // in a graph's order
  kUnchecked = 4,  // its type rule was not applied, or said no: rules leave it alone, the verifier and writers report it
  kBoundary = 8,   // the pseudo-node that owns a graph's results
};

// An operation. One arena allocation: [Node][Value x results][Use x operands]; counts are fixed for life.
class Node {
 public:
  const Op& op() const { return *op_; }
  // Another operator (or version of it) with the same operands and results; the node becomes unchecked.
  void set_op(const Op& op);
  // Whether it is this operator of the dialect itself, in a version that the tables know: not one of another domain with that name.
  bool is(std::string_view op_name) const { return op_->known && op_->domain.empty() && op_->name == op_name; }
  bool has(Trait t) const { return op_->has(t); }
  Graph* graph() const { return graph_; }  // null while detached
  Model& model() const;

  uint32_t id() const { return id_; }  // dense per model; renumbered by compact()
  Name name() const { return name_; }
  void set_name(Name n) {
    if (detail::is_recording()) note(Edited::kName);
    name_ = n;
  }

  size_t num_inputs() const { return num_inputs_; }
  size_t num_results() const { return num_results_; }
  std::span<Use> operands() { return {uses(), num_inputs_}; }
  std::span<const Use> operands() const { return {const_cast<Node*>(this)->uses(), num_inputs_}; }
  // Operand i; null when absent or beyond the last.
  Value* input(size_t i) const { return i < num_inputs_ ? const_cast<Node*>(this)->uses()[i].value : nullptr; }
  void set_input(size_t i, Value* v);
  Value* result(size_t i = 0) const { return const_cast<Node*>(this)->values() + i; }
  std::span<Value> results() { return {values(), num_results_}; }
  std::span<const Value> results() const { return {const_cast<Node*>(this)->values(), num_results_}; }
  size_t operand_index(const Use& u) const { return static_cast<size_t>(&u - const_cast<Node*>(this)->uses()); }

  const Attrs& attrs() const { return *attrs_; }
  void set_attrs(const Attrs* a) {
    if (detail::is_recording()) note(Edited::kAttrs);
    attrs_ = a;
  }
  const Attr* attr(std::string_view name) const { return attrs_->find(name); }
  // Attribute `name` as T, or `otherwise`: no table defaults are consulted here. A present attribute of another kind throws kInvalidModel.
  int64_t attr_int(std::string_view name, int64_t otherwise) const;
  double attr_float(std::string_view name, double otherwise) const;
  std::string attr_string(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<int64_t>> attr_ints(std::string_view name) const;  // nullopt when absent

  std::span<const Body> bodies() const { return extra_ ? std::span<const Body>(extra_->bodies) : std::span<const Body>(); }
  Graph* body(std::string_view name) const;  // the first of that name, or null
  const NodeExtra* extra() const { return extra_; }
  NodeExtra& edit_extra();  // of a node that is in a graph; see Model::edit_extra for detached ones
  // Makes `body` (from Model::new_graph) a nested graph of this node.
  void add_body(std::string_view name, Graph& body);
  // Takes nested graph i back: it belongs to no node afterwards.
  Graph& remove_body(size_t i);

  bool alive() const { return (flags_ & kAlive) != 0; }
  bool linked() const { return (flags_ & kLinked) != 0; }
  bool unchecked() const { return (flags_ & kUnchecked) != 0; }
  void set_unchecked(bool on) {
    if (on == unchecked()) return;
    if (detail::is_recording()) note(Edited::kFlags);
    flags_ = static_cast<uint16_t>(on ? flags_ | kUnchecked : flags_ & ~kUnchecked);
  }
  bool is_boundary() const { return (flags_ & kBoundary) != 0; }

  uint32_t provenance() const { return provenance_; }  // an index into Model::provenance(); 0 = none
  void set_provenance(uint32_t p) {
    if (detail::is_recording()) note(Edited::kProvenance);
    provenance_ = p;
  }

  bool any_result_used() const;
  // The neighbour in graph order, dead nodes skipped; null at the end. Also works from an erased node until compact().
  Node* next() const;
  Node* prev() const;

 private:
  friend class Graph;
  friend class Journal;
  friend class Model;
  friend class Value;
  enum class Edited : uint8_t { kName, kAttrs, kFlags, kProvenance };
  void note(Edited what);
  Value* values() { return reinterpret_cast<Value*>(this + 1); }
  Use* uses() { return reinterpret_cast<Use*>(values() + num_results_); }

  friend struct OrderBlock;

  // What walks look at comes first.
  const Op* op_ = nullptr;
  uint16_t flags_ = kAlive;
  uint16_t slot_ = 0;  // in block_
  uint32_t id_ = 0;
  uint32_t num_inputs_ = 0;
  uint32_t num_results_ = 0;
  struct OrderBlock* block_ = nullptr;
  Graph* graph_ = nullptr;
  const Attrs* attrs_ = nullptr;
  NodeExtra* extra_ = nullptr;
  Name name_;
  uint32_t provenance_ = 0;
};

inline bool Value::is_constant() const {
  if (kind_ == ValueKind::kResult && !def_->has(Trait::kConstant)) return false;  // nearly all values
  return constant() != nullptr;
}

// Live nodes of a graph in order. Nodes inserted after the current one are seen, those before are not; the current node may be erased.
class NodeRange {
 public:
  class iterator {
   public:
    using value_type = Node;
    using difference_type = std::ptrdiff_t;
    explicit iterator(Node* at = nullptr) : at_(at) {}
    Node& operator*() const { return *at_; }
    Node* operator->() const { return at_; }
    iterator& operator++() { return at_ = at_->next(), *this; }
    iterator operator++(int) {
      auto old = *this;
      return ++*this, old;
    }
    bool operator==(const iterator&) const = default;

   private:
    Node* at_;
  };
  explicit NodeRange(Node* first) : first_(first) {}
  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(); }

 private:
  Node* first_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Graphs

// One input or result of a graph: the signature's side of it.
struct Port {
  Name name;                       // the interface name; survives whatever happens to the value
  const Type* declared = nullptr;  // what the signature promises; null = nothing
  Value* value = nullptr;          // inputs: the value they define
  Use* use = nullptr;              // results: the use that reads what is returned
  std::string doc;
  Metadata metadata;
  std::string_view wire;  // the file's ValueInfoProto, if read; valid while declared == wire_type and the name is unchanged
  const Type* wire_type = nullptr;
  // ONNX from IR version 4: an initializer with an input's name is the value of that input when the caller gives none.
  TensorPtr default_value;
  uint32_t default_place = 0;  // among the file's initializers
  std::string default_fields;  // see TensorInfo::fields
};

// Facts about values that few of them have: kept beside the graph, keyed by value.
struct ValueInfo {
  const Type* declared = nullptr;  // a value_info entry of the file
  std::string doc;
  Metadata metadata;
  std::string_view wire;  // as Port::wire
  const Type* wire_type = nullptr;
};

// What a file says of an initializer beside its value.
struct TensorInfo {
  std::string fields;       // doc_string, metadata_props and unknown fields of its TensorProto, in wire format
  std::string_view sparse;  // the SparseTensorProto that it was read from; valid while its payload is `sparse_payload`
  const Tensor* sparse_payload = nullptr;
  bool literal = false;  // MIL: written where it is read, not as a const op
};

// ONNX before IR version 4 lists initializers among the inputs. They are constants all the same; this is where they stood.
struct ListedInput {
  uint32_t place = 0;  // in the file's list of inputs; UINT32_MAX: the file does not list it, though it should
  const Value* constant = nullptr;
  std::string_view wire;
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
  // Unlinks n, keeping its operands; it may be inserted again, also elsewhere in this model.
  void detach(Node& n);
  // Ends n: no result may have readers. Drops its uses and those of its bodies.
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
  void remove_input(size_t i);  // must have no readers
  void remove_output(size_t i);
  void clear_outputs();
  Node& boundary() const { return *boundary_; }  // owns the result uses

  // --- constants (initializers), in file order
  std::span<Value* const> constants() const { return constants_; }
  Value* add_constant(TensorPtr payload, std::string_view name = {});
  void erase_constant(Value& v);                   // must have no readers
  size_t erase_unread_constants();                 // all at once, in linear time; returns how many there were
  void set_constant(Value& v, TensorPtr payload);  // also for results of Constant nodes

  void replace_uses(Value& from, Value& to);

  // --- facts kept for the file
  std::string doc;
  Metadata metadata;
  std::string unknown_fields;
  std::unordered_map<const Value*, ValueInfo> value_info;  // passes edit it through the next two, which can be undone
  ValueInfo& edit_value_info(const Value& v);              // a new one if there is none
  void erase_value_info(const Value& v);
  std::unordered_map<const Value*, TensorInfo> tensor_info;
  std::vector<ListedInput> listed_inputs;
  std::vector<std::string_view> quantization_annotations;  // wire format
  std::vector<std::string_view> loose_value_info;          // wire format: entries whose name no value has

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
  std::vector<OpsetImport> opset_imports;     // ONNX functions have their own; the main function uses the model's
  std::string mil_opset;                      // MIL: "CoreML7"
  std::string unknown_fields;

 private:
  friend class Journal;
  friend class Model;
  Graph* graph_ = nullptr;
};

// Where a node came from.
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
  uint32_t source_count = 0;       // how many there were
  std::vector<std::string> rules;  // what rewrote it
};

// What a Core ML file says beside its functions.
struct MilInfo {
  int64_t specification_version = 0;  // 4 (iOS 13) ... 9 (iOS 18)
  int64_t program_version = 1;
  std::string_view description;  // ModelDescription, in wire format; empty: the file was a Program by itself
  std::string model_fields;      // other fields of the Model message, in wire format
  std::string program_fields;    // other fields of the Program message (attributes, documentation), in wire format
  std::string manifest;          // of a package: Manifest.json as it was; empty for bare files
  std::string package;           // the folder of the package that it was read from: what else is in there is copied
  std::string model_path;        // of the model file in that folder
  // Constants that the file spells out although a writer would put them among the weights.
  std::unordered_map<const Tensor*, TensorPtr> immediate;
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
  // A detached node. Operands may be null (absent). Result types are unknown and the node is marked unchecked: see
  // infer_types() in dialect layer, or use a builder, which types and checks what it makes.
  Node& new_node(const Op& op, std::span<Value* const> inputs, size_t num_results, const Attrs* attrs = nullptr);
  NodeExtra& edit_extra(Node& n);  // detached nodes too
  // A value to be read before its producer exists. fill() moves its readers, name and type to the producer's result.
  Value& new_placeholder(std::string_view name = {}, const Type* type = nullptr);
  void fill(Value& placeholder, Value& producer);

  // The op for (domain, name) at the model's opset import (or `version`), else an opaque one interned here.
  const Op& op(std::string_view domain, std::string_view name, std::optional<int> version = {});
  const Op& opaque_op(std::string_view domain, std::string_view name, int version);
  // The same for operands with names (MIL), one slot for each; those of a list have the same name and stand side by side.
  const Op& opaque_op(std::string_view name, int version, std::span<const std::string_view> operands);
  uint32_t op_count(const Op& op) const;  // live linked nodes with that op
  // One more than the largest Op::id in this model; side tables by op are sized by it.
  uint32_t op_id_limit() const;

  Name name(std::string_view text);  // copies into the arena; not deduplicated
  const Attrs* attrs(AttrInit items);
  const Attrs* empty_attrs() const { return empty_attrs_; }
  // A set as read: `parse` is called only if these exact wire bytes were not seen before. Bytes must outlive the model.
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
  // Squeezes dead nodes out of the order and renumbers ids; side tables become stale, addresses stay.
  void compact();

  void keep_alive(std::shared_ptr<const void> what) { keepalive_.push_back(std::move(what)); }
  // Keeps alive whatever `other` keeps: names, wire bytes and payloads that were copied from it may point there.
  void keep_alive_like(const Model& other);
  void* allocate(size_t bytes, size_t align);  // arena memory, lives as long as the model

  // --- facts of the file
  // The files that the model was read from, the model's own first. A writer checks that they did not change meanwhile, and never
  // replaces one of them by another model's data.
  std::vector<std::shared_ptr<const MappedFile>> source_files;
  int64_t ir_version = 10;
  std::string producer_name, producer_version, domain, doc;
  int64_t model_version = 0;
  Metadata metadata;
  std::vector<OpsetImport> opset_imports;
  std::vector<std::string_view> training_info;  // wire format
  std::string unknown_fields;
  std::optional<MilInfo> mil;

  // What records edits just now, so that they can be undone (src/ir/journal.h); or null.
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

// Copies nodes, constants, signature and nested graphs of `from` into the empty graph `to` (same or another model). Captures are
// mapped by `outer` (from value -> to value), or kept when both graphs share a model.
void clone_graph(const Graph& from, Graph& to, const std::unordered_map<const Value*, Value*>& outer = {});
std::unique_ptr<Model> clone_model(const Model& from);

// Equal up to names of values, of nodes and of nested graphs, and up to attribute order; interface names count.
// On a difference, *why (if given) says where.
bool equal_graphs(const Graph& a, const Graph& b, std::string* why = nullptr);
bool equal_models(const Model& a, const Model& b, std::string* why = nullptr);

// Throws Error(kInvalidModel) that names the broken invariant and shows the node.
struct VerifyOptions {
  bool types = true;            // operand types against the ops' rules
  bool allow_unchecked = true;  // unchecked nodes are reported by warnings() only
  bool shapes = false;          // infer a copy from scratch and compare: costs a copy of the graph
};
void verify(const Model& m, const VerifyOptions& options = {});
// What verify() finds worth a word but no error: unchecked nodes, unknown attributes (and what was likely meant), values of one
// name, deprecated operators. At most a hundred, and how many more there are.
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
// Reads what print() wrote, and what people write: docs/text_form.md. Throws kParse with line, column and a caret. Types are
// inferred where the dialect has rules; a node whose rule says no stays, unchecked. Without `payloads`, a digest becomes a
// Tensor::promise.
std::unique_ptr<Model> parse(std::string_view text, std::string_view file_name = "<text>", const PayloadSource& payloads = {});

}  // namespace sardonyx
