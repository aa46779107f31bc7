#include "convert/precision/trials.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

namespace sardonyx {
namespace {

using Results = std::vector<EvalValue>;

constexpr double kNotFinite = std::numeric_limits<double>::infinity();

bool is_of_floats(const EvalValue& v) { return v.array() != nullptr && is_float(v.array()->dtype()); }

// The largest of the results.
RelativeError difference(const Results& before, const Results& after) {
  RelativeError all;
  for (size_t i = 0; i < before.size(); ++i) {
    if (!is_of_floats(before[i])) continue;
    RelativeError one{kNotFinite, kNotFinite};
    if (is_of_floats(after[i])) one = relative_error(*before[i].array(), *after[i].array());
    all = {std::max(all.worst, one.worst), std::max(all.usual, one.usual)};
  }
  return all;
}

}  // namespace

PrecisionTrials::PrecisionTrials(const Model& m, const Calibration& runs, ErrorMetric metric)
    : runs_(runs), metric_(std::move(metric)), original_(runs.prepare(m)) {
  for (const auto& inputs : runs.runs) {
    const Results& results = before_.emplace_back(original_(inputs));
    if (std::ranges::none_of(results, is_of_floats))
      throw Error(ErrorCode::kUnsupported, "the model has no result of floats, and errors are measured on these",
                  {"help: --precision and --weights choose types without measuring"});
  }
}

RelativeError PrecisionTrials::error(const Results& before, const Results& after) const {
  if (!metric_) return difference(before, after);
  const double found = metric_(before, after), error = std::isfinite(found) ? std::abs(found) : kNotFinite;
  return {error, error};
}

std::vector<RelativeError> PrecisionTrials::errors(const RunModel& run, std::span<const EvalValue> more,
                                                   size_t most_runs) const {
  std::vector<RelativeError> all;
  for (size_t i = 0; i < std::min(before_.size(), most_runs); ++i) {
    std::vector<EvalValue> inputs = runs_.runs[i];
    inputs.insert(inputs.end(), more.begin(), more.end());
    all.push_back(error(before_[i], run(inputs)));
  }
  return all;
}

std::vector<RelativeError> PrecisionTrials::evaluated_errors(const Model& m) const {
  return errors([&](std::span<const EvalValue> inputs) { return evaluate(m.graph(), inputs, {.fast_products = true}); });
}

// Processor time depends less on what else the machine does.
double PrecisionTrials::time(const RunModel& run) const {
  constexpr int kMostRounds = 9;
  constexpr std::clock_t kMost = CLOCKS_PER_SEC / 2;  // after two rounds
  const auto& inputs = runs_.runs.front();
  const auto time_of = [&](const RunModel& one) {
    const std::clock_t start = std::clock();
    (void)one(inputs);
    return std::max<std::clock_t>(std::clock() - start, 1);
  };
  std::clock_t before = std::numeric_limits<std::clock_t>::max(), after = before, all = 0;
  for (int i = 0; i < kMostRounds && (i < 2 || all < kMost); ++i) {
    const std::clock_t of_original = time_of(original_), of_run = time_of(run);
    before = std::min(before, of_original);
    after = std::min(after, of_run);
    all += of_original + of_run;
  }
  return static_cast<double>(after) / static_cast<double>(before);
}

double worst_of(const std::vector<RelativeError>& errors) {
  double worst = 0;
  for (const RelativeError& e : errors) worst = std::max(worst, e.worst);
  return worst;
}

}  // namespace sardonyx
