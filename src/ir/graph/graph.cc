#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/journal.h"
#include "ir/graph/model_impl.h"
#include "ir/graph/order_block.h"
#include "ir/graph/use_list.h"
#include "sardonyx/ir.h"

namespace sardonyx {

// ---------------------------------------------------------------------------------------------------------------------
// Order

Node* Graph::first() const {
  for (const OrderBlock* b = first_block_; b != nullptr; b = b->next) {
    for (uint32_t i = 0; i < b->count; ++i) {
      if (b->slots[i]->alive()) return b->slots[i];
    }
  }
  return nullptr;
}

Node* Graph::last() const {
  for (const OrderBlock* b = last_block_; b != nullptr; b = b->prev) {
    for (uint32_t i = b->count; i-- > 0;) {
      if (b->slots[i]->alive()) return b->slots[i];
    }
  }
  return nullptr;
}

// Puts n into `block` at `slot`; splits a full block. Without a block, appends to the graph.
void Graph::link(Node& n, OrderBlock* block, uint32_t slot) {
  SX_CHECK(n.alive() && !n.linked(), "only a detached, live node can be inserted");
  auto new_block = [&](OrderBlock* after) {
    auto* b = new (model_->allocate(sizeof(OrderBlock), alignof(OrderBlock))) OrderBlock;
    b->prev = after;
    b->next = after ? after->next : nullptr;
    (b->prev ? b->prev->next : first_block_) = b;
    (b->next ? b->next->prev : last_block_) = b;
    return b;
  };
  if (block == nullptr) {
    block = last_block_;
    if (block == nullptr || block->count == OrderBlock::kSlots) block = new_block(block);
    slot = block->count;
  } else if (block->count == OrderBlock::kSlots) {
    OrderBlock* upper = new_block(block);
    constexpr uint32_t half = OrderBlock::kSlots / 2;
    for (uint32_t i = half; i < OrderBlock::kSlots; ++i) {
      upper->put(i - half, block->slots[i]);
      block->slots[i] = nullptr;
    }
    upper->count = OrderBlock::kSlots - half;
    block->count = half;
    if (slot > half) {
      block = upper;
      slot -= half;
    }
  }
  for (uint32_t i = block->count++; i > slot; --i) block->put(i, block->slots[i - 1]);
  block->put(slot, &n);
  n.graph_ = this;
  n.flags_ |= kLinked;
  ++num_nodes_;
  ++model_->impl_->linked_nodes;
  --model_->impl_->detached_nodes;
  model_->impl_->count_op(n.op(), 1);
  model_->impl_->note_bodies(n);
}

void Graph::append(Node& n) {
  link(n, nullptr, 0);
  if (Journal* j = model_->journal()) j->linked(n);
}

void Graph::insert_before(Node& at, Node& n) {
  SX_CHECK(at.graph_ == this && at.linked(), "the node to insert before is not in this graph");
  link(n, at.block_, at.slot_);
  if (Journal* j = model_->journal()) j->linked(n);
}

void Graph::insert_after(Node& at, Node& n) {
  SX_CHECK(at.graph_ == this && at.linked(), "the node to insert after is not in this graph");
  link(n, at.block_, at.slot_ + 1U);
  if (Journal* j = model_->journal()) j->linked(n);
}

void Graph::detach(Node& n) {
  SX_CHECK(n.graph_ == this && n.linked(), "the node to detach is not in this graph");
  OrderBlock* block = n.block_;
  const uint32_t slot = n.slot_;
  if (Journal* j = model_->journal()) {
    Node* behind = slot + 1 < block->count ? block->slots[slot + 1] : block->next != nullptr ? block->next->slots[0] : nullptr;
    j->detaching(n, behind);
  }
  --block->count;
  for (uint32_t i = slot; i < block->count; ++i) block->put(i, block->slots[i + 1]);
  block->slots[block->count] = nullptr;
  if (block->count == 0) {
    (block->prev ? block->prev->next : first_block_) = block->next;
    (block->next ? block->next->prev : last_block_) = block->prev;
  }
  n.block_ = nullptr;
  n.graph_ = nullptr;
  n.flags_ = static_cast<uint16_t>(n.flags_ & ~kLinked);
  --num_nodes_;
  --model_->impl_->linked_nodes;
  ++model_->impl_->detached_nodes;
  model_->impl_->count_op(n.op(), -1);
  model_->impl_->note_bodies(n);
}

// Removes all uses held by n and by the nodes inside its bodies. Bodies may nest arbitrarily deep, so no
// recursion.
void Graph::drop_operands(Node& n) {
  Journal* journal = model_->journal();
  const auto unlink = [journal](Use& u) {
    if (journal != nullptr && u.value != nullptr) journal->use(u);
    UseList::unlink(u);
  };
  if (n.bodies().empty()) {
    for (Use& u : n.operands()) unlink(u);
    return;
  }
  std::vector<Node*> stack{&n};
  while (!stack.empty()) {
    Node& node = *stack.back();
    stack.pop_back();
    for (Use& u : node.operands()) unlink(u);
    for (const Body& body : node.bodies()) {
      for (const Port& port : body.graph->outputs_) unlink(*port.use);
      for (Node& inner : body.graph->nodes()) {
        inner.flags_ = static_cast<uint16_t>(inner.flags_ & ~(kAlive | kLinked));
        --model_->impl_->linked_nodes;
        model_->impl_->count_op(inner.op(), -1);
        if (journal != nullptr) journal->erased_inside(inner);
        stack.push_back(&inner);
      }
    }
  }
}

void Graph::erase(Node& n) {
  SX_CHECK(n.alive() && n.linked() && n.graph_ == this, "the node to erase is not in this graph");
  SX_CHECK(!n.any_result_used(), fmt::format("erased {} '{}' still has users", n.op().name, n.name().view()));
  drop_operands(n);
  for (const Value& v : n.results()) erase_value_info(v);
  if (Journal* j = model_->journal()) j->erased(n);
  n.flags_ = static_cast<uint16_t>(n.flags_ & ~(kAlive | kLinked));
  --num_nodes_;
  --model_->impl_->linked_nodes;
  model_->impl_->count_op(n.op(), -1);
  model_->impl_->note_bodies(n);
}

namespace {

// Calls see(value) for each operand of n and for each outer value that its bodies use.
template <class See>
void for_each_operand(Node& n, See&& see) {
  for (const Use& u : n.operands()) {
    if (u.value != nullptr) see(*u.value);
  }
  if (n.bodies().empty()) return;
  std::vector<Graph*> stack;
  for (const Body& b : n.bodies()) stack.push_back(b.graph);
  while (!stack.empty()) {
    Graph& g = *stack.back();
    stack.pop_back();
    for (const Port& port : g.outputs()) {
      if (port.use->value != nullptr) see(*port.use->value);
    }
    for (Node& inner : g.nodes()) {
      for (const Use& u : inner.operands()) {
        if (u.value != nullptr) see(*u.value);
      }
      for (const Body& b : inner.bodies()) stack.push_back(b.graph);
    }
  }
}

}  // namespace

void Graph::sort() {
  // Depth first from each node in the present order, operands first, so nodes already in order stay in place.
  enum : uint8_t { kNew, kOpen, kDone };
  NodeMap<uint8_t> state(*model_, kNew);
  std::vector<Node*> sorted;
  sorted.reserve(num_nodes_);
  struct Frame {
    Node* node;
    std::vector<Node*> producers;
    size_t next = 0;
  };
  std::vector<Frame> stack;
  auto open = [&](Node& n) {
    state[n] = kOpen;
    Frame frame{&n, {}, 0};
    for_each_operand(n, [&](Value& v) {
      Node* def = v.def();
      if (def != nullptr && def->graph() == this && def != &n && state[*def] != kDone) frame.producers.push_back(def);
      if (def == &n) {
        throw Error(ErrorCode::kInvalidModel, fmt::format("node '{}' ({}) uses its own result", n.name().view(), n.op().name));
      }
    });
    stack.push_back(std::move(frame));
  };
  for (Node& root : nodes()) {
    if (state[root] == kDone) continue;
    open(root);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == top.producers.size()) {
        state[*top.node] = kDone;
        sorted.push_back(top.node);
        stack.pop_back();
        continue;
      }
      Node& def = *top.producers[top.next++];
      if (state[def] == kDone) continue;
      if (state[def] == kOpen) {
        std::string cycle;
        size_t shown = 0;
        auto at = std::find_if(stack.begin(), stack.end(), [&](const Frame& f) { return f.node == &def; });
        for (; at != stack.end() && shown < 8; ++at, ++shown)
          cycle += fmt::format("{} '{}' <- ", at->node->op().name, at->node->name().view());
        cycle += at == stack.end() ? fmt::format("{} '{}'", def.op().name, def.name().view()) : std::string("...");
        throw Error(ErrorCode::kInvalidModel, "the graph has a cycle: each node uses a result of the next one", {cycle});
      }
      open(def);
    }
  }
  // Rebuild the order without tombstones. Nodes keep their identity.
  if (Journal* j = model_->journal()) j->sorting(*this);
  first_block_ = last_block_ = nullptr;
  for (Node* n : sorted) {
    n->flags_ = static_cast<uint16_t>(n->flags_ & ~kLinked);
    n->block_ = nullptr;
    --num_nodes_;
    --model_->impl_->linked_nodes;
    ++model_->impl_->detached_nodes;
    model_->impl_->count_op(n->op(), -1);
    link(*n, nullptr, 0);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Signature

Value* Graph::add_input(std::string_view name, const Type* declared) {
  note_signature();
  auto* v = new (model_->allocate(sizeof(Value), alignof(Value))) Value;
  v->kind_ = ValueKind::kInput;
  v->graph_ = this;
  v->index_ = static_cast<uint32_t>(inputs_.size()) & 0xffffff;
  v->id_ = model_->next_value_id_++;
  v->name_ = model_->name(name);
  v->type_ = declared;
  Port port;
  port.name = v->name_;
  port.declared = declared;
  port.value = v;
  inputs_.push_back(std::move(port));
  return v;
}

void Graph::add_output(Value& v, std::string_view name, const Type* declared) {
  note_signature();
  Port port;
  port.name = model_->name(name);
  port.declared = declared;
  port.use = new (model_->allocate(sizeof(Use), alignof(Use))) Use;
  port.use->owner = boundary_;
  if (Journal* j = model_->journal()) j->use(*port.use);
  UseList::link(*port.use, &v);
  outputs_.push_back(std::move(port));
}

void Graph::set_output(size_t i, Value& v) {
  SX_CHECK(i < outputs_.size(), "result index out of range");
  if (Journal* j = model_->journal()) j->use(*outputs_[i].use);
  UseList::unlink(*outputs_[i].use);
  UseList::link(*outputs_[i].use, &v);
}

void Graph::remove_input(size_t i) {
  SX_CHECK(i < inputs_.size() && !inputs_[i].value->has_uses(), "an input with users cannot be removed");
  note_signature();
  inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(i));
  for (size_t k = i; k < inputs_.size(); ++k) inputs_[k].value->index_ = static_cast<uint32_t>(k) & 0xffffff;
}

