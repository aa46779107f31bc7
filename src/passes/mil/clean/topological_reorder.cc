//   a = cast(x), b = relu(y), c = tanh(a)                =>   b = relu(y), a = cast(x), c = tanh(a)
//   a = cast(x), b = cast(y), c = relu(x), return a, b   =>   c = relu(x), b = cast(y), a = cast(x), return a, b
//
// Moves casts and transposes to just before their first user in the block, or to its end if none of its ops
// uses them: values then live shorter. After coremltools' pass of this name, which reverses casts and
// transposes that belong to one place in each run; here they get an order that a second run does not
// change.
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>

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

bool moves(const Node& n) { return n.is("cast") || n.is("transpose"); }

// The first op of g that uses a result of n, itself or in a block. Results of g do not count, those of a
// nested block are used by the op that contains it.
Node* first_user(const Node& n, const Graph& g, Places& places) {
  Node* first = nullptr;
  for (const Value& v : n.results()) {
    for (const Use& u : v.uses()) {
      if (u.owner->is_boundary() && u.owner->graph() == &g) continue;
      Node* user = in_graph(u.owner->is_boundary() ? u.owner->graph()->parent() : u.owner, g);
      if (user != nullptr && (first == nullptr || places.of(*user) < places.of(*first))) first = user;
    }
  }
  return first;
}

// Each cast or transpose has a root: the op of another kind to which its first users lead, or the last cast
// or transpose on that way, if it belongs at the end. Those with the same root stand together before it,
// without regard to constants. Roots at the end stand in the order of the results, the first one last.
// Visits the nodes from the last to the first, so that users have their places.
class Mover {
 public:
  explicit Mover(Graph& g)
      : graph_(g),
        places_(g),
        root_(g.model(), nullptr),
        head_(g.model(), nullptr),
        last_const_(g.model(), nullptr),
        result_(g.model(), std::numeric_limits<size_t>::max()) {
    for (size_t i = g.outputs().size(); i-- > 0;) {
      if (const Node* n = g.output(i)->def()) result_[*n] = i;
    }
  }

  // Returns how many nodes moved.
  size_t run() {
    size_t moved = 0;
    for (Node* n = graph_.last(); n != nullptr;) {
      Node* before = n->prev();
      if (n->is("const")) {
        Node* next = n->next();
        last_const_[*n] = next != nullptr && next->is("const") ? last_const_[*next] : n;
      } else if (!moves(*n)) {
        root_[*n] = n;
      } else {
        moved += put(*n);
      }
      n = before;
    }
    return moved;
  }

 private:
  bool put(Node& n) {
    Node* user = first_user(n, graph_, places_);
    const Node* next = next_op(n);
    bool stays;
    if (user != nullptr) {
      root_[n] = root_[*user];
      stays = next != nullptr && root_[*next] == root_[n];
    } else {
      root_[n] = &n;
      const auto later = at_end_.upper_bound(result_[n]);
      stays = later == at_end_.end() && (next == nullptr || (!at_end_.empty() && root_[*next] == at_end_.rbegin()->second));
      if (later != at_end_.begin()) user = head_[*std::prev(later)->second];
      at_end_[result_[n]] = &n;
    }
    Node*& head = head_[*root_[n]];
    if (stays || head == nullptr || head == user) head = &n;
    if (stays) return false;
    graph_.detach(n);
    if (user != nullptr) {
      graph_.insert_before(*user, n);
    } else {
      graph_.append(n);
    }
    places_.put(n);
    return true;
  }

  const Node* next_op(const Node& n) {
    const Node* next = n.next();
    return next != nullptr && next->is("const") ? last_const_[*next]->next() : next;
  }

  Graph& graph_;
  Places places_;
  NodeMap<Node*> root_, head_;      // head: the first of those with this root
  NodeMap<Node*> last_const_;       // of a run of constants
  NodeMap<size_t> result_;          // the first result of the graph that a node makes
  std::map<size_t, Node*> at_end_;  // roots at the end, by result
};

}  // namespace

Pass topological_reorder() {
  return Pass::on_graph(Numerics::kExact, needs({"cast", "transpose"}), [](Graph& top, PassContext& context) {
    size_t moved = 0;
    for (Graph* g : graphs_in(top)) moved += Mover(*g).run();
    context.log.count("moved", moved);
    return moved > 0;
  });
}

}  // namespace sardonyx::mil
