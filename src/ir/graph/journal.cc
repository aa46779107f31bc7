#include "ir/graph/journal.h"

#include <algorithm>

#include "ir/graph/order_block.h"
#include "ir/graph/use_list.h"

namespace sardonyx {

Journal::Journal(Model& m) : model_(m), first_node_(m.next_node_id_), first_value_(m.next_value_id_) {
  SX_CHECK(m.journal_ == nullptr, "a model has one journal at a time");
  facts_ = {
      m.ir_version, m.model_version, m.producer_name, m.producer_version, m.domain, m.doc, m.metadata, m.opset_imports, {}};
  for (const auto& f : m.functions_) facts_.functions.emplace_back(f.get(), *f);
  m.journal_ = this;
  detail::open_journals.fetch_add(1, std::memory_order_relaxed);
}

Journal::~Journal() { close(); }

void Journal::close() {
  if (!open_) return;
  open_ = false;
  model_.journal_ = nullptr;
  detail::open_journals.fetch_sub(1, std::memory_order_relaxed);
}

void Journal::reorder_constants(Graph& g, size_t first, std::span<Value* const> order) {
  SX_CHECK(g.model().journal() == nullptr, "constants cannot change places while edits are recorded");
  for (size_t i = 0; i < order.size(); ++i) {
    g.constants_[first + i] = order[i];
    order[i]->index_ = static_cast<uint32_t>(first + i) & 0xffffff;
  }
}

void Journal::rollback() {
  SX_CHECK(open_, "this journal is closed");
  close();  // undoing must not be recorded
  while (size_ > 0) {
    --size_;
    undo(chunks_.back()[size_ % kChunk]);
    if (size_ % kChunk == 0) chunks_.pop_back();
  }
  restore_facts();
  ++model_.impl_->body_changes;
}

// ---------------------------------------------------------------------------------------------------------------------
// Records larger than 24 bytes

void Journal::detaching(Node& n, Node* behind) {
  Detached d{n.graph_, behind, is_new(n), n.op_, n.attrs_, n.name_, n.provenance_, n.flags_, {}, {}};
  if (!d.is_new) {
    for (const Use& u : n.operands()) d.operands.push_back(u.value);
    for (const Value& v : n.results()) d.results.emplace_back(v.type_, v.name_);
  }
  add(Kind::kDetached, &n, nullptr, put(tables().detached, std::move(d)));
}

void Journal::extra(Node& n) {
  if (is_new(n)) return;
  add(Kind::kExtra, &n, nullptr, put(tables().extras, n.extra_ != nullptr ? std::optional(*n.extra_) : std::nullopt));
}

void Journal::sorting(Graph& g) {
  std::vector<Node*> order;
  for (const OrderBlock* b = g.first_block_; b != nullptr; b = b->next)
    order.insert(order.end(), b->slots, b->slots + b->count);
  add(Kind::kSorted, &g, nullptr, put(tables().orders, std::move(order)));
}

void Journal::signature(Graph& g) {
  // One copy suffices: rollback restores it whatever happens to the ports later.
  if (!tables().has_signature.insert(&g).second) return;
  add(Kind::kSignature, &g, nullptr, put(tables().signatures, Signature{g.inputs_, g.outputs_}));
}

void Journal::erasing_constant(Value& v, size_t at) {
  payload(v);
  value_info(*v.graph_, v);
  add(Kind::kConstantErased, &v, nullptr, static_cast<uint32_t>(at));
}

void Journal::erasing_constants(Graph& g) {
  std::vector<std::pair<Value*, TensorPtr>> c;
  for (Value* v : g.constants_) {
    c.emplace_back(v, static_cast<ConstantValue*>(v)->payload);
    if (!v->has_uses()) value_info(g, *v);
  }
  add(Kind::kConstantsErased, &g, nullptr, put(tables().constants, std::move(c)));
}

void Journal::payload(Value& v) {
  add(Kind::kPayload, &v, nullptr, put(tables().payloads, static_cast<ConstantValue&>(v).payload));
}

void Journal::value_info(Graph& g, const Value& v) {
  const auto at = g.value_info.find(&v);
  if (at == g.value_info.end() && is_new(v)) return;
  add(Kind::kValueInfo, &g, nullptr,
      put(tables().value_infos, {&v, at != g.value_info.end() ? std::optional(at->second) : std::nullopt}));
}

void Journal::functions() {
  std::vector<Function*> list;
  for (const auto& f : model_.functions_) list.push_back(f.get());
  add(Kind::kFunctions, nullptr, nullptr, put(tables().function_lists, std::move(list)));
}

// ---------------------------------------------------------------------------------------------------------------------
// Undoing

void Journal::undo(const Edit& e) {
  const auto subject_value = [&]() -> Value& { return *static_cast<Value*>(e.subject); };
  const auto subject_node = [&]() -> Node& { return *static_cast<Node*>(e.subject); };
  const auto subject_graph = [&]() -> Graph& { return *static_cast<Graph*>(e.subject); };
  const auto old_name = [&] { return e.old == nullptr ? Name() : Name(static_cast<const uint8_t*>(e.old)); };
  switch (e.kind) {
    case Kind::kUse: {
      Use& u = *static_cast<Use*>(e.subject);
      UseList::unlink(u);
      UseList::link(u, static_cast<Value*>(const_cast<void*>(e.old)));
      return;
    }
    case Kind::kType: subject_value().type_ = static_cast<const Type*>(e.old); return;
    case Kind::kValueName: subject_value().name_ = old_name(); return;
    case Kind::kNodeName: subject_node().name_ = old_name(); return;
    case Kind::kAttrs: subject_node().attrs_ = static_cast<const Attrs*>(e.old); return;
    case Kind::kOp: subject_node().set_op(*static_cast<const Op*>(e.old)); return;
    case Kind::kFlags: subject_node().flags_ = static_cast<uint16_t>(e.number); return;
    case Kind::kProvenance: subject_node().provenance_ = e.number; return;
    case Kind::kMade: {
      Node& n = subject_node();
      for (Use& u : n.operands()) UseList::unlink(u);
      n.flags_ = static_cast<uint16_t>(n.flags_ & ~kAlive);
      --model_.impl_->detached_nodes;
      return;
    }
    case Kind::kLinked: subject_node().graph_->detach(subject_node()); return;
    case Kind::kDetached: restore(subject_node(), tables().detached[e.number]); return;
    case Kind::kErased:
    case Kind::kErasedInside: {
      Node& n = subject_node();
      n.flags_ = static_cast<uint16_t>(n.flags_ | kAlive | kLinked);
      if (e.kind == Kind::kErased) ++n.graph_->num_nodes_;
      ++model_.impl_->linked_nodes;
      model_.impl_->count_op(n.op(), 1);
      return;
    }
    case Kind::kExtra: {
      Node& n = subject_node();
      auto& old = tables().extras[e.number];
      if (old) {
        *n.extra_ = std::move(*old);
      } else {
        n.extra_ = nullptr;
      }
      return;
    }
    case Kind::kParent: subject_graph().parent_ = static_cast<Node*>(const_cast<void*>(e.old)); return;
    case Kind::kSorted: restore_order(subject_graph(), tables().orders[e.number]); return;
    case Kind::kSignature: {
      Graph& g = subject_graph();
      g.inputs_ = std::move(tables().signatures[e.number].inputs);
      g.outputs_ = std::move(tables().signatures[e.number].outputs);
      for (size_t i = 0; i < g.inputs_.size(); ++i) g.inputs_[i].value->index_ = static_cast<uint32_t>(i) & 0xffffff;
      return;
    }
    case Kind::kConstantAdded: {
      Graph& g = subject_graph();
      static_cast<ConstantValue*>(g.constants_.back())->payload.reset();
      g.constants_.pop_back();
      return;
    }
    case Kind::kConstantErased: {
      auto& list = subject_value().graph_->constants_;
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(e.number), &subject_value());
      return;
    }
    case Kind::kConstantsErased: {
      Graph& g = subject_graph();
      g.constants_.clear();
      for (auto& [v, payload] : tables().constants[e.number]) {
        v->index_ = static_cast<uint32_t>(g.constants_.size()) & 0xffffff;
        static_cast<ConstantValue*>(v)->payload = std::move(payload);
        g.constants_.push_back(v);
      }
      return;
    }
    case Kind::kPayload: static_cast<ConstantValue&>(subject_value()).payload = std::move(tables().payloads[e.number]); return;
    case Kind::kValueInfo: {
      auto& [v, info] = tables().value_infos[e.number];
      if (info) {
        subject_graph().value_info[v] = std::move(*info);
      } else {
        subject_graph().value_info.erase(v);
      }
      return;
    }
    case Kind::kFunctions: {
      std::vector<std::unique_ptr<Function>> pool = std::move(model_.functions_);
      for (auto& f : tables().erased_functions) pool.push_back(std::move(f));
      tables().erased_functions.clear();
      model_.functions_.clear();
      for (Function* f : tables().function_lists[e.number]) {
        auto at = std::find_if(pool.begin(), pool.end(), [&](const auto& p) { return p.get() == f; });
        f->graph_->function_ = f;
        model_.functions_.push_back(std::move(*at));
        pool.erase(at);
      }
      for (auto& f : pool) {
        f->graph_->function_ = nullptr;
        tables().erased_functions.push_back(std::move(f));
      }
      return;
    }
  }
}

