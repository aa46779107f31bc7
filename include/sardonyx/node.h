// Values and nodes: the contents of a Graph (sardonyx/ir.h).
#pragma once

#include <atomic>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/attr.h"
#include "sardonyx/error.h"
#include "sardonyx/name.h"
#include "sardonyx/op.h"
#include "sardonyx/tensor.h"
#include "sardonyx/type.h"

namespace sardonyx {

class Graph;
class Journal;
class Model;
class Node;
class Value;

// ---------------------------------------------------------------------------------------------------------------------
// Values and uses

// One use of a value: an operand slot, embedded in its owner. The owner is a node or, for results, a graph's
// boundary node.
struct Use {
  Value* value = nullptr;  // null: an absent optional operand
  Use* next = nullptr;     // next use of the same value; the order carries no meaning
  Use** link = nullptr;    // the pointer that points at this use
  Node* owner = nullptr;   // never null
};

enum class ValueKind : uint8_t {
  kResult,       // result `index` of a node
  kInput,        // input `index` of a graph
  kConstant,     // an initializer: a payload that belongs to a graph and to no node
  kPlaceholder,  // used before its producer exists; an error in a closed graph
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
// The number of open journals (src/ir/graph/journal.h) in the process. While it is zero, checking it costs an
// edit one load.
inline std::atomic<uint32_t> open_journals{0};
inline bool is_recording() { return open_journals.load(std::memory_order_relaxed) != 0; }
}  // namespace detail

// A value that a node, a graph's signature or an initializer defines. 40 bytes.
class Value {
 public:
  const Type* type() const { return type_; }  // the best known type; null = nothing known
  void set_type(const Type* t) {
    if (detail::is_recording()) note_type();
    type_ = t;
  }
  Name name() const { return name_; }  // may be empty: writers invent one
  void set_name(Name n) {
    if (detail::is_recording()) note_name();
    name_ = n;
  }

  ValueKind kind() const { return kind_; }
  uint32_t index() const { return index_; }  // index among the results of its node, or the inputs of its graph
  uint32_t id() const { return id_; }        // dense per model; renumbered by compact()

  Node* def() const { return kind_ == ValueKind::kResult ? def_ : nullptr; }
  Graph* graph() const;  // the graph that defines it; null for detached nodes and placeholders
  // The payload of a constant (an initializer, or the result of a Constant / const node), else null.
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
// Several bodies with one name form a list of graphs (ONNX GRAPHS, jax `branches`), in order.
struct Body {
  Name name;
  Graph* graph = nullptr;
  bool in_list = false;  // ONNX: an element of a GRAPHS attribute, not a GRAPH
};

using Metadata = std::vector<std::pair<std::string, std::string>>;  // in file order, keys unique

// Documentation and metadata.
struct Notes {
  std::string doc;
  Metadata metadata;
};

// Fields that few nodes have.
struct NodeExtra {
  std::vector<Body> bodies;
  std::string doc;
  std::string overload;
  Metadata metadata;
  TensorPtr payload;                     // of Constant / const nodes
  const Attrs* payload_attrs = nullptr;  // the attribute that holds it: value, value_ints, sparse_value, ...
};

// Flags of a node.
enum NodeFlag : uint16_t {
  kAlive = 1,      // not erased
  kLinked = 2,     // in a graph's order
  kUnchecked = 4,  // its type rule did not run or refused it: rules skip it, the verifier and writers report it
  kBoundary = 8,   // the pseudo-node that owns a graph's results
};

// An operation. One arena allocation: [Node][Value x results][Use x operands]; the counts are fixed.
class Node {
 public:
  const Op& op() const { return *op_; }
  // Changes the operator (or its version), keeping operands and results; the node becomes unchecked.
  void set_op(const Op& op);
  // Whether this is a known version of the dialect's own operator with this name; false for other domains.
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
  // Operand i; null if absent or out of range.
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
  // Attribute `name` as T, or `otherwise`. Ignores the defaults in the operator tables. An attribute of
  // another kind throws kInvalidModel.
  int64_t attr_int(std::string_view name, int64_t otherwise) const;
  double attr_float(std::string_view name, double otherwise) const;
  std::string attr_string(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<int64_t>> attr_ints(std::string_view name) const;  // nullopt if absent

  std::span<const Body> bodies() const { return extra_ ? std::span<const Body>(extra_->bodies) : std::span<const Body>(); }
  Graph* body(std::string_view name) const;  // the first one with that name, or null
  const NodeExtra* extra() const { return extra_; }
  NodeExtra& edit_extra();  // for a node in a graph; see Model::edit_extra for detached ones
  // Makes `body` (from Model::new_graph) a nested graph of this node.
  void add_body(std::string_view name, Graph& body);
  // Detaches nested graph i, which then belongs to no node.
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
  // The next live node in graph order; null at the end. Also works from an erased node until compact().
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

  // Fields that walks use come first.
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
  if (kind_ == ValueKind::kResult && !def_->has(Trait::kConstant)) return false;  // the common case
  return constant() != nullptr;
}

// The live nodes of a graph in order. The walk sees nodes inserted after the current one, not those before;
// the current node may be erased.
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

}  // namespace sardonyx
