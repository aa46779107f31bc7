#include "passes/mincut/cost.h"

#include <algorithm>
#include <cmath>

#include "support/min_cut.h"

namespace sardonyx::layout {
namespace {

// What one node costs beside the elements it moves: starting it takes a runtime about as long as copying so
// many elements.
constexpr double kNode = 256;
// At how many elements a size without a number is taken.
constexpr int64_t kSmallSize = 3, kLargeSize = 509;
// How often the body of a Loop is taken to run if nothing says it.
constexpr double kLoopRuns = 16;
// How many steps a minimum cut may take, for each variable and root, and for each cut.
constexpr uint64_t kStepsPerPart = 200, kStepsPerCut = 100000;
// Costs of symbolic sizes are large numbers, of which only so much is known.
constexpr double kSurely = 1 - 1e-12;

constexpr Cost kOnce{1, 1};

bool cheaper(const Cost& a, const Cost& b) { return a.small < b.small * kSurely && a.large < b.large * kSurely; }

}  // namespace

Cost Costs::size_of(const Type* t) {
  const auto [size, is_new] = sizes_.try_emplace(t, kOnce);
  if (is_new) {
    for (Dim d : t->dims()) size->second = size->second * Cost{size_at(d, kSmallSize), size_at(d, kLargeSize)};
  }
  return size->second;
}

// The size if each size without a number is `value`.
double Costs::size_at(Dim d, int64_t value) {
  Dims& dims = context_.model.dims();
  const Dim known = d.is_expr() ? dims.substitute(d, [&](std::string_view) { return Dim::of(value); }) : d;
  return static_cast<double>(std::max<int64_t>(known.is_int() ? known.value() : value, 1));
}

// How often a body runs each time its function runs, roughly.
Cost Costs::times_run(const Graph& g) {
  const auto [times, is_new] = times_run_.try_emplace(&g, kOnce);
  if (!is_new) return times->second;
  for (const Graph* body = &g; body->parent() != nullptr && times->second.small < 1e6; body = body->enclosing()) {
    if (body->parent()->is("If")) continue;
    const Dim runs = trips(*body->parent(), context_);
    const auto at = [&](int64_t value) { return runs.is_unknown() ? kLoopRuns : size_at(runs, value); };
    times->second = times->second * Cost{at(kSmallSize), at(kLargeSize)};
  }
  return times->second;
}

Layout relative(const Layout& stored, const Layout& wanted) {
  Layout back;
  back.rank = stored.rank;
  for (size_t i = 0; i < stored.rank; ++i) {
    if (stored.from[i] != Layout::kNew) back.from[static_cast<uint8_t>(stored.from[i])] = static_cast<int8_t>(i);
  }
  return then(back, wanted);
}

Cost Costs::of_transpose(const Root& root, const Layout& stored, const Layout& wanted, const Graph& g, bool products) {
  if (stored == wanted) return {};
  const Type* t = root.value->type();
  const Layout l = relative(stored, wanted);
  const bool free = moves_nothing(*stored_type(context_.model.types(), t, stored), l) || (products && swaps_last_two(l));
  return (free ? Cost{kNode, kNode} : size_of(t) + Cost{kNode, kNode}) * times_run(g);
}

Cost Costs::of_node(const Var& v) {
  const Cost once = size_of(v.node->input(0)->type()) * v.move.slower + Cost{kNode, kNode} * v.move.more_nodes;
  return once * times_run(*v.node->graph());
}

Cost Costs::total(const Region& r) {
  struct Made {
    Layout layout;
    Graph* graph;
    bool products;
  };
  Cost sum;
  std::vector<Made> made;
  for (const Root& root : r.roots) {
    made.clear();
    const Layout stored = r.stored(root);
    for (const RootUse& use : root.uses) {
      const Layout& l = r.wanted(use);
      auto at = std::ranges::find_if(made, [&](const Made& m) { return m.layout == l && m.graph == use.graph; });
      if (at == made.end()) at = made.insert(at, {l, use.graph, true});
      at->products &= use.product;
    }
    for (const Made& m : made) sum += of_transpose(root, stored, m.layout, *m.graph, m.products);
  }
  for (const Var& v : r.vars) {
    if (v.node != nullptr && v.moved) sum += of_node(v);
  }
  return sum;
}

// --- the choice

namespace {

// A network in which the source's side moves. An edge costs its capacity when its tail moves and its head
// stays.
//
// Where both ends of an edge would have to move to pay, the price is charged to one of them, which choose()
// sets right by looking at the true cost.
class Network {
 public:
  Network(const Region& r, Costs& costs) : costs_(costs) {
    for (const Var& v : r.vars) {
      const uint32_t vertex = vertex_of_.emplace_back(net_.add_vertex());
      if (v.node == nullptr) continue;
      const double price = costs.of_node(v).small;
      if (price > 0) add_edge(vertex, MinCut::kSink, price);
      if (price < 0) add_edge(MinCut::kSource, vertex, -price);
    }
    for (const Root& root : r.roots) add(root);
  }

