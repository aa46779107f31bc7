// sardonyx verify: checks that two models compute the same. Exit code 1 when they do not.
#include "commands.h"
#include "driver/compare_models.h"
#include "output.h"
#include "sardonyx/io.h"
#include "say.h"

namespace sardonyx::tools {
namespace {

Numerics numerics_named(const std::string& name, DialectId dialect) {
  if (name.empty()) return usual_numerics(dialect);
  return name == "exact" ? Numerics::kExact : name == "rounds" ? Numerics::kRounds : Numerics::kRelaxed;
}

ordered_json json_of(const VerifyArgs& args, const std::string& how, const ModelComparison& c, bool same) {
  ordered_json j = json_head("verify", args.before, same);
  j["after"] = args.after;
  j["numerics"] = how;
  if (args.rtol) j["rtol"] = *args.rtol;
  if (args.atol) j["atol"] = *args.atol;
  j["evaluations"] = c.runs;
  j["difference"] = c.difference ? ordered_json(*c.difference) : ordered_json();
  j["largest_error"] = c.runs > 0 ? ordered_json(c.largest_error) : ordered_json();
  j["largest_error_at"] = c.largest_at;
  j["not_compared"] = c.runs == 0 ? c.skipped : std::string();
  j["runtime"] = c.runtime;
  j["load_problems"] = c.load_problems;
  return j;
}

}  // namespace

int verify(const VerifyArgs& args) {
  const auto before = read_model(opened(args.before)), after = read_model(opened(args.after));
  const bool across = before->dialect() != after->dialect();
  const Numerics numerics = across ? Numerics::kRelaxed : numerics_named(args.numerics, before->dialect());
  std::optional<Tolerance> tolerance;
  if (args.rtol || args.atol) tolerance = Tolerance{args.rtol.value_or(0), args.atol.value_or(0)};
  const ModelComparison check = compare_models(*before, *after, numerics, args.target, tolerance);
  const std::string how =
      tolerance ? fmt::format("rtol {}, atol {}", tolerance->rtol, tolerance->atol) : std::string(to_string(numerics));
  const bool same = !check.difference && check.load_problems.empty() && check.runs > 0;
  if (args.json) {
    print_one(json_of(args, how, check, same));
    return same ? 0 : 1;
  }
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
  say("the models compute the same ({}) on {} inputs\n", how, check.runs);
  if (!check.largest_at.empty()) say("largest error {:.3g}: {}\n", check.largest_error, check.largest_at);
  return 0;
}

}  // namespace sardonyx::tools
