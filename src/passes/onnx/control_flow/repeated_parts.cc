#include "passes/onnx/control_flow/repeated_parts.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/graph/call.h"
#include "passes/onnx/control_flow/same_bodies.h"

namespace sardonyx::onnx {
namespace {

constexpr int kSteps = 3;               // how many producers up a color depends on
constexpr size_t kTries = 32;           // colors to try, for each of the two kinds
constexpr int64_t kSmallIntegers = 64;  // integer constants up to this many elements compare by value

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}
uint64_t mix(uint64_t h, const void* p) { return mix(h, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p))); }

bool counts_by_value(const Tensor& t) {
  return (is_integer(t.dtype()) || t.dtype() == DType::kBool) && t.size() <= kSmallIntegers;
}

// Whether x and y may be the same operand of the one node that replaces two.
bool same_kind(const Value* x, const Value* y) {
  if (x == nullptr || y == nullptr) return x == y;
  if (x->type() != y->type() || x->is_constant() != y->is_constant()) return false;
  return !x->is_constant() || !counts_by_value(*x->constant()) || x->constant()->equals(*y->constant());
}

uint64_t hash_of_kind(const Value* v) {
  if (v == nullptr) return 1;
  uint64_t h = mix(2, v->type());
  if (!v->is_constant()) return h;
  return counts_by_value(*v->constant()) ? mix(h, v->constant()->hash()) : mix(h, 3);
}

// Visits uses in bodies, in the order of bodies, nodes and operands.
template <class See>
void see_captures(const Node& n, See&& see) {
  std::vector<const Graph*> todo;
  std::unordered_set<const Graph*> inside;
  const auto open = [&](const Node& owner) {
    for (const Body& b : owner.bodies()) {
      inside.insert(b.graph);
      todo.push_back(b.graph);
    }
  };
  open(n);
  for (size_t i = 0; i < todo.size(); ++i) {
    for (const Node& m : todo[i]->nodes()) open(m);
  }
  const auto add = [&](const Use& u) {
    if (u.value != nullptr && !inside.contains(u.value->graph())) see(const_cast<Use&>(u));
  };
  for (const Graph* g : todo) {
    for (const Node& m : g->nodes()) {
      for (const Use& u : m.operands()) add(u);
    }
    for (const Port& p : g->outputs()) add(*p.use);
  }
}

class Search {
 public:
  Search(const Graph& g, size_t min_nodes) : graph_(g), min_nodes_(min_nodes), place_(g.model(), -1) {
    for (const Node& n : g.nodes()) {
      place_[n] = static_cast<int>(nodes_.size());
      nodes_.push_back(const_cast<Node*>(&n));
    }
    for (const Graph* around = &g; around != nullptr; around = around->enclosing()) around_.insert(around);
    color();
    twin_.resize(nodes_.size());
    stamp_.resize(nodes_.size());
  }

  Repeat best() {
    Repeat best;
    size_t saved = 0;
    std::vector<std::vector<int>> all = candidates(colors_);       // colors with context tell apart parts that end alike
    std::ranges::move(candidates(own_), std::back_inserter(all));  // short parts, whose first nodes have different producers
    for (const std::vector<int>& places : all) {
      std::optional<Part> part = grow(places[places.size() - 2], places.back());
      if (!part || part->nodes.size() < min_nodes_) continue;
      const std::vector<int>& roots = alike_[own_[static_cast<size_t>(places.back())]];
      if (worth(roots.size(), part->nodes.size()) <= saved) continue;
      std::vector<std::vector<int>> found;
      std::vector<bool> taken(nodes_.size());
      size_t looked_at = 0;
      for (int root : roots) {
        if (looked_at > 8 * nodes_.size()) break;  // many occurrences start like the part but differ later
        std::optional<std::vector<int>> at = match(*part, root, looked_at);
        if (!at || std::ranges::any_of(*at, [&](int i) { return taken[static_cast<size_t>(i)]; }) || !stands_alone(*at))
          continue;
        for (int i : *at) taken[static_cast<size_t>(i)] = true;
        found.push_back(std::move(*at));
      }
      if (found.size() < 2 || worth(found.size(), part->nodes.size()) <= saved || has_cycle(found)) continue;
      saved = worth(found.size(), part->nodes.size());
      best = in_order(found);
    }
    return best;
  }

