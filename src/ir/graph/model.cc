#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "ir/graph/journal.h"
#include "ir/graph/model_impl.h"
#include "ir/graph/order_block.h"
#include "ir/graph/use_list.h"
#include "ir/infer/foreign_rules.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

// The operator of every graph's boundary node.
const Op& boundary_op() {
  static const Op op{.name = "<graph>"};
  return op;
}

}  // namespace

Model::Model(DialectId dialect)
    : impl_(std::make_unique<Impl>()),
      dialect_(dialect),
      dims_(std::make_unique<Dims>()),
      types_(std::make_unique<Types>(*dims_)) {
  Attrs& none = impl_->attr_sets.emplace_back();
  none.canonical_ = &none;
  empty_attrs_ = &none;
}

Model::~Model() = default;

void Model::keep_alive_like(const Model& other) {
  if (&other == this) return;
  for (const auto& what : other.keepalive_) {
    if (std::find(keepalive_.begin(), keepalive_.end(), what) == keepalive_.end()) keepalive_.push_back(what);
  }
}

void* Model::allocate(size_t bytes, size_t align) { return impl_->arena.allocate(bytes, align); }

Name Model::name(std::string_view text) {
  if (text.empty()) return Name();
  uint8_t length[10];
  size_t digits = 0;
  for (uint64_t rest = text.size();; rest >>= 7) {
    length[digits++] = static_cast<uint8_t>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    if (rest <= 0x7f) break;
  }
  auto* at = static_cast<uint8_t*>(allocate(digits + text.size(), 1));
  std::memcpy(at, length, digits);
  std::memcpy(at + digits, text.data(), text.size());
  return Name(at);
}

// ---------------------------------------------------------------------------------------------------------------------
// Functions and graphs

Graph& Model::new_graph(std::string_view name) {
  Graph& g = *impl_->graphs.emplace_back(std::unique_ptr<Graph>(new Graph));
  g.model_ = this;
  g.name_ = this->name(name);
  auto* boundary = new (allocate(sizeof(Node), alignof(Node))) Node;
  boundary->op_ = &boundary_op();
  boundary->graph_ = &g;
  boundary->attrs_ = empty_attrs_;
  boundary->flags_ = kAlive | kBoundary;
  g.boundary_ = boundary;
  return g;
}

Function& Model::add_function(std::string_view name) { return add_function(name, new_graph(name)); }

Function& Model::add_function(std::string_view name, Graph& body) {
  SX_CHECK(body.model_ == this && body.parent_ == nullptr && body.function_ == nullptr, "a graph has one owner");
  if (journal_ != nullptr) journal_->functions();
  Function& f = *functions_.emplace_back(std::make_unique<Function>());
  f.name = name;
  f.graph_ = &body;
  body.function_ = &f;
  return f;
}

Function& Model::main() const {
  SX_CHECK(!functions_.empty(), "the model has no function");
  return *functions_.front();
}

Function* Model::find_function(std::string_view domain, std::string_view name, std::string_view overload) const {
  for (const auto& f : functions_) {
    if (f->name == name && f->domain == domain && f->overload == overload) return f.get();
  }
  return nullptr;
}

// When the main function is erased, the last one added takes its place as main.
void Model::erase_function(Function& f) {
  auto at = std::find_if(functions_.begin(), functions_.end(), [&](const auto& p) { return p.get() == &f; });
  SX_CHECK(at != functions_.end() && functions_.size() > 1, "the only function cannot be erased");
  Graph& g = f.graph();
  g.clear_outputs();
  for (Node* n = g.last(); n != nullptr; n = n->prev()) g.erase(*n);
  if (journal_ != nullptr) {
    journal_->functions();
    journal_->erasing_function(std::move(*at));
  }
  g.function_ = nullptr;
  if (at == functions_.begin()) std::rotate(functions_.begin() + 1, functions_.end() - 1, functions_.end());
  functions_.erase(at);
}

// ---------------------------------------------------------------------------------------------------------------------
// Nodes

