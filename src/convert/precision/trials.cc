#include "convert/precision/trials.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/system/stopwatch.h"

namespace sardonyx {
namespace {

using Results = std::vector<EvalValue>;

constexpr double kNotFinite = std::numeric_limits<double>::infinity();

bool is_of_floats(const EvalValue& v) { return v.array() != nullptr && is_float(v.array()->dtype()); }

// The largest difference of two results, as a share of the largest number before.
double difference(const Array& before, const Array& after) {
  if (before.shape() != after.shape()) return kNotFinite;
  double largest = 0, error = 0;
  for (int64_t i = 0; i < before.size(); ++i) {
    const double x = before.double_at(i), y = after.double_at(i);
    if (!std::isfinite(x)) continue;
    if (!std::isfinite(y)) return kNotFinite;
    error = std::max(error, std::abs(x - y));
    largest = std::max(largest, std::abs(x));
  }
  return error == 0 ? 0 : largest == 0 ? kNotFinite : error / largest;
}

double difference(const Results& before, const Results& after) {
  double error = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (!is_of_floats(before[i])) continue;
    error = std::max(error, is_of_floats(after[i]) ? difference(*before[i].array(), *after[i].array()) : kNotFinite);
  }
  return error;
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

double PrecisionTrials::error(const Results& before, const Results& after) const {
  const double found = metric_ ? metric_(before, after) : difference(before, after);
  return std::isfinite(found) ? std::abs(found) : kNotFinite;
}

std::vector<double> PrecisionTrials::errors(const RunModel& run, std::span<const EvalValue> more, size_t most_runs) const {
  std::vector<double> all;
  for (size_t i = 0; i < std::min(before_.size(), most_runs); ++i) {
    std::vector<EvalValue> inputs = runs_.runs[i];
    inputs.insert(inputs.end(), more.begin(), more.end());
    all.push_back(error(before_[i], run(inputs)));
  }
  return all;
}

std::vector<double> PrecisionTrials::evaluated_errors(const Model& m) const {
  return errors([&](std::span<const EvalValue> inputs) { return evaluate(m.graph(), inputs, {.fast_products = true}); });
}

double PrecisionTrials::time(const RunModel& run) const {
  constexpr int kMostRounds = 9;
  constexpr double kMostSeconds = 0.5;  // after two rounds
  const auto& inputs = runs_.runs.front();
  double before = kNotFinite, after = kNotFinite, all = 0;
  for (int i = 0; i < kMostRounds && (i < 2 || all < kMostSeconds); ++i) {
    Stopwatch watch;
    (void)original_(inputs);
    const double of_original = watch.lap();
    (void)run(inputs);
    const double of_run = watch.lap();
    before = std::min(before, of_original);
    after = std::min(after, of_run);
    all += of_original + of_run;
  }
  return after / before;
}

double worst_of(const std::vector<double>& errors) { return errors.empty() ? 0 : *std::ranges::max_element(errors); }

}  // namespace sardonyx