 private:
  // Nodes of a part, as places in the occurrence from which it was grown. nodes[0] is the last one in graph
  // order.
  struct Part {
    std::vector<int> nodes;
    std::unordered_map<int, size_t> index;
  };

  // Nodes saved when `times` parts (at least two) of `size` nodes (at least two) become calls.
  static size_t worth(size_t times, size_t size) { return (times - 1) * size - times; }

  // The place of the producer of `v`; -1 for inputs, constants and values from outside.
  int place_of(const Value* v) { return v == nullptr || v->def() == nullptr ? -1 : place_[*v->def()]; }
  Node& at(int place) { return *nodes_[static_cast<size_t>(place)]; }
  std::span<Use* const> reads(int place) {
    std::vector<Use*>& known = reads_[static_cast<size_t>(place)];
    if (known.empty()) known = reads_of(at(place));
    return known;
  }

  void color() {
    reads_.resize(nodes_.size());
    colors_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& n = *nodes_[i];
      if (n.unchecked() || n.num_results() == 0 || n.result()->is_constant()) {
        colors_[i] = mix(9, &n);  // unique: belongs to no part
        continue;
      }
      uint64_t h = mix(mix(mix(7, &n.op()), n.attrs().canonical()), n.num_results());
      for (const Value& v : n.results()) h = mix(h, v.type());
      for (const Use& u : n.operands()) h = mix(h, hash_of_kind(u.value));
      for (const Body& b : n.bodies()) h = mix(h, b.graph->num_nodes());
      colors_[i] = h;
    }
    own_ = colors_;
    for (int step = 0; step < kSteps; ++step) {
      std::vector<uint64_t> next = colors_;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        uint64_t h = own_[i];
        for (const Use& u : nodes_[i]->operands()) {
          const int from = place_of(u.value);
          h = mix(h, from < 0 ? 0 : mix(colors_[static_cast<size_t>(from)], u.value->index()));
        }
        next[i] = h;
      }
      colors_ = std::move(next);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) alike_[own_[i]].push_back(static_cast<int>(i));
  }

  // Places grouped by color. Colors at which the fewest values are live come first.
  std::vector<std::vector<int>> candidates(const std::vector<uint64_t>& colors) {
    const size_t n = nodes_.size();
    std::vector<int64_t> starts(n);
    for (size_t i = 0; i < n; ++i) {
      for (const Value& v : nodes_[i]->results()) {
        int last = -1;
        for (const Use& u : v.uses()) {
          Node* reader = node_around(graph_, *u.owner);
          if (!reader->is_boundary()) last = std::max(last, place_[*reader]);
        }
        if (last <= static_cast<int>(i) || v.is_constant()) continue;
        ++starts[i];
        --starts[static_cast<size_t>(last)];
      }
    }
    struct Class {
      std::vector<int> places;
      int64_t alive = 0;
    };
    std::vector<Class> classes;
    std::unordered_map<uint64_t, size_t> known;
    int64_t alive = 0;
    for (size_t i = 0; i < n; ++i) {
      alive += starts[i];
      const auto [c, is_new] = known.try_emplace(colors[i], classes.size());
      if (is_new) classes.emplace_back();
      classes[c->second].places.push_back(static_cast<int>(i));
      classes[c->second].alive += alive;
    }
    std::erase_if(classes, [](const Class& c) { return c.places.size() < 2; });
    std::ranges::sort(classes, [](const Class& a, const Class& b) {
      const int64_t x = a.alive * static_cast<int64_t>(b.places.size()), y = b.alive * static_cast<int64_t>(a.places.size());
      return x != y ? x < y : a.places.front() < b.places.front();
    });
    std::vector<std::vector<int>> out;
    for (size_t i = 0; i < std::min(classes.size(), kTries); ++i) out.push_back(std::move(classes[i].places));
    return out;
  }

  // Whether two nodes are equal apart from their producers.
  bool same_node(int a, int b) {
    const Node &x = at(a), &y = at(b);
    const auto value = [](const Use& u) -> const Value* { return u.value; };
    const auto type = [](const Value& v) { return v.type(); };
    const auto same_outside = [&](const Value* v, const Value* w) { return around_.contains(w->graph()) && same_kind(v, w); };
    return own_[static_cast<size_t>(a)] == own_[static_cast<size_t>(b)] && &x.op() == &y.op() &&
           x.attrs().canonical() == y.attrs().canonical() && overload_of(x) == overload_of(y) &&
           std::ranges::equal(x.results(), y.results(), {}, type, type) &&
           std::ranges::equal(x.operands(), y.operands(), same_kind, value, value) && same_bodies(x, y, same_outside);
  }

  // The producers of use k of `a` and of `b`, if they make the same result and the second comes after
  // `floor`.
  std::optional<std::pair<int, int>> pair_behind(int a, int b, size_t k, int floor) {
    const Value *x = reads(a)[k]->value, *y = reads(b)[k]->value;
    const int p = place_of(x), q = place_of(y);
    if (p < 0 || q <= floor || x->index() != y->index() || !same_node(p, q)) return std::nullopt;
    return std::pair(p, q);
  }

  // The part that ends in both a and b. Grows upwards from both; on b's side no further than a.
  std::optional<Part> grow(int a, int b) {
    if (!same_node(a, b)) return std::nullopt;
    std::unordered_map<int, int> to_b{{a, b}}, to_a{{b, a}};
    std::vector<std::pair<int, int>> found{{a, b}};
    for (size_t i = 0; i < found.size(); ++i) {
      const auto [x, y] = found[i];
      for (size_t k = 0; k < reads(x).size(); ++k) {
        const auto behind = pair_behind(x, y, k, a);
        if (!behind) continue;
        const auto [p, q] = *behind;
        const auto [forth, is_new] = to_b.try_emplace(p, q);
        if (forth->second != q || to_a.try_emplace(q, p).first->second != p) return std::nullopt;
        if (is_new) found.emplace_back(p, q);
      }
    }
    Part part;
    for (const auto& [x, y] : found) {
      part.index.emplace(y, part.nodes.size());
      part.nodes.push_back(y);
    }
    return part;
  }

  // The occurrence of the part that ends in `root`, if there is one.
  std::optional<std::vector<int>> match(const Part& part, int root, size_t& looked_at) {
    if (!same_node(part.nodes[0], root)) return std::nullopt;
    std::vector<int> found(part.nodes.size(), -1);
    std::unordered_set<int> mine{root};
    found[0] = root;
    // Every node of a part but the last has a user earlier in `nodes`, so found[i] is set when the loop
    // reaches it.
    for (size_t i = 0; i < found.size(); ++i) {
      ++looked_at;
      for (size_t k = 0; k < reads(part.nodes[i]).size(); ++k) {
        const auto inner = part.index.find(place_of(reads(part.nodes[i])[k]->value));
        if (inner == part.index.end()) continue;
        const Value *want = reads(part.nodes[i])[k]->value, *have = reads(found[i])[k]->value;
        const int p = place_of(have);
        int& known = found[inner->second];
        if (p < 0 || have->index() != want->index() || (known >= 0 && known != p)) return std::nullopt;
        if (known == p) continue;
        if (!same_node(inner->first, p) || !mine.insert(p).second) return std::nullopt;
        known = p;
      }
    }
    for (size_t i = 0; i < found.size(); ++i) {
      for (size_t k = 0; k < reads(found[i]).size(); ++k) {
        const bool outside = !part.index.contains(place_of(reads(part.nodes[i])[k]->value));
        if (outside && mine.contains(place_of(reads(found[i])[k]->value))) return std::nullopt;
      }
    }
    return found;
  }

  // Whether no path leaves the nodes and comes back, and the nodes are close together.
  bool stands_alone(const std::vector<int>& part) {
    const auto [low, high] = std::ranges::minmax(part);
    if (static_cast<size_t>(high - low) > 16 * part.size() + 256) return false;
    ++epoch_;
    for (int i : part) stamp_[static_cast<size_t>(i)] = epoch_;
    std::unordered_set<int> after;  // outside nodes that depend on the part
    for (int i = low; i <= high; ++i) {
      const bool inside = stamp_[static_cast<size_t>(i)] == epoch_;
      for (const Use* u : reads(i)) {
        const int p = place_of(u->value);
        if (p < low) continue;
        if (inside && after.contains(p)) return false;
        if (!inside && (after.contains(p) || stamp_[static_cast<size_t>(p)] == epoch_)) after.insert(i);
      }
    }
    return true;
  }

  // Whether the graph would have a cycle once each occurrence is one node.
  bool has_cycle(const std::vector<std::vector<int>>& parts) {
    for (size_t i = 0; i < nodes_.size(); ++i) twin_[i] = static_cast<int>(i);
    for (const std::vector<int>& p : parts) {
      for (int i : p) twin_[static_cast<size_t>(i)] = p.front();
    }
    std::vector<std::vector<int>> readers(nodes_.size());
    std::vector<size_t> waits(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const Use* u : reads(static_cast<int>(i))) {
        const int p = place_of(u->value);
        if (p < 0 || twin_[static_cast<size_t>(p)] == twin_[i]) continue;
        readers[static_cast<size_t>(twin_[static_cast<size_t>(p)])].push_back(twin_[i]);
        ++waits[static_cast<size_t>(twin_[i])];
      }
    }
    std::vector<int> ready;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (waits[i] == 0) ready.push_back(static_cast<int>(i));
    }
    size_t left = nodes_.size();
    while (!ready.empty()) {
      const int i = ready.back();
      ready.pop_back();
      --left;
      for (int r : readers[static_cast<size_t>(i)]) {
        if (--waits[static_cast<size_t>(r)] == 0) ready.push_back(r);
      }
    }
    return left != 0;
  }

  Repeat in_order(const std::vector<std::vector<int>>& parts) {
    std::vector<size_t> order(parts.front().size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](size_t i) { return parts.front()[i]; });
    Repeat r;
    for (const std::vector<int>& p : parts) {
      auto& nodes = r.occurrences.emplace_back();
      for (size_t i : order) nodes.push_back(&at(p[i]));
    }
    return r;
  }

  const Graph& graph_;
  size_t min_nodes_;
  NodeMap<int> place_;
  std::vector<Node*> nodes_;
  std::unordered_set<const Graph*> around_;
  std::vector<std::vector<Use*>> reads_;
  std::vector<uint64_t> own_, colors_;                    // hash of the node itself; with its producers
  std::unordered_map<uint64_t, std::vector<int>> alike_;  // places by own_, also when producers differ
  std::vector<int> twin_;
  std::vector<int> stamp_;
  int epoch_ = 0;
};

}  // namespace

std::vector<Use*> reads_of(Node& n) {
  std::vector<Use*> reads;
  for (Use& u : n.operands()) reads.push_back(&u);
  if (!n.bodies().empty()) see_captures(n, [&](Use& u) { reads.push_back(&u); });
  return reads;
}

Node* node_around(const Graph& g, Node& n) {
  Node* at = &n;
  while (at->graph() != &g) at = at->graph()->parent();
  return at;
}

Repeat best_repeat(const Graph& g, size_t min_nodes) {
  if (g.num_nodes() < 2 * min_nodes) return {};
  return Search(g, min_nodes).best();
}

}  // namespace sardonyx::onnx
