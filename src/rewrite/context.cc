#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "ir/graph/graph_summary.h"
#include "rewrite/pass.h"

namespace sardonyx {
namespace {

const PassOptions kNoOptions;

}  // namespace

bool is_removable(const Node& n) {
  // ONNX graphs have no side effects, so an unused node can always go. Core ML has states.
  if (n.is_boundary()) return false;
  if (n.op().dialect == DialectId::kOnnx) return true;
  if (!n.has(Trait::kPure) && !n.has(Trait::kConstant) && !n.has(Trait::kSubgraphs)) return false;
  for (const Body& b : n.bodies()) {
    for (Graph* g : graphs_in(*b.graph)) {
      for (const Node& inner : g->nodes()) {
        if (!inner.has(Trait::kPure) && !inner.has(Trait::kConstant) && !inner.has(Trait::kSubgraphs)) return false;
      }
    }
  }
  return true;
}

std::vector<Value*> operands_of(const Node& n) {
  std::vector<Value*> operands;
  for (const Use& u : n.operands()) operands.push_back(u.value);
  return operands;
}

std::vector<Value*> results_of(const Node& n) {
  std::vector<Value*> results;
  for (size_t i = 0; i < n.num_results(); ++i) results.push_back(n.result(i));
  return results;
}

AttrInit attrs_of(const Node& n, std::initializer_list<std::string_view> except) {
  AttrInit attrs(n.attrs().items().begin(), n.attrs().items().end());
  std::erase_if(attrs, [&](const NamedAttr& a) { return std::ranges::find(except, a.name) != except.end(); });
  return attrs;
}

AttrInit attrs_with(const Node& n, const AttrInit& changes) {
  AttrInit attrs = attrs_of(n);
  std::erase_if(attrs,
                [&](const NamedAttr& a) { return std::ranges::find(changes, a.name, &NamedAttr::name) != changes.end(); });
  attrs.insert(attrs.end(), changes.begin(), changes.end());
  return attrs;
}

bool is_graph_result(const Value& v) {
  for (const Use& u : v.uses()) {
    if (u.owner->is_boundary()) return true;
  }
  return false;
}

std::vector<Graph*> graphs_in(Graph& g) { return with_nested_graphs({&g}); }

size_t erase_dead_nodes(Graph& top) {
  size_t erased = 0;
  const auto graphs = graphs_in(top);
  for (auto g = graphs.rbegin(); g != graphs.rend(); ++g) {
    for (Node* n = (*g)->last(); n != nullptr;) {
      Node* before = n->prev();
      if (!n->any_result_used() && is_removable(*n)) {
        (*g)->erase(*n);
        ++erased;
      }
      n = before;
    }
  }
  return erased;
}

// ---------------------------------------------------------------------------------------------------------------------
// What a pass sees

std::optional<double> KnownValues::splat(const Value* v) {
  if (v == nullptr || !v->is_constant()) return std::nullopt;
  const TensorPtr& t = v->constant();
  if (t->dtype() == DType::kString || is_complex(t->dtype()) || t->is_promise() || t->is_deferred() || t->size() == 0)
    return std::nullopt;
  if (t->is_splat() || t->size() == 1) return t->as_double(0);
  const double first = t->as_double(0);
  // Distinct 64-bit integers may round to the same double.
  const bool is_long = is_integer(t->dtype()) && bit_width(t->dtype()) == 64;
  const auto is_first = [&](int64_t i) { return is_long ? t->as_int(i) == t->as_int(0) : t->as_double(i) == first; };
  if (!is_first(t->size() - 1) || !is_first(t->size() / 2)) return std::nullopt;
  const auto [at, is_new] = splats_.try_emplace(t.get());
  if (is_new) {
    bool same = true;
    for (int64_t i = 1; same && i < t->size(); ++i) same = is_first(i);
    if (same) at->second = first;
    model.keep_alive(t);  // the key is its address
  }
  return at->second;
}

std::optional<SymbolicValue> KnownValues::symbolic(const Value* v) {
  if (v == nullptr) return std::nullopt;
  if (const TensorPtr& t = v->constant()) {
    if (!is_integer(t->dtype()) || t->rank() > 1 || t->size() > 64 || t->is_promise()) return std::nullopt;
    SymbolicValue known{.scalar = t->rank() == 0, .elements = {}};
    const auto elements = t->to_ints();
    if (!elements) return std::nullopt;
    for (int64_t e : *elements) {
      constexpr int64_t kLimit = int64_t{1} << 61;
      known.elements.push_back(e < kLimit && e > -kLimit ? Dim::of(e) : model.dims().fresh_unknown());
    }
    return known;
  }
  const SymbolicValue* known = facts.find(*v);
  return known != nullptr ? std::optional(*known) : std::nullopt;
}

std::optional<std::vector<int64_t>> KnownValues::ints(const Value* v) { return known_ints(v, &facts); }

std::string PassOptions::text(std::string_view name, std::string_view otherwise) const {
  const auto found = values_.find(name);
  return found != values_.end() ? found->second : std::string(otherwise);
}

bool PassOptions::flag(std::string_view name, bool otherwise) const {
  const std::string t = text(name, otherwise ? "true" : "false");
  if (t == "true" || t == "1" || t == "True") return true;
  if (t == "false" || t == "0" || t == "False") return false;
  throw Error(ErrorCode::kInvalidArgument, fmt::format("option '{}' must be true or false, not '{}'", name, t));
}

int64_t PassOptions::number(std::string_view name, int64_t otherwise) const {
  const std::string t = text(name, {});
  if (t.empty()) return otherwise;
  char* end = nullptr;
  const double v = std::strtod(t.c_str(), &end);  // users write "1e6" too
  if (end != t.c_str() + t.size() || !(v >= -9e15 && v <= 9e15) || v != static_cast<double>(static_cast<int64_t>(v)))
    throw Error(ErrorCode::kInvalidArgument, fmt::format("option '{}' must be a whole number, not '{}'", name, t));
  return static_cast<int64_t>(v);
}

void PassLog::near_miss(const Node& n, std::string_view why) {
  if (!on_near_miss_) return;
  ++near_misses_;
  on_near_miss_(pass_, n, why);
}

PassContext::PassContext(Model& m, ValueFacts& f, int64_t budget) : KnownValues(m, f), fold_budget(budget) {
  begin({}, kNoOptions);
}

void PassContext::begin(std::string_view pass, const PassOptions& options) {
  log.begin(pass);
  options_ = &options;
}

// ---------------------------------------------------------------------------------------------------------------------
// Pass

NeededOps needs(std::initializer_list<std::string_view> one_of) { return NeededOps().and_one_of(one_of); }

NeededOps NeededOps::and_one_of(std::initializer_list<std::string_view> ops) const {
  NeededOps all = *this;
  all.lists.emplace_back(ops);
  return all;
}

Pass Pass::on_graph(Numerics numerics, GraphWalk walk) { return on_graph(numerics, NeededOps(), std::move(walk)); }

Pass Pass::on_graph(Numerics numerics, NeededOps needed, GraphWalk walk) {
  Pass p;
  p.graph_walk = std::move(walk);
  p.needed_ops = std::move(needed);
  p.walk_numerics = numerics;
  return p;
}

Pass Pass::on_model(Numerics numerics, ModelWalk walk) {
  Pass p;
  p.model_walk = std::move(walk);
  p.walk_numerics = numerics;
  return p;
}

Pass Pass::option(std::string_view name, std::string_view meaning) const {
  Pass p = *this;
  p.options.emplace_back(name, meaning);
  return p;
}

Pass Pass::after_verification() const {
  Pass p = *this;
  p.is_after_verification = true;
  return p;
}

Numerics Pass::numerics() const {
  Numerics loosest = walk_numerics;
  for (const Rule& r : rules) loosest = std::max(loosest, r.numerics);
  return loosest;
}

}  // namespace sardonyx