void Journal::restore(Node& n, const Detached& d) {
  if (!d.is_new) {
    n.op_ = d.op;
    n.attrs_ = d.attrs;
    n.name_ = d.name;
    n.provenance_ = d.provenance;
    n.flags_ = static_cast<uint16_t>(d.flags & ~kLinked);
    for (size_t i = 0; i < d.operands.size(); ++i) {
      if (n.input(i) == d.operands[i]) continue;
      UseList::unlink(n.operands()[i]);
      UseList::link(n.operands()[i], d.operands[i]);
    }
    for (size_t i = 0; i < d.results.size(); ++i) {
      n.result(i)->type_ = d.results[i].first;
      n.result(i)->name_ = d.results[i].second;
    }
  }
  if (d.behind == nullptr) {
    d.graph->link(n, nullptr, 0);
  } else {
    d.graph->link(n, d.behind->block_, d.behind->slot_);
  }
}

// Restores the slots of a graph, dead nodes included.
void Journal::restore_order(Graph& g, const std::vector<Node*>& order) {
  g.first_block_ = g.last_block_ = nullptr;
  for (Node* n : order) {
    OrderBlock* block = g.last_block_;
    if (block == nullptr || block->count == OrderBlock::kSlots) {
      block = new (model_.allocate(sizeof(OrderBlock), alignof(OrderBlock))) OrderBlock;
      block->prev = g.last_block_;
      (block->prev != nullptr ? block->prev->next : g.first_block_) = block;
      g.last_block_ = block;
    }
    block->put(block->count++, n);
  }
}

