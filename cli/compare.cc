// sardonyx compare: whether two models, or a model and a function, compute the same. Exit code 1 when they do
// not.
#include <fmt/format.h>

#include "cli/options/habits.h"
#include "cli/print/output.h"
#include "cli/print/say.h"
#include "commands.h"
#include "convert/read_source.h"
#include "sardonyx/inspect.h"
#include "sardonyx/io.h"

namespace sardonyx::cli {
namespace {

std::optional<Numerics> numerics_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return name == "exact" ? Numerics::kExact : name == "rounds" ? Numerics::kRounds : Numerics::kRelaxed;
}

ordered_json json_of(const Given& given, const std::string& how, const ModelComparison& c, bool same) {
  ordered_json j = json_head("compare", given.text("before"), same);
  j["after"] = given.text("after");
  j["numerics"] = how;
  for (const char* bound : {"rtol", "atol"}) {
    if (const auto n = given.number(bound)) j[bound] = *n;
  }
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

int compare(const Given& given) {
  const std::string first = given.text("before"), second = given.text("after");
  const bool has_function = is_function(first) || is_function(second);
  if (given.has("precision") && !has_function) return half_report(given);
  if (!given.has("after"))
    throw Error(ErrorCode::kInvalidArgument, "a second model is missing",
                {fmt::format("help: sardonyx compare {} OTHER", first)});
  if (has_function) {
    given.require_fit(Kind::kFunction, second);
    run_python(given);
  }
  given.require_fit(Kind::kOnnx, first);
  const auto before = read_source(opened(first), read_options(given)), after = read_source(opened(second), read_options(given));
  const bool across = before->dialect() != after->dialect();
  if (across && given.has("numerics"))
    refuse("--numerics is for two models of one format", {"help: --rtol and --atol say what counts as equal between formats"});
  const std::optional<Tolerance> tolerance = tolerance_of(given);
  const ModelComparison check =
      compare_models(*before, *after, numerics_named(given.text("numerics")), given.text("target"), tolerance);
  const std::string how = tolerance ? fmt::format("rtol {}, atol {}", tolerance->rtol, tolerance->atol) : check.judged;
  const bool same = !check.difference && check.load_problems.empty() && check.runs > 0;
  if (given.has("json")) {
    print_one(json_of(given, how, check, same));
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

}  // namespace sardonyx::cli
