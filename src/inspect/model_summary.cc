#include "inspect/model_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "dialects/onnx/runtimes/providers.h"
#include "dialects/onnx/runtimes/runtimes.h"
#include "inspect/costs.h"
#include "inspect/node_origin.h"
#include "io/coreml/mil_features.h"
#include "ir/graph/call.h"
#include "passes/loading.h"
#include "rewrite/pass.h"
#include "sardonyx/infer.h"

namespace sardonyx {
namespace {

// Modules in the order of their first node.
class Modules {
 public:
  ModelSummary::Module& operator[](const std::string& path) {
    const auto [at, is_new] = index_.emplace(path, all.size());
    if (is_new) all.push_back({.path = path});
    return all[at->second];
  }
  std::vector<ModelSummary::Module> all;

 private:
  std::unordered_map<std::string, size_t> index_;
};

constexpr size_t kMostReasons = 3;

template <class F>
void for_each_graph(const Model& m, const F& f) {
  for (const auto& function : m.functions()) {
    for (const Graph* g : graphs_in(function->graph())) f(*g);
  }
}

std::vector<ModelSummary::Size> sizes_of(Model& m) {
  std::map<std::string, DimRange> sizes;
  for (const Port& p : m.graph().inputs()) {
    const Type* t = p.value->type();
    if (t == nullptr || !t->ranked()) continue;
    for (Dim d : t->dims()) {
      for (const std::string& name : m.dims().symbols(d)) sizes.emplace(name, m.dims().symbol_range(name));
    }
  }
  std::vector<ModelSummary::Size> list;
  for (const auto& [name, range] : sizes) list.push_back({name, range});
  return list;
}

// A Core ML program has open sizes without ends; those are in the model's description.
void read_features(Model& m, ModelSummary& s) {
  for (const CoremlFeature& f : coreml_inputs(m)) {
    if (!f.image.empty()) s.images.emplace(f.name, f.image);
    for (const Port& p : m.graph().inputs()) {
      const Type* t = p.value->type();
      if (p.name.view() != f.name || t == nullptr || !t->ranked() || t->rank() != f.sizes.size()) continue;
      for (size_t i = 0; i < f.sizes.size(); ++i) {
        const std::string_view symbol = m.dims().symbol_name(t->dim(i));
        if (!symbol.empty()) m.dims().set_range(symbol, {.min = f.sizes[i].least, .max = f.sizes[i].most});
      }
    }
  }
}

ModelSummary::Work work_of(Model& m, const LeastSizes& sizes, Dim flops, Dim bytes) {
  const auto number = [&](Dim d) -> std::optional<double> {
    const Dim at = m.dims().substitute(d, [&](std::string_view name) { return std::optional(Dim::of(sizes.of(name))); });
    return at.is_int() ? std::optional(static_cast<double>(at.value())) : std::nullopt;
  };
  return {.flops = m.dims().to_string(flops),
          .bytes = m.dims().to_string(bytes),
          .at_flops = number(flops),
          .at_bytes = number(bytes)};
}

std::string shown_op(const Op& op) {
  return op.domain.empty() ? std::string(op.name) : fmt::format("{}.{}", op.domain, op.name);
}

void add_costs(Model& m, const LeastSizes& sizes, const SummaryOptions& options, ModelSummary& s) {
  const ModelCosts costs = costs_of(m);
  s.all = work_of(m, sizes, costs.flops, costs.bytes);
  s.unknown = costs.unknown;
  s.open_loops = costs.open_loops;
  std::vector<std::pair<double, const NodeCost*>> order;
  for (const NodeCost& c : costs.nodes) {
    if (c.flops.is(0)) continue;
    order.emplace_back(work_of(m, sizes, c.flops, c.bytes).at_flops.value_or(0), &c);
  }
  const size_t listed = std::min(options.most_listed, order.size());
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(listed), [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  });
  for (const auto& [flops, c] : std::span(order).first(listed)) {
    ModelSummary::CostlyNode n;
    static_cast<ModelSummary::Work&>(n) = work_of(m, sizes, c->flops, c->bytes);
    n.name = c->node->name().view();
    if (n.name.empty() && c->node->num_results() > 0) n.name = c->node->result()->name().view();
    n.op = shown_op(c->node->op());
    s.costly.push_back(std::move(n));
  }
  const PeakMemory peak = peak_memory(m, [&](std::string_view name) { return std::optional(Dim::of(sizes.of(name))); });
  s.peak_bytes = peak.bytes;
  s.unsized = peak.unknown;
  if (peak.node != nullptr) s.peak_node = peak.node->name().view();
}

void add_tensors(const Model& m, const SummaryOptions& options, ModelSummary& s) {
  std::unordered_set<const std::byte*> seen;
  Modules modules;
  const auto scope = [](const Node& n) { return origin_of(n).scope; };
  const auto add = [&](const Value& v, const Tensor& t, const Node* user) {
    if (!t.is_deferred() && !t.stored_bytes().empty() && !seen.insert(t.stored_bytes().data()).second) return;
    const uint64_t bytes = t.is_splat() ? t.stored_bytes().size() : t.byte_size();
    s.largest.push_back({std::string(v.name().view()), m.types().to_string(v.type()), bytes});
    if (user == nullptr) return;
    ModelSummary::Module& module = modules[scope(*user)];
    module.parameters += static_cast<uint64_t>(t.size());
    module.bytes += bytes;
  };
  for_each_graph(m, [&](const Graph& g) {
    for (const Node& n : g.nodes()) {
      ++modules[scope(n)].nodes;
      for (const Use& u : n.operands()) {
        if (u.value != nullptr && u.value->is_constant()) add(*u.value, *u.value->constant(), &n);
      }
    }
    for (const Value* v : g.constants()) add(*v, *v->constant(), nullptr);
  });
  std::ranges::stable_sort(s.largest, std::ranges::greater(), &ModelSummary::NamedTensor::bytes);
  if (s.largest.size() > options.most_listed) s.largest.resize(options.most_listed);
  s.modules = std::move(modules.all);
  if (s.modules.size() == 1 && s.modules.front().path.empty()) s.modules.clear();
}

void add_places(const Model& m, ModelSummary& s) {
  if (m.dialect() != DialectId::kOnnx) return;
  const auto runtimes = onnx::runtimes();
  for (size_t i = runtimes.size(); i-- > 0;) {
    std::vector<std::string> problems = load_problems(runtimes[i], m);
    if (problems.empty()) {
      s.oldest_runtime = runtimes[i].name;
      if (s.newest_runtime.empty()) s.newest_runtime = s.oldest_runtime;
      continue;
    }
    ModelSummary::Place place{.name = std::string(runtimes[i].name), .source = {}, .refused = problems.size(), .reasons = {}};
    const bool is_too_old = m.opset_version("").value_or(0) > runtimes[i].opset;  // the first reason says it all
    problems.resize(std::min(problems.size(), is_too_old ? size_t{1} : kMostReasons));
    place.reasons = std::move(problems);
    s.places.push_back(std::move(place));
    if (!s.oldest_runtime.empty()) break;
  }
  // If no release loads it, the newest one says why.
  if (s.oldest_runtime.empty() && s.places.size() > 1) s.places.resize(1);
  for (const onnx::Provider& p : onnx::providers()) {
    ModelSummary::Place place{.name = std::string(p.name), .source = std::string(p.source), .refused = 0, .reasons = {}};
    std::map<std::string, size_t> missing;
    std::map<const Op*, bool> known;
    for_each_graph(m, [&](const Graph& g) {
      for (const Node& n : g.nodes()) {
        if (n.has(Trait::kConstant) || called_function(n) != nullptr) continue;
        const auto [at, is_new] = known.try_emplace(&n.op(), false);
        if (is_new) at->second = p.lists(n.op());
        if (at->second) continue;
        ++place.refused;
        ++missing[shown_op(n.op())];
      }
    });
    std::vector<std::pair<std::string, size_t>> most(missing.begin(), missing.end());
    std::ranges::stable_sort(most, std::ranges::greater(), &std::pair<std::string, size_t>::second);
    for (const auto& [op, count] : most) place.reasons.push_back(count == 1 ? op : fmt::format("{} x {}", count, op));
    s.places.push_back(std::move(place));
  }
}

}  // namespace