void Graph::remove_output(size_t i) {
  SX_CHECK(i < outputs_.size(), "result index out of range");
  note_signature();
  if (Journal* j = model_->journal()) j->use(*outputs_[i].use);
  UseList::unlink(*outputs_[i].use);
  outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(i));
}

void Graph::clear_outputs() {
  note_signature();
  for (Port& port : outputs_) {
    if (Journal* j = model_->journal()) j->use(*port.use);
    UseList::unlink(*port.use);
  }
  outputs_.clear();
}

// ---------------------------------------------------------------------------------------------------------------------
// Constants and uses

Value* Graph::add_constant(TensorPtr payload, std::string_view name) {
  SX_CHECK(payload != nullptr, "a constant needs a payload");
  ConstantValue& v = model_->impl_->constants.emplace_back();
  v.kind_ = ValueKind::kConstant;
  v.graph_ = this;
  v.id_ = model_->next_value_id_++;
  if (!name.empty()) v.name_ = model_->name(name);
  v.type_ = model_->types().tensor(payload->dtype(), payload->shape());
  v.payload = std::move(payload);
  v.index_ = static_cast<uint32_t>(constants_.size()) & 0xffffff;
  constants_.push_back(&v);
  if (Journal* j = model_->journal()) j->constant_added(*this);
  return &v;
}

