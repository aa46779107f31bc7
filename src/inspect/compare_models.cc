#include "inspect/compare_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "inspect/across_dialects.h"
#include "passes/loading.h"
#include "rewrite/pass.h"
#include "rewrite/values.h"
#include "sardonyx/infer.h"

namespace sardonyx {
namespace {

// Inputs and results with the same name must have the same position.
void check_interfaces(const Model& a, const Model& b) {
  const auto refuse = [](std::string what, std::string note) {
    throw Error(ErrorCode::kInvalidArgument, std::move(what), {std::move(note)});
  };
  const auto before = a.graph().inputs(), after = b.graph().inputs();
  const auto place_in = [](std::span<const Port> ports, std::string_view name) {
    return std::ranges::find(ports, name, [](const Port& p) { return p.name.view(); }) - ports.begin();
  };
  for (size_t i = 0; i < after.size(); ++i) {
    const auto place = place_in(before, after[i].name.view());
    const bool is_there = place < static_cast<ptrdiff_t>(before.size());
    if (a.dialect() != b.dialect()) continue;  // names may differ, as Core ML allows fewer
    if (after.size() != before.size() && !is_there)
      refuse(fmt::format("the second model has an input '{}' that the first does not have", after[i].name.view()),
             "the first model's inputs are given to both");
    if (after.size() == before.size() && is_there && place != static_cast<ptrdiff_t>(i))
      refuse(fmt::format("input '{}' is number {} of the first model and number {} of the second", after[i].name.view(),
                         place + 1, i + 1),
             "expected the same order");
  }
  if (a.graph().outputs().size() != b.graph().outputs().size())
    refuse(fmt::format("the models have {} and {} results", a.graph().outputs().size(), b.graph().outputs().size()),
           "expected equal numbers");
}

// A model and the package that was made from it.
ValueCheck compare_across(const Model& before, const Model& after, const std::optional<Tolerance>& tolerance) {
  const auto old = before.graph().inputs(), now = after.graph().inputs();
  const auto results = before.graph().outputs();
  if (old.size() != now.size())
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the models have {} and {} inputs", old.size(), now.size()),
                {"expected equal numbers: inputs are paired by position"});
  const auto evaluated = [&](std::span<const EvalValue> inputs) {
    std::vector<EvalValue> given;
    for (size_t i = 0; i < now.size(); ++i) given.push_back(converted(inputs[i], now[i]));
    std::vector<EvalValue> found = evaluate(after.graph(), given, {.fast_products = true});
    for (size_t i = 0; i < std::min(found.size(), results.size()); ++i) found[i] = converted(found[i], results[i]);
    return found;
  };
  return compare_values(before, Numerics::kRelaxed, evaluated, tolerance);
}

}  // namespace

bool computes_in_half(const Model& m) {
  for (const auto& f : m.functions()) {
    for (const Graph* g : graphs_in(f->graph())) {
      for (const Node& n : g->nodes()) {
        for (const Value& v : n.results()) {
          if (v.dtype() == DType::kF16 && !n.has(Trait::kConstant)) return true;
        }
      }
    }
  }
  return false;
}

ModelComparison compare_models(Model& before, Model& after, std::optional<Numerics> numerics, std::string_view target,
                               const std::optional<Tolerance>& tolerance) {
  check_interfaces(before, after);
  for (Model* m : {&before, &after}) {
    ValueFacts facts;
    infer_model(*m, facts, /*tolerant=*/true);
  }
  const bool across = before.dialect() != after.dialect();
  const bool half_before = computes_in_half(before), half_after = computes_in_half(after);
  const bool in_half = !tolerance && (across ? half_before || half_after : !numerics && half_before != half_after);
  const std::optional<Tolerance> bound = in_half ? half_tolerance() : tolerance;
  // The loosest class in the default preset of the dialect.
  const Numerics usual = across || before.dialect() == DialectId::kMil ? Numerics::kRelaxed : Numerics::kRounds;
  const Numerics how = numerics.value_or(usual);
  ValueCheck check = across ? compare_across(before, after, bound) : compare_whole(before, after, how, bound);
  ModelComparison found{.runs = check.runs,
                        .difference = std::move(check.difference),
                        .skipped = std::move(check.skipped),
                        .largest_error = check.largest_error,
                        .largest_at = std::move(check.largest_at),
                        .judged = tolerance ? std::string()
                                  : in_half ? "half"
                                            : std::string(to_string(how))};
  if (across) return found;
  const onnx::Runtime* runtime = before.dialect() == DialectId::kOnnx ? runtime_that_loads(before, target) : nullptr;
  if (runtime == nullptr) return found;
  found.runtime = runtime->name;
  found.load_problems = load_problems(*runtime, after);
  return found;
}

}  // namespace sardonyx
