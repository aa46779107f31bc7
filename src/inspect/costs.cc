#include "inspect/costs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "dialects/flops.h"
#include "ir/graph/call.h"
#include "rewrite/pass.h"

namespace sardonyx {
namespace {

// nullopt where a product of sizes is too large for a Dim.
template <class F>
std::optional<Dim> in_range(const F& compute) {
  try {
    return compute();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kLimit) throw;
    return std::nullopt;
  }
}

std::optional<Dim> bytes_of(Dims& dims, const Value* v) {
  const Type* t = v->type();
  if (t == nullptr || !t->is_tensor() || !t->ranked() || bit_width(t->dtype()) == 0) return std::nullopt;
  const Dim count = dims.product(t->dims());
  if (count.is_unknown()) return std::nullopt;
  return dims.ceildiv(dims.mul(count, Dim::of(bit_width(t->dtype()))), Dim::of(8));
}

class Costs {
 public:
  explicit Costs(Model& m, bool only_runs = false) : m_(m), dims_(m.dims()), only_runs_(only_runs) {}

  // Each function once, after all that call it.
  void run() {
    visit(m_.main());
    runs_[&m_.main()] = Dim::of(1);
    for (auto f = finished_.rbegin(); f != finished_.rend(); ++f) graph((*f)->graph(), runs_[*f]);
  }

  ModelCosts costs;
  std::unordered_map<const Graph*, Dim> by_graph;

 private:
  void visit(Function& f) {
    if (!seen_.insert(&f).second) return;
    for (const Graph* g : graphs_in(f.graph())) {
      for (const Node& n : g->nodes()) {
        if (Function* called = called_function(n)) visit(*called);
      }
    }
    finished_.push_back(&f);
  }

  void graph(const Graph& g, Dim runs) {
    if (only_runs_) by_graph[&g] = runs;
    for (const Node& n : g.nodes()) {
      if (const Function* called = called_function(n)) {
        Dim& calls = runs_.try_emplace(called, Dim::of(0)).first->second;
        calls = dims_.add(calls, runs);
        continue;
      }
      if (n.bodies().empty()) {
        if (!only_runs_) node(n, runs);
      } else {
        const Dim inside = dims_.mul(runs, runs_of(n));
        for (const Body& b : n.bodies()) graph(*b.graph, inside);
      }
    }
  }

  void node(const Node& n, Dim runs) {
    const auto work = in_range([&] { return flops(n); }), moved = in_range([&] { return traffic(n); });
    const auto both = [&](Dim sum, const std::optional<Dim>& part) {
      return in_range(
          [&]() -> std::optional<Dim> { return part ? std::optional(dims_.add(sum, dims_.mul(*part, runs))) : std::nullopt; });
    };
    const auto all_flops = both(costs.flops, work), all_bytes = both(costs.bytes, moved);
    if (!all_flops || !all_bytes) {
      ++costs.unknown;
      return;
    }
    costs.nodes.push_back({.node = &n, .flops = dims_.mul(*work, runs), .bytes = dims_.mul(*moved, runs)});
    costs.flops = *all_flops;
    costs.bytes = *all_bytes;
  }

  std::optional<Dim> traffic(const Node& n) {
    Dim all = Dim::of(0);
    if (is_view(n) || n.has(Trait::kConstant)) return all;
    std::unordered_set<const Value*> seen;
    const auto add = [&](const Value* v) {
      if (v == nullptr || !seen.insert(v).second) return true;
      if (v->is_constant() && v->dtype() == DType::kString) return true;  // a mode of a Core ML op, such as pad_type
      const auto bytes = bytes_of(dims_, v);
      if (bytes) all = dims_.add(all, *bytes);
      return bytes.has_value();
    };
    bool known = std::ranges::all_of(n.results(), [&](const Value& v) { return !v.has_uses() || add(&v); });
    size_t first = 0;
    if (is_selection(n)) {
      all = dims_.mul(all, Dim::of(2));
      first = 1;
    }
    for (size_t i = first; i < n.num_inputs(); ++i) known = known && add(n.input(i));
    return known ? std::optional(all) : std::nullopt;
  }

  // How often the bodies of n run.
  Dim runs_of(const Node& n) {
    if (n.is("If") || n.is("cond")) return Dim::of(1);
    if (n.is("Loop")) {
      const Value* trips = n.input(0);
      if (trips != nullptr && trips->is_constant() && n.input(1) == nullptr)
        return Dim::of(std::max<int64_t>(0, static_cast<int64_t>(trips->constant()->as_double(0))));
    }
    if (n.is("Scan")) {
      const auto scanned = static_cast<size_t>(n.attr_int("num_scan_inputs", 0));
      const Value* sequence = scanned > 0 && scanned <= n.num_inputs() ? n.input(n.num_inputs() - scanned) : nullptr;
      const auto axes = n.attr_ints("scan_input_axes");
      const int64_t axis = axes && !axes->empty() ? axes->front() : 0;
      if (sequence != nullptr && sequence->ranked() && axis >= 0 && static_cast<size_t>(axis) < sequence->type()->rank()) {
        const Dim d = sequence->type()->dim(static_cast<size_t>(axis));
        if (!d.is_unknown()) return d;
      }
    }
    ++costs.open_loops;
    return Dim::of(1);
  }

  Model& m_;
  Dims& dims_;
  const bool only_runs_;
  std::unordered_set<const Function*> seen_;
  std::vector<const Function*> finished_;  // callees first
  std::unordered_map<const Function*, Dim> runs_;
};

class Peak {
 public:
  Peak(Model& m, const std::function<std::optional<Dim>(std::string_view)>& value_of) : dims_(m.dims()), value_of_(value_of) {}

