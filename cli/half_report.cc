// sardonyx compare --precision f16: what half precision would break.
#include "convert/half_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/options/value_texts.h"
#include "cli/print/output.h"
#include "cli/print/say.h"
#include "commands.h"
#include "sardonyx/io.h"

namespace sardonyx::cli {
namespace {

ordered_json json_of(const std::string& input, const HalfReport& r) {
  const auto number = [](double v) { return std::isfinite(v) ? ordered_json(v) : ordered_json(); };
  ordered_json ops = ordered_json::array();
  for (const HalfReport::Op& o : r.ops) {
    ops.push_back({{"function", o.function},
                   {"op", o.op},
                   {"name", o.name},
                   {"verdict", o.verdict},
                   {"value", o.value},
                   {"low", number(o.low)},
                   {"high", number(o.high)},
                   {"seen", o.seen}});
  }
  ordered_json j = json_head("compare", input, true);
  j["ops"] = ops;
  j["safe"] = r.safe;
  j["runs"] = r.runs;
  j["not_run"] = r.not_run;
  j["ranges"] = r.ranges;
  return j;
}

void print_report(const HalfReport& r) {
  std::map<std::string_view, size_t> counts;
  const bool several =
      std::ranges::any_of(r.ops, [&](const HalfReport::Op& o) { return o.function != r.ops.front().function; });
  for (const HalfReport::Op& o : r.ops) {
    ++counts[o.verdict];
    if (o.verdict == "unknown") continue;
    say("{:<12}  {}{} '{}': '{}' is from {:.6g} to {:.6g}{}\n", o.verdict, several ? o.function + ": " : "", o.op, o.name,
        o.value, o.low, o.high, o.seen ? "" : " at most");
  }
  say("{} op{} safe", r.safe, r.safe == 1 ? " is" : "s are");
  for (std::string_view verdict : {"overflows", "vanishes", "may overflow", "unknown"}) {
    if (counts[verdict] > 0) say(", {} {}", counts[verdict], verdict);
  }
  say(" ({} run{})\n", r.runs, r.runs == 1 ? "" : "s");
  if (!r.not_run.empty()) say("the program could not be run: {}\n", r.not_run);
}

}  // namespace

int half_report(const Given& given) {
  const std::string input = given.text("before");
  given.require_fit(Kind::kHalf, input);
  if (given.has("after") || given.text("precision") != "f16")
    throw Error(ErrorCode::kInvalidArgument, "--precision says what half precision would break in one model",
                {fmt::format("help: sardonyx compare {} --precision f16", input)});
  const auto model = read_model(input, read_options(given));
  const HalfReport report = sardonyx::half_report(*model, inputs_of_runs(model->graph(), given.list("calibrate")),
                                                  given.count("runs", 2), given.count("seed", 0));
  if (given.has("json")) {
    print_one(json_of(input, report));
  } else {
    print_report(report);
  }
  return 0;
}

}  // namespace sardonyx::cli
