#include <fmt/format.h>

#include "ir/graph/journal.h"
#include "ir/graph/model_impl.h"
#include "ir/graph/order_block.h"
#include "ir/graph/use_list.h"
#include "sardonyx/ir.h"

namespace sardonyx {

#ifdef _WIN32  // bit-fields of different types do not share a word there
static_assert(sizeof(Use) == 32 && sizeof(Value) <= 48 && sizeof(Node) <= 80);
#elif UINTPTR_MAX > UINT32_MAX
static_assert(sizeof(Use) == 32 && sizeof(Value) == 40 && sizeof(Node) == 72);
#endif
static_assert(std::is_trivially_destructible_v<Node> && std::is_trivially_destructible_v<Value>);

Graph* Value::graph() const {
  switch (kind_) {
    case ValueKind::kResult: return def_->graph();
    case ValueKind::kInput:
    case ValueKind::kConstant: return graph_;
    case ValueKind::kPlaceholder: return nullptr;
  }
  return nullptr;
}

const TensorPtr& Value::constant() const {
  static const TensorPtr none;
  if (kind_ == ValueKind::kConstant) return static_cast<const ConstantValue*>(this)->payload;
  if (kind_ == ValueKind::kResult && def_->has(Trait::kConstant) && def_->extra() != nullptr) return def_->extra()->payload;
  return none;
}

Model& Node::model() const {
  SX_CHECK(graph_ != nullptr, "a detached node was asked for its model");
  return graph_->model();
}

void Node::set_input(size_t i, Value* v) {
  SX_CHECK(i < num_inputs_, "operand index out of range");
  Use& u = uses()[i];
  if (Journal* j = graph_ != nullptr ? graph_->model().journal() : nullptr; j != nullptr && !j->is_new(*this)) j->use(u);
  UseList::unlink(u);
  UseList::link(u, v);
}

Graph* Node::body(std::string_view name) const {
  for (const Body& b : bodies()) {
    if (b.name.view() == name) return b.graph;
  }
  return nullptr;
}

bool Node::any_result_used() const {
  for (const Value& v : results()) {
    if (v.has_uses()) return true;
  }
  return false;
}

namespace {

// A walk over a large graph waits for memory. These prefetch the node a few steps ahead, both of its cache
// lines (its operator and flags come first, its results after it), and the next block. Always inlined: gcc
// treats a function that only prefetches as free of effects and drops the call.
[[gnu::always_inline]] inline void fetch(const void* p) {
  __builtin_prefetch(p);
  __builtin_prefetch(static_cast<const char*>(p) + 64);
}

[[gnu::always_inline]] inline void fetch_ahead(const OrderBlock* block, uint32_t slot) {
  constexpr uint32_t kAhead = 6;
  const uint32_t at = slot + kAhead;
  const OrderBlock* later = block->next;
  if (at < block->count) {
    fetch(block->slots[at]);
  } else if (later != nullptr && at - block->count < later->count) {
    fetch(later->slots[at - block->count]);
  }
  if (slot == 2 && later != nullptr) fetch(later);
}

[[gnu::always_inline]] inline void fetch_behind(const OrderBlock* block, uint32_t slot) {
  constexpr uint32_t kBehind = 6;
  const OrderBlock* earlier = block->prev;
  if (slot >= kBehind) {
    fetch(block->slots[slot - kBehind]);
  } else if (earlier != nullptr && earlier->count + slot >= kBehind) {
    fetch(earlier->slots[earlier->count + slot - kBehind]);
  }
}

}  // namespace

Node* Node::next() const {
  const OrderBlock* block = block_;
  if (block == nullptr) return nullptr;
  uint32_t slot = slot_ + 1U;
  fetch_ahead(block, slot);
  for (; block != nullptr; block = block->next, slot = 0) {
    for (; slot < block->count; ++slot) {
      if (block->slots[slot]->alive()) return block->slots[slot];
    }
  }
  return nullptr;
}

Node* Node::prev() const {
  const OrderBlock* block = block_;
  if (block == nullptr) return nullptr;
  uint32_t slot = slot_;
  fetch_behind(block, slot);
  for (;;) {
    while (slot-- > 0) {
      if (block->slots[slot]->alive()) return block->slots[slot];
    }
    block = block->prev;
    if (block == nullptr) return nullptr;
    slot = block->count;
  }
}

namespace {

[[noreturn]] void wrong_kind(const Node& n, std::string_view name, std::string_view wanted) {
  throw Error(ErrorCode::kInvalidModel, fmt::format("attribute '{}' of {} is not {}", name, n.op().name, wanted),
              {fmt::format("at node '{}'", n.name().view())});
}

}  // namespace

int64_t Node::attr_int(std::string_view name, int64_t otherwise) const {
  const Attr* a = attr(name);
  if (a == nullptr) return otherwise;
  if (const auto* i = a->get<int64_t>()) return *i;
  if (const auto* b = a->get<bool>()) return *b ? 1 : 0;
  wrong_kind(*this, name, "an integer");
}

double Node::attr_float(std::string_view name, double otherwise) const {
  const Attr* a = attr(name);
  if (a == nullptr) return otherwise;
  if (const auto* f = a->get<double>()) return *f;
  wrong_kind(*this, name, "a float");
}

std::string Node::attr_string(std::string_view name, std::string_view otherwise) const {
  const Attr* a = attr(name);
  if (a == nullptr) return std::string(otherwise);
  if (const auto* s = a->get<std::string>()) return *s;
  wrong_kind(*this, name, "a string");
}

std::optional<std::vector<int64_t>> Node::attr_ints(std::string_view name) const {
  const Attr* a = attr(name);
  if (a == nullptr) return std::nullopt;
  if (const auto* v = a->get<Attr::Ints>()) return *v;
  wrong_kind(*this, name, "a list of integers");
}

}  // namespace sardonyx
