#include "convert/precision/half_parts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "eval/watch.h"
#include "passes/precision/probe.h"

namespace sardonyx {
namespace {

constexpr size_t kMostDivisions = 24;
constexpr size_t kMostRuns = 2;    // that each part is measured on
constexpr double kFew = 1.0 / 16;  // of what half precision saves
constexpr double kMost = 3.0 / 4;  // that may stay
constexpr double kLess = 0.7;
constexpr double kNodeWorth = 64;  // bytes, beside those of weights

bool is_single(const Value& v) { return v.dtype() == DType::kF32; }

// A name that the option `keep` finds the node by; empty if there is none.
std::string_view name_of(const Node& n) {
  const auto serves = [](std::string_view name) { return !name.empty() && name.find(',') == std::string_view::npos; };
  if (serves(n.name().view())) return n.name().view();
  for (const Value& v : n.results()) {
    if (serves(v.name().view())) return v.name().view();
  }
  return {};
}

double worth_of(const Node& n) {
  double worth = kNodeWorth;
  for (const Use& u : n.operands()) {
    const bool is_weight = u.value != nullptr && u.value->is_constant() && is_single(*u.value);
    worth += is_weight ? static_cast<double>(u.value->constant()->byte_size()) / 2 : 0;
  }
  return worth;
}

// The values that a model in half precision still has in single precision.
std::set<std::string_view> single_in(const Model& half) {
  std::set<std::string_view> names;
  for (const Node& n : half.graph().nodes()) {
    for (const Value& v : n.results()) {
      if (is_single(v) && !n.is("Cast")) names.insert(v.name().view());
    }
  }
  return names;
}

}  // namespace

HalfParts::HalfParts(const Model& m, const Model& half, const PrecisionTrials& trials) : m_(m), trials_(trials) {
  const auto single = single_in(half);
  for (const Port& p : m.graph().inputs()) {
    if (is_single(*p.value)) values_.push_back(p.value);
  }
  for (const Node& n : m.graph().nodes()) {
    for (const Value& v : n.results()) {
      if (is_single(v) && !name_of(n).empty() && !single.contains(v.name().view())) values_.push_back(&v);
    }
    worth_ += worth_of(n);
  }
  if (!values_.empty()) parts_.push_back(measured(0, values_.size()));
}

HalfParts::Part HalfParts::measured(size_t first, size_t end) const {
  Part p{.first = first, .end = end};
  const std::unordered_set<const Value*> rounded(values_.begin() + static_cast<std::ptrdiff_t>(first),
                                                 values_.begin() + static_cast<std::ptrdiff_t>(end));
  for (const Value* v : rounded) p.worth += v->def() != nullptr ? worth_of(*v->def()) : 0;
  const auto round = [&](const Value& v, EvalValue& what) {
    Array* a = what.array();
    if (a != nullptr && a->dtype() == DType::kF32 && rounded.contains(&v)) *a = precision::rounded_to_half(*a);
  };
  const Graph& g = m_.graph();
  const RunModel run = [&](std::span<const EvalValue> given) {
    std::vector<EvalValue> inputs(given.begin(), given.end());
    for (size_t i = 0; i < inputs.size(); ++i) round(*g.inputs()[i].value, inputs[i]);
    return evaluate_watched(g, inputs, {.fast_products = true}, round);
  };
  p.error = worst_of(trials_.errors(run, {}, kMostRuns));
  return p;
}

void HalfParts::divide(double bound, Observer* observer) {
  if (parts_.empty()) return;
  bound = std::min(bound, kLess * parts_.front().error);  // kernels and weights add to the errors of values
  for (size_t i = 0; i < kMostDivisions; ++i) {
    if (observer != nullptr) observer->progress("half precision", i, kMostDivisions);
    const auto stay = staying(bound);
    if (share_of(nodes_around(stay)) <= kFew) return;
    const Part* worst = nullptr;
    for (const Part& p : stay) {
      if (p.may_divide() && (worst == nullptr || p.error > worst->error)) worst = &p;
    }
    if (worst == nullptr) return;
    Part& divided = *std::ranges::find(parts_, worst->first, &Part::first);
    const size_t middle = (worst->first + worst->end) / 2;
    const Part front = measured(worst->first, middle), back = measured(middle, worst->end);
    if (std::hypot(front.error, back.error) < worst->error / 2) {
      divided.is_whole = true;
      continue;
    }
    divided = front;
    parts_.push_back(back);
  }
}

// The others have the least errors for what they are worth.
std::vector<HalfParts::Part> HalfParts::staying(double error) const {
  std::vector<Part> all = parts_, stay;
  std::ranges::stable_sort(all, {}, [](const Part& p) { return p.error / std::sqrt(std::max(p.worth, 1.0)); });
  double sum = 0;
  for (const Part& p : all) {
    const double with = sum + p.error * p.error;
    if (with > error * error) {
      stay.push_back(p);
    } else {
      sum = with;
    }
  }
  return stay;
}

// A value is in single precision if the node that makes it is, and stays so where its users are.
std::unordered_set<const Node*> HalfParts::nodes_around(const std::vector<Part>& parts) const {
  std::unordered_set<const Node*> nodes;
  for (const Part& p : parts) {
    for (size_t i = p.first; i < p.end; ++i) {
      if (values_[i]->def() != nullptr) nodes.insert(values_[i]->def());
      for (const Use& u : values_[i]->uses()) {
        if (!u.owner->is_boundary()) nodes.insert(u.owner);
      }
    }
  }
  return nodes;
}

double HalfParts::share_of(const std::unordered_set<const Node*>& nodes) const {
  double worth = 0;
  for (const Node* n : nodes) worth += worth_of(*n);
  return worth / worth_;
}

std::optional<std::vector<std::string>> HalfParts::kept(double error) const {
  const auto nodes = nodes_around(staying(error));
  if (share_of(nodes) > kMost) return std::nullopt;
  std::set<std::string> names;
  for (const Node* n : nodes) names.emplace(name_of(*n));
  names.erase("");
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace sardonyx
