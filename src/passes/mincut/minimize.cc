#include "passes/mincut/minimize.h"

#include <map>
#include <unordered_set>

#include "passes/mincut/apply.h"
#include "passes/mincut/cost.h"
#include "passes/mincut/region.h"

namespace sardonyx::layout {
namespace {

constexpr int kRounds = 16;
constexpr uint64_t kWorkPerNode = 60;

class Minimizer {
 public:
  Minimizer(std::span<Graph* const> graphs, PassContext& context)
      : graphs_(graphs), context_(context), operators_(context), finder_(graphs, operators_), costs_(context) {}

  bool run() {
    bool changed = false, moved = true;
    for (int round = 0; moved && round < kRounds; ++round) {
      const bool merged = merge_transposes();
      seen_.clear();
      finder_.find_tied_values();
      moved = sweep();
      if (!merged && !moved) continue;
      changed = true;
      // Dead users block moves; once they are gone, others may move.
      for (Graph* top : graphs_) moved |= erase_dead_nodes(*top) > 0;
    }
    return changed;
  }

 private:
  template <class F>
  void for_each_transpose(const F& f) {
    for (Graph* top : graphs_) {
      for (Graph* g : graphs_in(*top)) {
        for (Node& n : g->nodes()) {
          if (n.unchecked()) continue;
          if (const auto l = Operators::transposition(n)) f(n, *l);
        }
      }
    }
  }

  // Transposes of transposes become one; equal ones of a value become one; those that do nothing go. Each
  // then reads a root.
  bool merge_transposes() {
    bool changed = false;
    std::map<std::tuple<Graph*, Value*, Layout>, Value*> known;
    for_each_transpose([&](Node& n, const Layout& own) {
      Graph& g = *n.graph();
      Value& was = *n.result();
      const auto [root, inner] = Operators::look_through(*n.input(0));
      const Layout l = then(inner, own);
      Value*& now = known[{&g, root, l}];
      if (l.is_identity()) {
        now = root;
      } else if (now == nullptr && Operators::is_free(*root)) {
        now = operators_.store_constant(*root, l, g, &n);
      } else if (now == nullptr && inner.is_as_is()) {
        now = &was;
      } else if (now == nullptr) {
        now = operators_.store(*root, l, g, &n);
        now->set_type(was.type());
        now->set_name(was.name());
      }
      if (now == &was) return;
      g.replace_uses(was, *now);
      g.erase(n);
      changed = true;
    });
    return changed;
  }

  bool sweep() {
    std::vector<Node*> seeds;
    for_each_transpose([&](Node& n, const Layout&) { seeds.push_back(&n); });
    bool changed = false;
    const uint64_t enough = kWorkPerNode * (context_.model.num_nodes() + 1000);
    for (auto t = seeds.begin(); t != seeds.end() && work_ <= enough; ++t) {
      Node& n = **t;
      if (!n.any_result_used()) continue;
      const Layout l = *Operators::transposition(n);
      changed |= try_region(*n.result(), inverse(l));
      if (n.any_result_used()) changed |= try_region(*n.input(0), l);
    }
    return changed;
  }

  // The region in which the value would be stored as l, and what is best there.
  bool try_region(Value& v, const Layout& l) {
    if (!seen_.insert(key(v, l)).second) return false;
    Region region = finder_.around(v, l, &work_);
    for (const auto& [value, label] : region.labels) seen_.insert(key(*value, label));
    if (region.vars.empty() || !choose(region, costs_, &work_)) return false;
    apply(region, operators_);
    return true;
  }

  static uint64_t key(const Value& v, const Layout& l) {
    uint64_t h = v.id() * 0x9E3779B97F4A7C15u + l.rank;
    for (size_t i = 0; i < l.rank; ++i) h = (h ^ static_cast<uint8_t>(l.from[i])) * 0x100000001B3u;
    return h;
  }

  std::span<Graph* const> graphs_;
  PassContext& context_;
  Operators operators_;
  RegionFinder finder_;
  Costs costs_;
  std::unordered_set<uint64_t> seen_;
  uint64_t work_{};
};

}  // namespace

bool minimize_transposes(std::span<Graph* const> graphs, PassContext& context) { return Minimizer(graphs, context).run(); }

}  // namespace sardonyx::layout