Node& Model::new_node(const Op& op, std::span<Value* const> inputs, size_t num_results, const Attrs* attrs) {
  if (inputs.size() > UINT32_MAX || num_results >= (1u << 24)) {
    throw Error(ErrorCode::kLimit, fmt::format("{} has {} operands and {} results: more than a node can hold", op.name,
                                               inputs.size(), num_results));
  }
  const size_t bytes = sizeof(Node) + num_results * sizeof(Value) + inputs.size() * sizeof(Use);
  auto* n = new (allocate(bytes, alignof(Node))) Node;
  n->op_ = &op;
  n->attrs_ = attrs ? attrs : empty_attrs_;
  n->num_inputs_ = static_cast<uint32_t>(inputs.size());
  n->num_results_ = static_cast<uint32_t>(num_results);
  n->id_ = next_node_id_++;
  n->flags_ = kAlive | kUnchecked;
  for (size_t i = 0; i < num_results; ++i) {
    auto* v = new (n->values() + i) Value;
    v->def_ = n;
    v->index_ = static_cast<uint32_t>(i) & 0xffffff;
    v->id_ = next_value_id_++;
  }
  Use* uses = n->uses();
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto* u = new (uses + i) Use;
    u->owner = n;
    UseList::link(*u, inputs[i]);
  }
  ++impl_->detached_nodes;
  if (journal_ != nullptr) journal_->made(*n);
  return *n;
}

Value& Model::new_placeholder(std::string_view name, const Type* type) {
  auto* v = new (allocate(sizeof(Value), alignof(Value))) Value;
  v->kind_ = ValueKind::kPlaceholder;
  v->model_ = this;
  v->id_ = next_value_id_++;
  v->name_ = this->name(name);
  v->type_ = type;
  return *v;
}

void Model::fill(Value& placeholder, Value& producer) {
  SX_CHECK(placeholder.kind_ == ValueKind::kPlaceholder, "only a placeholder can be filled");
  if (journal_ != nullptr) {
    for (Use& u : placeholder.uses()) journal_->use(u);
  }
  UseList::move_all(placeholder, producer);
  if (producer.name().empty()) producer.set_name(placeholder.name());
  if (producer.type() == nullptr) producer.set_type(placeholder.type());
}

NodeExtra& Node::edit_extra() {
  SX_CHECK(extra_ != nullptr || graph_ != nullptr, "use Model::edit_extra for a detached node");
  if (graph_ != nullptr && graph_->model().journal() != nullptr) graph_->model().journal()->extra(*this);
  if (extra_ == nullptr) extra_ = &graph_->model().impl_->extras.emplace_back();
  return *extra_;
}

NodeExtra& Model::edit_extra(Node& n) {
  if (journal_ != nullptr) journal_->extra(n);
  if (n.extra_ == nullptr) n.extra_ = &impl_->extras.emplace_back();
  return *n.extra_;
}

void Node::add_body(std::string_view name, Graph& body) {
  SX_CHECK(body.parent_ == nullptr && body.function_ == nullptr, "a graph has one owner");
  if (Journal* j = body.model().journal()) j->parent(body);
  body.parent_ = this;
  body.model().edit_extra(*this).bodies.push_back({body.model().name(name), &body});
  ++body.model().impl_->body_changes;
}

Graph& Node::remove_body(size_t i) {
  SX_CHECK(i < bodies().size(), "nested graph index out of range");
  Graph& body = *extra_->bodies[i].graph;
  if (Journal* j = body.model().journal()) {
    j->parent(body);
    j->extra(*this);
  }
  extra_->bodies.erase(extra_->bodies.begin() + static_cast<std::ptrdiff_t>(i));
  ++body.model().impl_->body_changes;
  body.parent_ = nullptr;
  return body;
}

void Node::set_op(const Op& op) {
  if (linked()) {
    if (Journal* j = graph_->model().journal(); j != nullptr && !j->is_new(*this)) {
      j->flags(*this);
      j->op(*this);
    }
    graph_->model().impl_->count_op(*op_, -1);
    graph_->model().impl_->count_op(op, 1);
  }
  op_ = &op;
  set_unchecked(true);
}

// ---------------------------------------------------------------------------------------------------------------------
// Operators

const Op& Model::op(std::string_view domain, std::string_view name, std::optional<int> version) {
  if (domain == "ai.onnx") domain = {};
  int v = 0;
  if (version) {
    v = *version;
  } else if (dialect_ == DialectId::kOnnx) {
    v = static_cast<int>(opset_version(domain).value_or(0));
  } else if (dialect_ == DialectId::kMil && opset_version(domain)) {
    v = static_cast<int>(*opset_version(domain));
  } else {
    v = sardonyx::dialect(dialect_).latest_version(domain);
  }
  if (const Op* op = sardonyx::dialect(dialect_).find(domain, name, v)) return *op;
  return opaque_op(domain, name, v);
}

