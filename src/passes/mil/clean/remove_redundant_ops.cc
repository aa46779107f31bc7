// Merges ops of one block that have the same type and the same operands into the first.
//
// Operands are the same if they are one value, or constants of fewer than 100 elements with the same dtype
// and content (const_deduplication merges larger and compressed ones). Ops with blocks, random ops, ops that
// write states, and results of the block stay. One walk in order, by hash: users of a removed op get the
// first one before they are compared themselves. After coremltools' pass of this name.
#include <unordered_map>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

constexpr int64_t kSmall = 100;

std::string key_of(const Node& n) {
  std::string key = std::to_string(n.op().id) + '/' + std::to_string(n.num_inputs());
  for (const Use& u : n.operands()) {
    key += ';';
    if (u.value == nullptr) continue;
    const TensorPtr& t = u.value->constant();
    if (t != nullptr && t->size() < kSmall && !t->is_promise()) {
      key += '#' + std::to_string(static_cast<int>(t->dtype())) + ':' + std::to_string(t->hash());
    } else {
      key += std::to_string(u.value->id());
    }
  }
  return key;
}

// Hashes may collide, so compare.
bool same_operands(const Node& a, const Node& b) {
  if (&a.op() != &b.op() || a.num_inputs() != b.num_inputs() || a.attrs().canonical() != b.attrs().canonical()) return false;
  for (size_t i = 0; i < a.num_inputs(); ++i) {
    const Value *x = a.input(i), *y = b.input(i);
    if (x == y) continue;
    if (x == nullptr || y == nullptr || !x->is_constant() || !y->is_constant() || !x->constant()->equals(*y->constant()))
      return false;
  }
  return true;
}

}  // namespace

Pass remove_redundant_ops() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    size_t removed = 0;
    for (Graph* g : graphs_in(top)) {
      std::unordered_map<std::string, Node*> firsts;
      for (Node& n : g->nodes()) {
        if (n.has(Trait::kConstant) || n.has(Trait::kRandom) || !n.has(Trait::kPure)) continue;
        if (n.num_results() != 1) continue;
        if (n.op().name.starts_with("constexpr_")) continue;
        const auto [at, is_first] = firsts.emplace(key_of(n), &n);
        if (is_first || is_block_result(*n.result()) || !same_operands(*at->second, n)) continue;
        g->replace_uses(*n.result(), *at->second->result());
        g->erase(n);
        ++removed;
      }
    }
    context.log.count("removed", removed);
    return removed > 0;
  });
}

}  // namespace sardonyx::mil