void Graph::erase_constant(Value& v) {
  SX_CHECK(v.kind_ == ValueKind::kConstant && v.graph_ == this && !v.has_uses(),
           "only an unread initializer of this graph can be erased");
  // index_ is a hint: earlier erasures move the constant down.
  size_t at = std::min<size_t>(v.index_, constants_.size() - 1);
  while (constants_[at] != &v) at = at == 0 ? constants_.size() - 1 : at - 1;
  if (Journal* j = model_->journal()) j->erasing_constant(v, at);
  constants_.erase(constants_.begin() + static_cast<std::ptrdiff_t>(at));
  static_cast<ConstantValue&>(v).payload.reset();
  value_info.erase(&v);
}

size_t Graph::erase_unused_constants() {
  if (std::all_of(constants_.begin(), constants_.end(), [](const Value* v) { return v->has_uses(); })) return 0;
  if (Journal* j = model_->journal()) j->erasing_constants(*this);
  size_t kept = 0;
  for (Value* v : constants_) {
    if (v->has_uses()) {
      v->index_ = static_cast<uint32_t>(kept) & 0xffffff;
      constants_[kept++] = v;
      continue;
    }
    static_cast<ConstantValue*>(v)->payload.reset();
    value_info.erase(v);
  }
  const size_t erased = constants_.size() - kept;
  constants_.resize(kept);
  return erased;
}

void Graph::set_constant(Value& v, TensorPtr payload) {
  SX_CHECK(payload != nullptr, "a constant needs a payload");
  v.set_type(model_->types().tensor(payload->dtype(), payload->shape()));
  if (v.kind_ == ValueKind::kConstant) {
    if (Journal* j = model_->journal()) j->payload(v);
    static_cast<ConstantValue&>(v).payload = std::move(payload);
    return;
  }
  SX_CHECK(v.def() != nullptr && v.def()->has(Trait::kConstant), "only constants have a payload");
  NodeExtra& extra = v.def()->edit_extra();
  extra.payload = std::move(payload);
  extra.payload_attrs = nullptr;
}

void Graph::replace_uses(Value& from, Value& to) {
  if (Journal* j = model_->journal(); j != nullptr && &from != &to) {
    for (Use& u : from.uses()) j->use(u);
  }
  UseList::move_all(from, to);
}

}  // namespace sardonyx