const Op& Model::opaque_op(std::string_view domain, std::string_view name, int version) {
  std::string key = fmt::format("{}\n{}\n{}", domain, name, version);
  auto [at, inserted] = impl_->opaque_by_key.try_emplace(std::move(key), nullptr);
  if (inserted) {
    Op& op = impl_->opaque_ops.emplace_back();
    op.dialect = dialect_;
    op.domain = this->name(domain).view();
    op.name = this->name(name).view();
    op.since_version = version;
    op.id = known_op_count() + static_cast<uint32_t>(impl_->opaque_ops.size()) - 1;
    op.max_inputs = op.max_outputs = -1;
    if (dialect_ == DialectId::kOnnx) op.infer = foreign_type_rule(op.domain, op.name);
    at->second = &op;
  }
  return *at->second;
}

const Op& Model::opaque_op(std::string_view name, int version, std::span<const std::string_view> operands) {
  std::string key = fmt::format("\n{}\n{}", name, version);
  for (std::string_view operand : operands) key += fmt::format("\n{}", operand);
  auto [at, inserted] = impl_->opaque_by_key.try_emplace(std::move(key), nullptr);
  if (inserted) {
    std::vector<Slot>& slots = impl_->opaque_slots.emplace_back();
    for (std::string_view operand : operands)
      slots.push_back({.name = this->name(operand).view(), .arity = Arity::kOptional, .types = {.any = true}});
    Op& op = impl_->opaque_ops.emplace_back();
    op.dialect = dialect_;
    op.name = this->name(name).view();
    op.since_version = version;
    op.id = known_op_count() + static_cast<uint32_t>(impl_->opaque_ops.size()) - 1;
    op.max_inputs = op.max_outputs = -1;
    op.inputs = slots;
    at->second = &op;
  }
  return *at->second;
}

uint32_t Model::op_count(const Op& op) const { return op.id < impl_->op_counts.size() ? impl_->op_counts[op.id] : 0; }

uint32_t Model::op_id_limit() const { return known_op_count() + static_cast<uint32_t>(impl_->opaque_ops.size()); }

std::optional<int64_t> Model::opset_version(std::string_view domain) const {
  if (domain == "ai.onnx") domain = {};
  for (const OpsetImport& i : opset_imports) {
    if (i.domain == domain || (domain.empty() && i.domain == "ai.onnx")) return i.version;
  }
  return std::nullopt;
}

void Model::set_opset_version(std::string_view domain, int64_t version) {
  for (OpsetImport& i : opset_imports) {
    if (i.domain == domain) {
      i.version = version;
      return;
    }
  }
  opset_imports.push_back({std::string(domain), version});
}

// ---------------------------------------------------------------------------------------------------------------------
// Sizes and ids

size_t Model::num_nodes() const { return impl_->linked_nodes; }

void Model::compact() {
  SX_CHECK(journal_ == nullptr, "a model cannot be compacted while its edits are recorded");
  const bool renumber = impl_->detached_nodes == 0;
  uint32_t next_node = 0, next_value = 0;
  for (const auto& owned : impl_->graphs) {
    Graph& g = *owned;
    const bool ended = g.function_ == nullptr && (g.parent_ == nullptr || !g.parent_->alive());
    OrderBlock* write = g.first_block_;
    uint32_t slot = 0;
    for (OrderBlock* read = g.first_block_; read != nullptr; read = read->next) {
      const uint32_t count = read->count;
      for (uint32_t i = 0; i < count; ++i) {
        Node* n = read->slots[i];
        if (!n->alive()) {
          n->block_ = nullptr;
          continue;
        }
        if (slot == OrderBlock::kSlots) {
          write->count = slot;
          write = write->next;
          slot = 0;
        }
        write->put(slot++, n);
      }
    }
    if (write != nullptr) {
      for (uint32_t i = slot; i < OrderBlock::kSlots; ++i) write->slots[i] = nullptr;
      write->count = slot;
      write->next = nullptr;
      g.last_block_ = write;
      if (slot == 0 && write->prev == nullptr) g.first_block_ = g.last_block_ = nullptr;
    }
    if (!renumber || ended) continue;
    for (Port& p : g.inputs_) p.value->id_ = next_value++;
    for (Value* c : g.constants_) c->id_ = next_value++;
    for (Node& n : g.nodes()) {
      n.id_ = next_node++;
      for (Value& v : n.results()) v.id_ = next_value++;
    }
  }
  if (renumber) {
    next_node_id_ = next_node;
    next_value_id_ = next_value;
  }
}

}  // namespace sardonyx
