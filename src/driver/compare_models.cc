#include "driver/compare_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/loading.h"
#include "rewrite/values.h"
#include "sardonyx/infer.h"

namespace sardonyx {
namespace {

// Inputs and results with the same name must have the same position.
void check_interfaces(const Model& a, const Model& b) {
  const auto refuse = [](std::string what, std::string note) {
    throw Error(ErrorCode::kInvalidArgument, std::move(what), {std::move(note)});
  };
  if (a.dialect() != b.dialect())
    refuse("an ONNX model and a Core ML program cannot be compared", "expected two models of the same kind");
  const auto before = a.graph().inputs(), after = b.graph().inputs();
  const auto place_in = [](std::span<const Port> ports, std::string_view name) {
    return std::ranges::find(ports, name, [](const Port& p) { return p.name.view(); }) - ports.begin();
  };
  for (size_t i = 0; i < after.size(); ++i) {
    const auto place = place_in(before, after[i].name.view());
    const bool is_there = place < static_cast<ptrdiff_t>(before.size());
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

}  // namespace

Numerics usual_numerics(DialectId dialect) { return dialect == DialectId::kMil ? Numerics::kRelaxed : Numerics::kRounds; }

ModelComparison compare_models(Model& before, Model& after, Numerics numerics, std::string_view target,
                               const std::optional<Tolerance>& tolerance) {
  check_interfaces(before, after);
  for (Model* m : {&before, &after}) {
    ValueFacts facts;
    infer_model(*m, facts, /*tolerant=*/true);
  }
  ValueCheck check = compare_whole(before, after, numerics, tolerance);
  ModelComparison found{.runs = check.runs,
                        .difference = std::move(check.difference),
                        .skipped = std::move(check.skipped),
                        .largest_error = check.largest_error,
                        .largest_at = std::move(check.largest_at)};
  const onnx::Runtime* runtime = before.dialect() == DialectId::kOnnx ? runtime_that_loads(before, target) : nullptr;
  if (runtime == nullptr) return found;
  found.runtime = runtime->name;
  found.load_problems = load_problems(*runtime, after);
  return found;
}

}  // namespace sardonyx
