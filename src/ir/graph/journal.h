// Journal: undoes the edits of a pass that failed.
//
//   Journal journal(model);
// ... edit; on failure: journal.rollback(). Destroying the journal keeps the edits.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph/model_impl.h"
#include "sardonyx/ir.h"

namespace sardonyx {

// Records the edits of a model while it is open, 24 bytes each, and undoes them in reverse order. One at a
// time per model.
//
// Recorded: operands, order, nodes made and erased, operators, attributes, types, names, flags, provenance,
// extras and bodies, constants and their payloads, signatures, functions, and value_info changed through
// Graph::edit_value_info(). The fields of the model and of its functions (opset imports, metadata, ...) are
// copied when the journal opens. Not recorded: doc strings and metadata of graphs, which no pass edits, and
// edits of nodes detached before it opened. A node detached later is saved as a whole.
//
// Not restored: the order within use lists, which carries no meaning; ids; and additions to the model's
// tables (types, dims, attribute sets, names). Addresses stay the same, and nodes made meanwhile are dead
// afterwards. Model::compact() is refused while a journal is open.
//
// Linked nodes and graphs reach the journal through their model. Setters that must stay cheap
// (Value::set_type) first check a process-wide counter of open journals, so they cost almost nothing while
// there is none.
class Journal {
 public:
  explicit Journal(Model& m);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Undoes all edits and closes.
  void rollback();
  size_t size() const { return size_; }  // edits so far

  // Permutes the initializers of g from index `first` on. Not recorded, so only while no journal is open.
  static void reorder_constants(Graph& g, size_t first, std::span<Value* const> order);

  // --- for the graph; called before the edit unless marked otherwise
  void use(Use& u) { add(Kind::kUse, &u, u.value); }
  void type(Value& v) { add(Kind::kType, &v, v.type_); }
  void name(Value& v) { add(Kind::kValueName, &v, v.name_.data()); }
  void name(Node& n) { add(Kind::kNodeName, &n, n.name_.data()); }
  void attrs(Node& n) { add(Kind::kAttrs, &n, n.attrs_); }
  void op(Node& n) { add(Kind::kOp, &n, n.op_); }
  void flags(Node& n) { add(Kind::kFlags, &n, nullptr, n.flags_); }
  void provenance(Node& n) { add(Kind::kProvenance, &n, nullptr, n.provenance_); }
  void made(Node& n) { add(Kind::kMade, &n); }      // afterwards
  void linked(Node& n) { add(Kind::kLinked, &n); }  // afterwards
  void detaching(Node& n, Node* behind);            // behind: its successor in the order, dead nodes included; null at the end
  void erased(Node& n) { add(Kind::kErased, &n); }  // without its operands
  void erased_inside(Node& n) { add(Kind::kErasedInside, &n); }  // with its enclosing body
  void extra(Node& n);
  void parent(Graph& g) { add(Kind::kParent, &g, g.parent_); }
  void sorting(Graph& g);
  void signature(Graph& g);
  void constant_added(Graph& g) { add(Kind::kConstantAdded, &g); }  // afterwards
  void erasing_constant(Value& v, size_t at);
  void erasing_constants(Graph& g);
  void payload(Value& v);
  void value_info(Graph& g, const Value& v);
  void functions();
  // Call after functions().
  void erasing_function(std::unique_ptr<Function> f) { tables().erased_functions.push_back(std::move(f)); }

  // Nodes and values made after it opened need no records: they die on rollback.
  bool is_new(const Node& n) const { return n.id_ >= first_node_; }
  bool is_new(const Value& v) const { return v.id_ >= first_value_; }

 private:
  friend std::span<const uint32_t> op_counts(const Model& m);
  friend uint64_t op_set(const Model& m);
  friend std::span<Node* const> nodes_with_bodies(const Graph& g);
  static Model::Impl& insides(const Model& m) { return *m.impl_; }

  enum class Kind : uint32_t {
    kUse,
    kType,
    kValueName,
    kNodeName,
    kAttrs,
    kOp,
    kFlags,
    kProvenance,
    kMade,
    kLinked,
    kDetached,
    kErased,
    kErasedInside,
    kExtra,
    kParent,
    kSorted,
    kSignature,
    kConstantAdded,
    kConstantErased,
    kConstantsErased,
    kPayload,
    kValueInfo,
    kFunctions,
  };
  struct Edit {
    Kind kind;
    uint32_t number;  // an old number, or an index into a table below
    void* subject;
    const void* old;
  };
  static_assert(sizeof(Edit) <= 24);
  static constexpr size_t kChunk = 1024;

  // The state of a node when it left the order.
  struct Detached {
    Graph* graph;
    Node* behind;
    bool is_new;
    const Op* op;
    const Attrs* attrs;
    Name name;
    uint32_t provenance;
    uint16_t flags;
    std::vector<Value*> operands;
    std::vector<std::pair<const Type*, Name>> results;
  };
  struct Signature {
    std::vector<Port> inputs, outputs;
  };
  // The fields that a model stores directly.
  struct Facts {
    int64_t ir_version, model_version;
    std::string producer_name, producer_version, domain, doc;
    Metadata metadata;
    std::vector<OpsetImport> opset_imports;
    std::vector<std::pair<Function*, Function>> functions;
  };

  void add(Kind kind, void* subject, const void* old = nullptr, uint32_t number = 0) {
    if (size_ % kChunk == 0) chunks_.push_back(std::make_unique_for_overwrite<Edit[]>(kChunk));
    chunks_.back()[size_++ % kChunk] = {kind, number, subject, old};
  }
  // Records that do not fit an Edit, by number. Created on demand: most journals need none of them.
  struct Tables {
    std::deque<Detached> detached;
    std::deque<std::optional<NodeExtra>> extras;
    std::deque<std::vector<Node*>> orders;
    std::deque<Signature> signatures;
    std::unordered_set<const Graph*> has_signature;
    std::deque<TensorPtr> payloads;
    std::deque<std::vector<std::pair<Value*, TensorPtr>>> constants;
    std::deque<std::pair<const Value*, std::optional<ValueInfo>>> value_infos;
    std::deque<std::vector<Function*>> function_lists;
    std::vector<std::unique_ptr<Function>> erased_functions;
  };
  Tables& tables() {
    if (tables_ == nullptr) tables_ = std::make_unique<Tables>();
    return *tables_;
  }
  template <class T>
  static uint32_t put(std::deque<T>& table, T what) {
    table.push_back(std::move(what));
    return static_cast<uint32_t>(table.size() - 1);
  }
  void close();
  void undo(const Edit& e);
  void restore(Node& n, const Detached& d);
  void restore_order(Graph& g, const std::vector<Node*>& order);
  void restore_facts();

  Model& model_;
  const uint32_t first_node_, first_value_;
  std::vector<std::unique_ptr<Edit[]>> chunks_;
  size_t size_ = 0;
  bool open_ = true;
  Facts facts_;
  std::unique_ptr<Tables> tables_;
};

}  // namespace sardonyx
