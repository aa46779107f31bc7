#include "convert/precision/precision_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "convert/precision/half_parts.h"
#include "convert/precision/trials.h"
#include "convert/precision/weight_choice.h"
#include "passes/catalog.h"
#include "passes/onnx/quantize/quantize_weights.h"

namespace sardonyx {
namespace {

constexpr double kNotFinite = std::numeric_limits<double>::infinity();
constexpr double kUsualSpread = 0.25;  // of errors from run to run
constexpr size_t kPackTrials = 6;
constexpr int kHalfTrials = 4;
constexpr double kNear = 1.05;         // targets and errors that are not told apart
constexpr double kLeastTarget = 1e-3;  // of parts in half precision, over the bound

// A model with more bytes may be chosen for its time: up to this share of the smallest, if it takes at most
// that share of its time.
constexpr double kMostBytes = 1.1, kLessTime = 0.8;

// What a model computes in. Its weights may then become narrower.
struct Base {
  std::string types;
  std::vector<PassRequest> passes = {};
  bool is_half = false;
  bool rounds_rest = true;  // weights of f32 that nothing narrows are stored in f16
  bool is_refused = false;  // what runs models lacks an operator
  double error = kNotFinite;
  uint64_t bytes = 0;
  WeightChoice::StoredWeights weights = {};
};

// A point of the curve.
struct Tried {
  std::string base;  // its types
  std::vector<PassRequest> passes;
  bool is_within = false;
};

Calibration first_half(const Calibration& runs) {
  const auto end = runs.runs.begin() + static_cast<std::ptrdiff_t>(runs.runs.size() / 2);
  return {.runs = {runs.runs.begin(), end}, .runner = runs.runner};
}

size_t count_of(const PipelineReport& report, std::string_view what) {
  size_t sum = 0;
  for (const PassReport& p : report.passes) {
    for (const auto& [name, times] : p.counts) sum += name == what ? times : 0;
  }
  return sum;
}

std::string plural(size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

bool stays_single(const PassRequest& request) {
  const std::pair<std::string, std::string> single("precision", "f32");
  return std::ranges::find(request.options, single) != request.options.end();
}

class Chooser {
 public:
  Chooser(const Model& m, const OptimizeOptions& options, const PassRequest& request, Calibration runs)
      : m_(m), options_(options), request_(request), runs_(with_inputs(m, std::move(runs), choice_.warnings)) {
    if (!options.calibrate.empty()) choice_.learned = first_half(runs_);
  }

  PrecisionChoice run() {
    trials_.emplace(m_, runs_, options_.metric);
    weights_.emplace(m_, *trials_, learned(), request_.observer);
    choice_.bound = options_.max_error / (1 + margin());
    choice_.curve.push_back(
        {.types = "f32", .bytes = count_model(m_).bytes, .time = options_.runner ? std::optional(1.0) : std::nullopt});
    tried_.push_back({.base = "f32", .is_within = true});
    const bool is_half = !stays_single(request_) && try_half();
    // Without times, halves are as good as weights alone.
    if (!is_half || options_.runner) offer({.types = "f32"});
    if (!stays_single(request_) && options_.runner) try_integers();
    choose();
    return std::move(choice_);
  }

 private:
  // Random inputs where none are given.
  static Calibration with_inputs(const Model& m, Calibration runs, std::vector<std::string>& warnings) {
    if (!runs.runs.empty()) return runs;
    warnings.emplace_back("the error is of random inputs (help: --calibrate names real ones)");
    for (uint64_t seed = 0; seed < 2; ++seed) {
      auto& inputs = runs.runs.emplace_back(m.graph().inputs().size());
      fill_inputs(m.graph(), inputs, seed);
    }
    return runs;
  }

  // How much larger errors of other inputs may be. The spread of few runs is little evidence, so what is
  // usual counts as one more; and the largest error of few is below that of others.
  double margin() const {
    if (options_.metric) return 0;
    const auto runs = static_cast<double>(runs_.runs.size());
    const double spread = weights_->spread();
    return std::sqrt(2 * (spread * spread * (runs - 1) + kUsualSpread * kUsualSpread)) / runs;
  }

  const Calibration* learned() const { return choice_.learned.runs.empty() ? nullptr : &choice_.learned; }

  struct Made {
    std::unique_ptr<Model> model;
    std::string types;
    std::vector<PassRequest> passes;
    bool is_whole = false;  // no weights but those of the base are narrow
    bool changed = false;   // by the passes of the base
  };

  // Makes a model from the one in single precision.
  Made make(Base& base, const NarrowWeights& names) {
    Made made{.model = clone_model(m_), .types = base.types, .passes = base.passes, .is_whole = names.empty()};
    size_t kept = 0;
    for (const PassRequest& request : base.passes) {
      const PipelineReport report = run_uncompared(*made.model, request);
      kept += count_of(report, "in f32: the option keep names it");
      made.changed |= std::ranges::any_of(report.passes, &PassReport::changed);
    }
    if (kept > 0) made.types += fmt::format(" but for {}", plural(kept, "node"));
    if (made.is_whole) base.weights = weights_->weights_in(*made.model);
    for (const auto& [type, of_type] : names) {
      made.passes.push_back(narrowing(type, of_type, learned()));
      (void)run_uncompared(*made.model, made.passes.back());
      made.types += fmt::format(", {} {}", plural(of_type.size(), "weight"), type);
    }
    PassRequest rest = narrowing("f16", {}, nullptr);
    const size_t rounded = base.rounds_rest ? count_of(run_uncompared(*made.model, rest), "weights") : 0;
    if (made.is_whole) base.rounds_rest = rounded > 0;
    if (rounded > 0) {
      made.passes.push_back(std::move(rest));
      made.types += fmt::format(", {} f16", plural(rounded, "weight"));
    }
    return made;
  }

  // Adds a point to the curve, unless the model is refused. Returns its error.
  double measure(Base& base, Made made) {
    PrecisionPoint point{.types = std::move(made.types), .bytes = count_model(*made.model).bytes};
    try {
      const RunModel run = trials_->prepare(*made.model);
      point.error = worst_of(trials_->errors(run));
      // Runtimes that compute halves in single precision hide what overflows.
      if (base.is_half && made.is_whole && options_.runner)
        point.error = std::max(point.error, worst_of(trials_->evaluated_errors(*made.model)));
      if (point.error <= choice_.bound && options_.runner) point.time = trials_->time(run);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
      base.is_refused = true;
      choice_.warnings.push_back(fmt::format("not tried: {}, because {}", point.types, e.message()));
      return kNotFinite;
    }
    tried_.push_back({.base = base.types, .passes = std::move(made.passes), .is_within = point.error <= choice_.bound});
    choice_.curve.push_back(std::move(point));
    return choice_.curve.back().error;
  }

  // Measures what the base alone costs: with its other weights in f16, or, if that is too much, as they are.
  // Returns whether it is within the bound.
  bool settle(Base& base) {
    Made made = make(base, {});
    const bool is_single = base.passes.empty();
    if (!made.changed && !is_single) return false;
    base.error = measure(base, std::move(made));
    if (base.is_refused) return false;
    base.bytes = choice_.curve.back().bytes;
    if (base.error > choice_.bound && base.rounds_rest && (base.is_half || is_single)) {
      base.rounds_rest = false;
      base.error = is_single ? 0 : measure(base, make(base, {}));
      base.bytes = choice_.curve[is_single ? 0 : choice_.curve.size() - 1].bytes;
      weights_->measure_halves(m_, *trials_, request_.observer);
    }
    for (auto& [name, stored] : base.weights) stored.bytes /= base.rounds_rest && !stored.is_half ? 2 : 1;
    return base.error <= choice_.bound;
  }

  void offer(Base base) {
    if (settle(base)) pack(base);
  }

  // Half precision for all nodes, or for those that stay within the bound.
  bool try_half() {
    PassRequest half = request_;
    half.observer = nullptr;
    half.options.emplace_back("precision", "f16");
    Base base{.types = "f16", .passes = {half}, .is_half = true};
    if (settle(base)) {
      pack(base);
      return true;
    }
    if (choice_.curve.size() == 1) return false;  // it changes nothing, or was refused
    auto made = clone_model(m_);
    (void)run_uncompared(*made, half);
    HalfParts parts(m_, *made, *trials_);
    parts.divide(choice_.bound, request_.observer);
    double target = choice_.bound;
    std::vector<std::string> last;
    for (int trials = 0; trials < kHalfTrials && target > kLeastTarget * choice_.bound;) {
      const auto names = parts.kept(target);
      if (!names) return false;
      if (std::exchange(last, *names) == *names) {
        target *= 0.8;
        continue;
      }
      PassRequest partly = half;
      partly.options.emplace_back("cast_to_half.keep", fmt::format("{}", fmt::join(*names, ",")));
      base = {.types = "f16", .passes = {std::move(partly)}, .is_half = true};
      if (settle(base)) {
        pack(base);
        return true;
      }
      target *= std::clamp(0.9 * choice_.bound / base.error, 0.1, 0.8);
      ++trials;
    }
    return false;
  }

  // Values in integers of 8 bits, by ranges that runs had or that each run has. Sessions tell whether that is
  // faster. Ranges may not be known: a value of a run may be infinite.
  void try_integers() {
    const auto opset = m_.opset_version("").value_or(0);
    const auto try_passes = [&](const std::string& types, std::vector<std::string> passes) {
      try {
        offer({.types = types, .passes = {{.passes = std::move(passes), .strict = true, .calibration = learned()}}});
      } catch (const Error& e) {
        if (e.code() == ErrorCode::kInternal) throw;
        choice_.warnings.push_back(fmt::format("not tried: {}, because {}", types, e.message()));
      }
    };
    if (learned() != nullptr && opset >= onnx::kStaticQuantization)
      try_passes("static int8", {"quantize_values", "quantize_products"});
    if (opset >= onnx::kDynamicQuantization) try_passes("dynamic int8", {"quantize_products"});
  }

  // Narrows as many weights as the bound allows: measures what the prediction chooses, and corrects the
  // prediction by what was measured. Runtimes that join narrow weights with their products round more than
  // single weights tell.
  void pack(Base& base) {
    const double floor = static_cast<double>(base.bytes) - weights_->most_saved(base.weights);
    if (floor > kMostBytes * static_cast<double>(choice_.curve[smallest()].bytes)) return;
    std::map<NarrowWeights, double> known;
    double target = choice_.bound, good = 0, bad = kNotFinite;  // `good` stayed within the bound, `bad` did not
    while (known.size() < kPackTrials && target > 0 && bad > kNear * good) {
      const auto names = weights_->cheapest(base.weights, base.error, target);
      if (names.empty()) return;
      const auto [at, is_new] = known.try_emplace(names);
      if (is_new) at->second = measure(base, make(base, names));
      if (base.is_refused) return;
      const double error = at->second;
      (error > choice_.bound ? bad : good) = target;
      if (error <= choice_.bound && error * kNear > choice_.bound) return;
      target = good > 0 && std::isfinite(bad) ? std::sqrt(good * bad)
               : std::isfinite(bad)           ? target * std::clamp(0.95 * choice_.bound / error, 0.5, 0.95)
                                              : target * std::clamp(0.95 * choice_.bound / std::max(error, 1e-30), 1.05, 4.0);
    }
  }

  // The point with the fewest bytes within the bound; of this base, if one is given.
  size_t smallest(std::string_view base = {}) const {
    size_t best = tried_.size();
    for (size_t i = 0; i < tried_.size(); ++i) {
      const bool is_candidate = tried_[i].is_within && (base.empty() || tried_[i].base == base);
      if (is_candidate && (best == tried_.size() || choice_.curve[i].bytes < choice_.curve[best].bytes)) best = i;
    }
    return best;
  }

  // Times decide between bases alone, so that less depends on them.
  void choose() {
    const PrecisionPoint& small = choice_.curve[choice_.chosen = smallest()];
    for (size_t i = 0; i < tried_.size() && small.time; ++i) {
      if (smallest(tried_[i].base) != i) continue;
      const PrecisionPoint& p = choice_.curve[i];
      if (static_cast<double>(p.bytes) > kMostBytes * static_cast<double>(small.bytes)) continue;
      if (*p.time <= kLessTime * *small.time && *p.time < *choice_.curve[choice_.chosen].time) choice_.chosen = i;
    }
    choice_.passes = std::move(tried_[choice_.chosen].passes);
    if (choice_.chosen == 0) say_what_is_least();
  }

  // What could have been chosen, if nothing was.
  void say_what_is_least() {
    const PrecisionPoint* least = nullptr;
    for (const PrecisionPoint& p : choice_.curve) {
      if (p.bytes < choice_.curve.front().bytes && p.error > 0 && (least == nullptr || p.error < least->error)) least = &p;
    }
    if (least == nullptr || !std::isfinite(least->error)) return;
    const double needed = 1.01 * least->error * options_.max_error / choice_.bound;
    const std::string text = options_.metric ? fmt::format("{:.3g}", needed) : fmt::format("{:.3g} %", 100 * needed);
    choice_.warnings.push_back(fmt::format("nothing smaller stays within this error; {} would allow {}", text, least->types));
  }

  PrecisionChoice choice_;
  const Model& m_;
  const OptimizeOptions& options_;
  const PassRequest& request_;
  const Calibration runs_;
  std::optional<PrecisionTrials> trials_;
  std::optional<WeightChoice> weights_;
  std::vector<Tried> tried_;  // as the curve
};

}  // namespace

PrecisionChoice choose_precision(const Model& m, const OptimizeOptions& options, const PassRequest& request, Calibration runs) {
  return Chooser(m, options, request, std::move(runs)).run();
}

}  // namespace sardonyx
