// Moves casts and transposes to just before their first user in the block, or to its end if none of its ops
// uses them.
//
// Values then live shorter. Ops move from the last to the first, so that chains stay together. Not a fixed
// point: ops that moved to the end change their order when they move again. After coremltools' pass of this
// name.
#include <cstdint>

#include "rewrite/pass.h"

namespace sardonyx::mil {
namespace {

// Positions of a graph's nodes as numbers, with gaps between them.
class Places {
 public:
  explicit Places(Graph& g) : graph_(g), place_(g.model(), 0) { renumber(); }

  int64_t of(const Node& n) { return place_[n]; }
  // To be called after n was inserted.
  void put(const Node& n) {
    const Node *before = n.prev(), *after = n.next();
    const int64_t low = before != nullptr ? place_[*before] : 0;
    const int64_t high = after != nullptr ? place_[*after] : low + 2 * kGap;
    if (high - low < 2) return renumber();
    place_[n] = low + (high - low) / 2;
  }

 private:
  static constexpr int64_t kGap = int64_t{1} << 32;
  void renumber() {
    int64_t at = 0;
    for (const Node& n : graph_.nodes()) place_[n] = at += kGap;
  }
  Graph& graph_;
  NodeMap<int64_t> place_;
};

// The node of g that n is, or is nested in.
Node* in_graph(Node* n, const Graph& g) {
  while (n != nullptr && n->graph() != &g) n = n->graph() != nullptr ? n->graph()->parent() : nullptr;
  return n;
}

size_t move(Graph& g) {
  Places places(g);
  size_t moved = 0;
  for (Node* n = g.last(); n != nullptr;) {
    Node* before = n->prev();
    if (n->is("cast") || n->is("transpose")) {
      Node* first = nullptr;
      for (const Value& v : n->results()) {
        for (const Use& u : v.uses()) {
          // A result of the block does not count as a user; a result of a nested block is a use by the op
          // that contains it.
          Node* user = u.owner->is_boundary() ? (u.owner->graph() == &g ? nullptr : in_graph(u.owner->graph()->parent(), g))
                                              : in_graph(u.owner, g);
          if (user != nullptr && (first == nullptr || places.of(*user) < places.of(*first))) first = user;
        }
      }
      if (n->next() != first) {
        g.detach(*n);
        if (first != nullptr) {
          g.insert_before(*first, *n);
        } else {
          g.append(*n);
        }
        places.put(*n);
        ++moved;
      }
    }
    n = before;
  }
  return moved;
}

}  // namespace

Pass topological_reorder() {
  return Pass::on_graph(Numerics::kExact, needs({"cast", "transpose"}),
                        [](Graph& top, PassContext& context) {
                          size_t moved = 0;
                          for (Graph* g : graphs_in(top)) moved += move(*g);
                          context.log.count("moved", moved);
                          return moved > 0;
                        })
      .not_idempotent("ops that moved to the end change their order when they move again");
}

}  // namespace sardonyx::mil