  // False, without an answer, when it takes too long.
  bool solve(Region& r, uint64_t* work) {
    if (!net_.solve(kStepsPerPart * (r.vars.size() + r.roots.size()) + kStepsPerCut, work)) return false;
    for (size_t i = 0; i < r.vars.size(); ++i) r.vars[i].moved = net_.with_source(vertex_of_[i]);
    return true;
  }

 private:
  // A layout in which a root is read in one graph.
  struct Want {
    Layout layout;
    Graph* graph = nullptr;
    bool always = false, products = true;
    std::vector<uint32_t> staying, moving;  // vertices that want it while they stay, when they move
  };

  std::vector<Want> wants(const Root& root) const {
    std::vector<Want> all;
    const auto want = [&](const Layout& l, const RootUse& use) -> Want& {
      auto at = std::ranges::find_if(all, [&](const Want& w) { return w.layout == l && w.graph == use.graph; });
      if (at == all.end()) at = all.insert(at, {.layout = l, .graph = use.graph});
      at->products &= use.product;
      return *at;
    };
    for (const RootUse& use : root.uses) {
      if (use.now == use.moved) {
        want(use.now, use).always = true;
      } else {
        want(use.now, use).staying.push_back(vertex_of_[use.var]);
        want(use.moved, use).moving.push_back(vertex_of_[use.var]);
      }
    }
    return all;
  }

  void add(const Root& root) {
    const Layout plain = Layout::identity(root.value->type()->rank());
    const std::vector<uint32_t> moves{MinCut::kSource}, stays{MinCut::kSink};
    for (const Want& w : wants(root)) {
      const double from_plain = costs_.of_transpose(root, plain, w.layout, *w.graph, w.products).small;
      if (root.var == kNone) {
        if (w.always) continue;
        pay(w.staying, moves, from_plain);
        pay(stays, w.moving, from_plain);
        continue;
      }
      const std::vector<uint32_t> maker{vertex_of_[root.var]};
      const double from_stored = costs_.of_transpose(root, root.stored, w.layout, *w.graph, w.products).small;
      if (w.layout == plain) {
        pay(w.always || w.staying.empty() ? stays : w.staying, maker, from_stored);
      } else if (w.layout == root.stored) {
        pay(maker, w.always || w.moving.empty() ? moves : w.moving, from_plain);
      } else if (!w.always) {
        pay(w.staying, moves, std::min(from_plain, from_stored));
        pay(stays, w.moving, std::min(from_plain, from_stored));
      }
    }
  }

  // The price if any of `stay` stays while any of `move` moves.
  void pay(const std::vector<uint32_t>& stay, const std::vector<uint32_t>& move, double price) {
    const uint32_t tail = net_.add_vertex(), head = net_.add_vertex();
    for (uint32_t m : move) net_.add_edge(m, tail, MinCut::kUncuttable);
    for (uint32_t s : stay) net_.add_edge(head, s, MinCut::kUncuttable);
    add_edge(tail, head, price);
  }

  void add_edge(uint32_t from, uint32_t to, double price) {
    static constexpr double kMost = static_cast<double>(MinCut::kUncuttable / 1024);
    net_.add_edge(from, to, std::llround(std::min(price, kMost)));
  }

  Costs& costs_;
  MinCut net_;
  std::vector<uint32_t> vertex_of_;  // by variable
};

}  // namespace

bool choose(Region& r, Costs& costs, uint64_t* work) {
  Cost best = costs.total(r);
  std::vector<bool> choice;
  const auto consider = [&] {
    const Cost now = costs.total(r);
    if (!cheaper(now, best)) return;
    best = now;
    choice.clear();
    for (const Var& v : r.vars) choice.push_back(v.moved);
  };
  if (Network(r, costs).solve(r, work)) consider();
  for (Var& v : r.vars) v.moved = true;
  consider();
  if (choice.empty()) return false;
  for (size_t i = 0; i < r.vars.size(); ++i) r.vars[i].moved = choice[i];
  return true;
}

}  // namespace sardonyx::layout
