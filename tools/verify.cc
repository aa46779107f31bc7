// sardonyx verify: whether two models compute the same, found by evaluating both. Exit code 1 when they do not.
#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "rewrite/values.h"
#include "sardonyx/io.h"
#include "say.h"

namespace sardonyx::tools {
namespace {

// Inputs are paired by place. A model may lack some of the other's; what has the same name may not stand elsewhere.
void check_interfaces(const Model& a, const Model& b) {
  const auto refuse = [](std::string what, std::string note) {
    throw Error(ErrorCode::kInvalidArgument, std::move(what), {std::move(note)});
  };
  if (a.dialect() != b.dialect()) refuse("an ONNX model and a Core ML program cannot be compared", "expected two of a kind");
  const auto before = a.graph().inputs(), after = b.graph().inputs();
  const auto place_in = [](std::span<const Port> ports, std::string_view name) {
    return std::ranges::find(ports, name, [](const Port& p) { return p.name.view(); }) - ports.begin();
  };
  for (size_t i = 0; i < after.size(); ++i) {
    const auto place = place_in(before, after[i].name.view());
    const bool is_there = place < static_cast<ptrdiff_t>(before.size());
    if (after.size() != before.size() && !is_there)
      refuse(fmt::format("the second model has an input '{}' that the first has not", after[i].name.view()),
             "the first model's inputs are given to both");
    if (after.size() == before.size() && is_there && place != static_cast<ptrdiff_t>(i))
      refuse(fmt::format("input '{}' is number {} of the first model and number {} of the second", after[i].name.view(),
                         place + 1, i + 1),
             "expected the same order");
  }
  if (a.graph().outputs().size() != b.graph().outputs().size())
    refuse(fmt::format("the models have {} and {} results", a.graph().outputs().size(), b.graph().outputs().size()),
           "expected as many");
}

}  // namespace

int verify(const VerifyArgs& args) {
  const auto a = read_model(args.before), b = read_model(args.after);
  check_interfaces(*a, *b);
  for (Model* m : {a.get(), b.get()}) {
    ValueFacts facts;
    infer_model(*m, facts, /*tolerant=*/true);
  }
  const Numerics numerics = args.numerics == "exact"    ? Numerics::kExact
                            : args.numerics == "rounds" ? Numerics::kRounds
                                                        : Numerics::kRelaxed;
  const ValueCheck check = compare_values(*a, *b, numerics);
  if (check.difference) {
    say("the models differ: {}\n", *check.difference);
    return 1;
  }
  if (check.runs == 0) {
    say("nothing could be compared: {}\n", check.skipped);
    return 1;
  }
  say("the models compute the same ({}) on {} inputs\n", args.numerics, check.runs);
  return 0;
}

}  // namespace sardonyx::tools