ModelSummary summarize(Model& m, const SummaryOptions& options) {
  ModelSummary s;
  s.counts = count_model(m);
  read_features(m, s);
  ValueFacts facts;
  infer_model(m, facts, /*tolerant=*/true);
  s.sizes = sizes_of(m);
  const LeastSizes least(m);
  for (const ModelSummary::Size& size : s.sizes)
    s.at += fmt::format("{}{}={}", s.at.empty() ? "" : ", ", size.name, least.of(size.name));
  add_costs(m, least, options, s);
  add_tensors(m, options, s);
  add_places(m, s);
  return s;
}

std::vector<ModelSummary::Module> folded(const std::vector<ModelSummary::Module>& modules, size_t most) {
  const auto cut = [](std::string_view path, size_t depth) {
    size_t end = 0;
    for (size_t i = 0; i < depth && end != std::string_view::npos; ++i) end = path.find('/', end == 0 ? 0 : end + 1);
    return std::string(path.substr(0, end));
  };
  size_t deepest = 1;
  for (const auto& m : modules) deepest = std::max(deepest, static_cast<size_t>(1 + std::ranges::count(m.path, '/')));
  for (size_t depth = deepest;; --depth) {
    Modules sums;
    for (const auto& m : modules) {
      ModelSummary::Module& sum = sums[cut(m.path, depth)];
      sum.nodes += m.nodes;
      sum.parameters += m.parameters;
      sum.bytes += m.bytes;
    }
    if (sums.all.size() <= most || depth == 1) return std::move(sums.all);
  }
}

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double v = static_cast<double>(bytes);
  for (const char* unit : {"kB", "MB", "GB"}) {
    v /= 1000;
    if (v < 1000) return fmt::format("{:.1f} {}", v, unit);
  }
  return fmt::format("{:.1f} TB", v / 1000);
}

std::string human_count(double n, std::string_view unit) {
  std::string_view prefix;
  for (std::string_view larger : {"k", "M", "G", "T", "P"}) {
    if (n < 1000) break;
    n /= 1000;
    prefix = larger;
  }
  return prefix.empty() ? fmt::format("{:.0f} {}", n, unit) : fmt::format("{:.3g} {}{}", n, prefix, unit);
}

}  // namespace sardonyx
