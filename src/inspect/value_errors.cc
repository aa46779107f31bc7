#include "inspect/value_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dialects/mil/interface_names.h"
#include "inspect/across_dialects.h"
#include "inspect/match_models.h"
#include "passes/calibration.h"

namespace sardonyx {
namespace {

bool is_number(DType t) { return is_float(t) || is_integer(t) || t == DType::kBool; }

// A result of a node of the main graph, other than a constant, that holds numbers.
bool counts(const Value& v) {
  const Node* n = v.def();
  return n != nullptr && !n->has(Trait::kConstant) && is_number(v.dtype());
}

// Values of the main graph that count, by name; results of the model by that of the result.
std::map<std::string_view, const Value*> named_values(const Model& m) {
  const Graph& g = m.graph();
  std::map<std::string_view, const Value*> found;
  std::unordered_set<const Value*> results;
  for (const Port& p : g.outputs()) {
    if (!counts(*p.use->value)) continue;
    results.insert(p.use->value);
    found.emplace(p.name.view(), p.use->value);
  }
  for (const Node& n : g.nodes()) {
    for (const Value& v : n.results()) {
      if (counts(v) && !v.name().view().empty() && !results.contains(&v)) found.emplace(v.name().view(), &v);
    }
  }
  return found;
}

// The name that a value had before add_fp16_cast.
std::string_view name_in_f32(std::string_view name) {
  constexpr std::string_view kSuffix = "_cast_fp16";
  return name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name;
}

// The values of `m` that have a counterpart, and these.
std::vector<std::pair<const Value*, const Value*>> pairs_of(const Model& m, const Model& reference) {
  std::vector<std::pair<const Value*, const Value*>> pairs;
  std::unordered_set<const Value*> ours, theirs;
  const auto add = [&](const Value& v, const Value& same) {
    if (counts(v) && counts(same) && ours.insert(&v).second && theirs.insert(&same).second) pairs.emplace_back(&v, &same);
  };
  const bool is_converted = m.dialect() == DialectId::kMil && reference.dialect() != DialectId::kMil;
  std::map<std::string, const Value*, std::less<>> known;
  for (const auto& [name, v] : named_values(reference))
    known.emplace(is_converted ? mil::plain_name(name) : std::string(name), v);
  const auto pair_by = [&](std::string_view name, const Value& v) {
    if (const auto same = known.find(name); same != known.end()) add(v, *same->second);
  };
  const auto named = named_values(m);
  for (const auto& [name, v] : named) pair_by(name, *v);
  for (const auto& [name, v] : named) pair_by(name_in_f32(name), *v);
  if (m.dialect() != reference.dialect()) return pairs;
  const ModelMatch match = match_models(reference, m);
  for (const Node& n : m.graph().nodes()) {
    const auto same = match.before_of.find(&n);
    if (same == match.before_of.end() || same->second->graph() != &reference.graph()) continue;
    for (size_t i = 0; i < std::min(n.num_results(), same->second->num_results()); ++i)
      add(*n.result(i), *same->second->result(i));
  }
  return pairs;
}

std::vector<EvalValue> inputs_of(const Model& m, const Model& reference, std::span<const EvalValue> given) {
  const auto now = m.graph().inputs(), before = reference.graph().inputs();
  const auto place_of = [&](const Port& p) -> std::optional<size_t> {
    const auto at = std::ranges::find(before, p.name.view(), [](const Port& b) { return b.name.view(); });
    return at == before.end() ? std::nullopt : std::optional(static_cast<size_t>(at - before.begin()));
  };
  const bool are_named = std::ranges::all_of(now, [&](const Port& p) { return place_of(p).has_value(); });
  if (!are_named && now.size() != before.size())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the model has {} input{}, and the one that it is compared with has {} of other names", now.size(),
                            now.size() == 1 ? "" : "s", before.size()),
                {"expected inputs of the same names, or as many"});
  std::vector<EvalValue> inputs;
  for (size_t i = 0; i < now.size(); ++i) {
    const size_t place = are_named ? *place_of(now[i]) : i;
    inputs.push_back(place < given.size() ? converted(given[place], now[i]) : EvalValue());
  }
  return inputs;
}

}  // namespace

RelativeError relative_error(const Array& reference, const Array& found) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr RelativeError kNotFinite{kInf, kInf};
  if (reference.shape() != found.shape()) return kNotFinite;
  double largest = 0, error = 0, squares = 0;
  for (int64_t i = 0; i < reference.size(); ++i) {
    const double x = reference.double_at(i), y = found.double_at(i);
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    if (x == y || !std::isfinite(x)) continue;
    if (!std::isfinite(y)) return kNotFinite;
    error = std::max(error, std::abs(x - y));
    squares += (x - y) * (x - y);
  }
  if (error == 0) return {};
  if (largest == 0) return kNotFinite;
  return {error / largest, std::sqrt(squares / static_cast<double>(reference.size())) / largest};
}

ValueErrors value_errors(const Model& m, const Model& reference, std::span<const EvalValue> inputs) {
  std::vector<const Value*> ours, theirs;
  for (const auto& [value, same] : pairs_of(m, reference)) {
    ours.push_back(value);
    theirs.push_back(same);
  }
  std::vector<std::optional<Array>> expected(theirs.size());
  observe_values(reference, theirs, {.runs = {{inputs.begin(), inputs.end()}}},
                 [&](size_t i, const Array& a) { expected[i] = a; });
  ValueErrors errors;
  observe_values(m, ours, {.runs = {inputs_of(m, reference, inputs)}}, [&](size_t i, const Array& a) {
    if (expected[i] && expected[i]->shape() == a.shape()) errors.emplace(ours[i], relative_error(*expected[i], a).worst);
  });
  return errors;
}

}  // namespace sardonyx
