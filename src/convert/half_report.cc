#include "convert/half_report.h"

#include <algorithm>

#include "convert/run_inputs.h"
#include "passes/precision/half_ranges.h"
#include "sardonyx/infer.h"

namespace sardonyx {

namespace {

bool fit(const Graph& g, const std::vector<EvalValue>& inputs) {
  try {
    check_inputs(g, inputs);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns how often the function ran. If it could not run, `why` gives the reason.
size_t observe(Graph& g, const HalfReportRequest& request, bool is_main, precision::HalfRanges& ranges, std::string& why) {
  size_t runs = 0;
  for (const auto& inputs : request.runs) {
    if (is_main) {
      check_inputs(g, inputs);
    } else if (!fit(g, inputs)) {
      continue;
    }
    ranges.observe(inputs);
    ++runs;
  }
  for (size_t i = 0; request.runs.empty() && i < request.random_runs; ++i) {
    std::vector<EvalValue> inputs(g.inputs().size());
    try {
      fill_inputs(g, inputs, request.seed + i);
      ranges.observe(inputs);
      ++runs;
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInternal) throw;
      why = e.message();
      break;
    }
  }
  return runs;
}

}  // namespace

HalfReport half_report(Model& m, const HalfReportRequest& request) {
  ValueFacts facts;
  infer_model(m, facts, /*tolerant=*/true);
  PassContext context(m, facts);
  HalfReport report;
  precision::NamedExtents seen;
  for (const auto& f : m.functions()) {
    Graph& g = f->graph();
    precision::HalfRanges ranges(g, context);
    std::string why;
    const size_t runs = observe(g, request, f.get() == &m.main(), ranges, why);
    report.runs = std::max(report.runs, runs);
    if (report.not_run.empty() && !why.empty()) report.not_run = m.functions().size() > 1 ? f->name + ": " + why : why;
    add_seen(ranges, seen);
    if (runs == 0) ranges.tell(seen);
    for (Graph* at : graphs_in(g)) {
      for (const Node& n : at->nodes()) {
        if (n.has(Trait::kConstant)) continue;
        const precision::HalfFinding found = ranges.judge(n);
        if (found.verdict == precision::HalfVerdict::kSafe) {
          ++report.safe;
          continue;
        }
        report.ops.push_back({.function = f->name,
                              .op = std::string(n.op().name),
                              .name = std::string(n.name().view()),
                              .verdict = std::string(to_string(found.verdict)),
                              .value = std::string(found.value->name().view()),
                              .low = found.extent.low,
                              .high = found.extent.high,
                              .seen = found.seen});
      }
    }
  }
  report.ranges = ranges_text(seen);
  return report;
}

HalfReport half_report(Model& m, const std::vector<NamedTensors>& inputs, size_t random_runs, uint64_t seed) {
  HalfReportRequest request{.runs = {}, .random_runs = random_runs, .seed = seed};
  for (const NamedTensors& run : inputs) request.runs.push_back(inputs_by_name(m.graph(), run));
  return half_report(m, request);
}

}  // namespace sardonyx