void Journal::restore_facts() {
  Model& m = model_;
  m.ir_version = facts_.ir_version;
  m.model_version = facts_.model_version;
  m.producer_name = std::move(facts_.producer_name);
  m.producer_version = std::move(facts_.producer_version);
  m.domain = std::move(facts_.domain);
  m.doc = std::move(facts_.doc);
  m.metadata = std::move(facts_.metadata);
  m.opset_imports = std::move(facts_.opset_imports);
  for (auto& [f, was] : facts_.functions) *f = std::move(was);
}

// ---------------------------------------------------------------------------------------------------------------------
// Setters that check the counter first

void Value::note_type() {
  Graph* g = graph();
  Journal* j = g != nullptr ? g->model().journal() : nullptr;
  if (j != nullptr && !j->is_new(*this)) j->type(*this);
}

void Value::note_name() {
  Graph* g = graph();
  Journal* j = g != nullptr ? g->model().journal() : nullptr;
  if (j != nullptr && !j->is_new(*this)) j->name(*this);
}

void Node::note(Edited what) {
  Journal* j = graph_ != nullptr ? graph_->model().journal() : nullptr;
  if (j == nullptr || j->is_new(*this)) return;
  switch (what) {
    case Edited::kName: j->name(*this); return;
    case Edited::kAttrs: j->attrs(*this); return;
    case Edited::kFlags: j->flags(*this); return;
    case Edited::kProvenance: j->provenance(*this); return;
  }
}

void Graph::note_signature() {
  if (Journal* j = model_->journal()) j->signature(*this);
}

ValueInfo& Graph::edit_value_info(const Value& v) {
  if (Journal* j = model_->journal()) j->value_info(*this, v);
  return value_info[&v];
}

void Graph::erase_value_info(const Value& v) {
  if (value_info.empty()) return;
  if (Journal* j = model_->journal()) j->value_info(*this, v);
  value_info.erase(&v);
}

void Graph::move_value_info(const Value& from, const Value& to, Graph& of_to) {
  if (value_info.empty() || (&from == &to && this == &of_to)) return;
  const auto at = value_info.find(&from);
  if (at == value_info.end()) return;
  ValueInfo info = at->second;
  erase_value_info(from);
  of_to.edit_value_info(to) = std::move(info);
}

}  // namespace sardonyx
