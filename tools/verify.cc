// sardonyx verify: checks that two models compute the same. Exit code 1 when they do not.
#include "commands.h"
#include "driver/compare_models.h"
#include "sardonyx/io.h"
#include "say.h"

namespace sardonyx::tools {

int verify(const VerifyArgs& args) {
  const auto before = read_model(args.before), after = read_model(args.after);
  const Numerics numerics = args.numerics == "exact"    ? Numerics::kExact
                            : args.numerics == "rounds" ? Numerics::kRounds
                                                        : Numerics::kRelaxed;
  const ModelComparison check = compare_models(*before, *after, numerics, args.target);
  if (check.difference) {
    say("the models differ: {}\n", *check.difference);
    return 1;
  }
  if (!check.load_problems.empty()) {
    say("{} loads the first model, and not the second:\n", check.runtime);
    for (const std::string& problem : check.load_problems) say("  {}\n", problem);
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