  struct Reached {
    uint64_t bytes = 0;
    const Node* at = nullptr;
  };

  // The most bytes alive at once in the graph, beside what lives outside of it.
  Reached graph(const Graph& g) {
    std::unordered_map<const Value*, const Value*> view_of;  // the value whose memory it is
    const auto storage = [&](const Value* v) {
      const auto at = view_of.find(v);
      return at == view_of.end() ? v : at->second;
    };
    for (const Node& n : g.nodes()) {
      if (is_view(n) && n.input(0) != nullptr && n.num_results() > 0) view_of[n.result(0)] = storage(n.input(0));
    }
    // The last user of each storage: a node of this graph, also for uses in its bodies; null if it is
    // returned.
    std::unordered_map<const Value*, const Node*> last;
    for (const Node& n : g.nodes()) for_each_use(n, [&](const Value* v) { last[storage(v)] = &n; });
    for (const Port& p : g.outputs()) last[storage(p.use->value)] = nullptr;
    std::unordered_map<const Node*, std::vector<const Value*>> dying;
    for (const auto& [v, n] : last) {
      if (n != nullptr) dying[n].push_back(v);
    }

    std::unordered_map<const Value*, uint64_t> alive;
    uint64_t sum = 0;
    const auto begin = [&](const Value& v) { sum += alive[&v] = size(v); };
    for (const Port& p : g.inputs()) begin(*p.value);
    Reached most{.bytes = sum};
    for (const Node& n : g.nodes()) {
      for (const Value& v : n.results()) {
        if (v.has_uses() && !view_of.contains(&v)) begin(v);
      }
      Reached inside{.bytes = 0, .at = &n};
      for (const Body& b : n.bodies()) {
        if (const Reached r = graph(*b.graph); r.bytes > inside.bytes) inside = r;
      }
      if (const Function* called = called_function(n)) inside = function(*called);
      if (sum + inside.bytes > most.bytes) most = {.bytes = sum + inside.bytes, .at = inside.at};
      for (const Value* v : dying[&n]) {
        if (const auto at = alive.find(v); at != alive.end()) sum -= at->second;
      }
    }
    return most;
  }

  size_t unknown = 0;

 private:
  Reached function(const Function& f) {
    if (functions_.try_emplace(&f).second) functions_[&f] = graph(f.graph());
    return functions_[&f];
  }

  template <class F>
  static void for_each_use(const Node& n, const F& f) {
    for (const Use& u : n.operands()) {
      if (u.value != nullptr) f(u.value);
    }
    for (const Body& b : n.bodies()) {
      for (const Node& inner : b.graph->nodes()) for_each_use(inner, f);
      for (const Port& p : b.graph->outputs()) f(p.use->value);
    }
  }

  uint64_t size(const Value& v) {
    if (v.is_constant()) return 0;
    const auto number = in_range([&]() -> std::optional<Dim> {
      const auto bytes = bytes_of(dims_, &v);
      return bytes ? std::optional(dims_.substitute(*bytes, value_of_)) : std::nullopt;
    });
    if (number && number->is_int()) return static_cast<uint64_t>(std::max<int64_t>(0, number->value()));
    ++unknown;
    return 0;
  }

  Dims& dims_;
  const std::function<std::optional<Dim>(std::string_view)>& value_of_;
  std::unordered_map<const Function*, Reached> functions_;
};

}  // namespace

ModelCosts costs_of(Model& m) {
  Costs c(m);
  c.run();
  return std::move(c.costs);
}

std::unordered_map<const Graph*, Dim> runs_by_graph(Model& m) {
  Costs c(m, /*only_runs=*/true);
  c.run();
  return std::move(c.by_graph);
}

LeastSizes::LeastSizes(Model& m) : m_(m) {
  std::vector<Dim> open;
  std::unordered_set<uint64_t> seen;
  for (Graph* g : graphs_in(m.graph())) {
    for (const Node& n : g->nodes()) {
      for (const Value& v : n.results()) {
        if (!v.ranked()) continue;
        for (Dim d : v.type()->dims()) {
          if (d.is_expr() && m.dims().symbol_name(d).empty() && seen.insert(d.word()).second) open.push_back(d);
        }
      }
    }
  }
  for (Dim d : open) fit(m.dims(), d);
}

int64_t LeastSizes::of(std::string_view name) const {
  const auto at = raised_.find(name);
  return at != raised_.end() ? at->second : std::max<int64_t>(1, m_.dims().symbol_range(name).min.value_or(1));
}

// Raises the named sizes in d until d is at least 1. Leaves them alone if no value does that.
void LeastSizes::fit(Dims& dims, Dim d) {
  constexpr int kMost = 64;
  const auto before = raised_;
  const std::vector<std::string> names = dims.symbols(d);
  const auto value = [&]() -> std::optional<int64_t> {
    const Dim at = dims.substitute(d, [&](std::string_view name) { return std::optional(Dim::of(of(name))); });
    return at.is_int() ? std::optional(at.value()) : std::nullopt;
  };
  try {
    for (int i = 0; i < kMost; ++i) {
      const auto now = value();
      if (!now || *now >= 1) return;
      for (const std::string& name : names) {
        const int64_t next = of(name) + 1;
        if (next <= m_.dims().symbol_range(name).max.value_or(next)) raised_[name] = next;
      }
    }
  } catch (const Error&) {}  // beyond the numbers that a Dim holds
  raised_ = before;
}

PeakMemory peak_memory(Model& m, const std::function<std::optional<Dim>(std::string_view)>& value_of) {
  Peak peak(m, value_of);
  const auto [bytes, at] = peak.graph(m.graph());
  return {.bytes = bytes, .node = at, .unknown = peak.unknown};
}

}  // namespace sardonyx
