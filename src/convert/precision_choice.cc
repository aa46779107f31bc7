#include "convert/precision_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "inspect/value_errors.h"
#include "passes/catalog.h"
#include "passes/onnx/quantize/quantize_weights.h"

namespace sardonyx {
namespace {

using Inputs = std::vector<EvalValue>;
using Results = std::vector<EvalValue>;

constexpr double kNotFinite = std::numeric_limits<double>::infinity();

bool is_of_floats(const EvalValue& v) { return v.array() != nullptr && is_float(v.array()->dtype()); }

// The largest relative error of the results.
double difference(const Results& before, const Results& after) {
  double error = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (!is_of_floats(before[i])) continue;
    error = std::max(error, is_of_floats(after[i]) ? relative_error(*before[i].array(), *after[i].array()) : kNotFinite);
  }
  return error;
}

// --- the types of weights

struct Narrow {
  std::string_view type;  // as quantize_weights names it
  int opset;              // that its DequantizeLinear needs, of half precision
};
constexpr Narrow kNarrow[] = {{"int8", 19}, {"uint4", 21}};

// Stores the named weights in a type; all of them, if there are no names.
PassRequest narrowing(std::string_view type, const std::vector<std::string>& names, const Calibration* calibration) {
  PassRequest request{.passes = {"quantize_weights"}, .strict = true, .calibration = calibration};
  request.options.emplace_back("quantize_weights.type", std::string(type));
  request.options.emplace_back("quantize_weights.only", fmt::format("{}", fmt::join(names, "\n")));
  return request;
}

// A weight stored in one of the types.
struct Stored {
  const Node* dequantize = nullptr;  // of a copy of the model
  uint64_t bytes = 0;
  double error = 0;  // of the results

  std::vector<TensorPtr> operands() const {
    std::vector<TensorPtr> constants;
    for (const Use& u : dequantize->operands()) constants.push_back(u.value != nullptr ? u.value->constant() : nullptr);
    return constants;
  }
  // What its codes stand for.
  TensorPtr floats() const {
    const auto results = evaluate_node(*dequantize, operands(), SIZE_MAX);
    SX_CHECK(results, "what quantize_weights writes can be evaluated");
    return results->front();
  }
};

struct Weight {
  uint64_t bytes = 0;  // if it is not narrowed
  std::map<std::string_view, Stored> narrow;
};

// Names of weights by type.
using Assignment = std::map<std::string_view, std::vector<std::string>>;

class Chooser {
 public:
  Chooser(const Model& m, const OptimizeOptions& options, const PassRequest& request, Calibration runs)
      : m_(m), options_(options), request_(request), runs_(std::move(runs)) {
    choice_.learned = {.runs = {runs_.runs.begin(), runs_.runs.begin() + static_cast<std::ptrdiff_t>(runs_.runs.size() / 2)},
                       .runner = runs_.runner};
    if (!runs_.runs.empty()) return;
    choice_.warnings.emplace_back("the error is of random inputs (help: --calibrate names real ones)");
    for (uint64_t seed = 0; seed < 2; ++seed) {
      Inputs& inputs = runs_.runs.emplace_back(m.graph().inputs().size());
      fill_inputs(m.graph(), inputs, seed);
    }
  }

  PrecisionChoice run() {
    before_ = results_of(m_);
    for (const Results& results : before_) {
      if (std::ranges::none_of(results, is_of_floats))
        throw Error(ErrorCode::kUnsupported, "the model has no result of floats, and errors are measured on these",
                    {"help: --precision and --weights choose types without measuring"});
    }
    add_point("f32", m_, 0, {});
    const bool stays_single =
        std::ranges::find(request_.options, std::pair<std::string, std::string>("precision", "f32")) != request_.options.end();
    if (!stays_single) try_half();
    measure_weights();
    narrow_many();
    return std::move(choice_);
  }

 private:
  std::vector<Results> results_of(const Model& m, std::span<const EvalValue> more = {}) const {
    const RunModel run = runs_.prepare(m);
    return results_of(run, more);
  }
  std::vector<Results> results_of(const RunModel& run, std::span<const EvalValue> more) const {
    std::vector<Results> all;
    for (Inputs inputs : runs_.runs) {
      inputs.insert(inputs.end(), more.begin(), more.end());
      all.push_back(run(inputs));
    }
    return all;
  }

  const Calibration* learned() const { return choice_.learned.runs.empty() ? nullptr : &choice_.learned; }

  double error_of(const std::vector<Results>& after) const {
    double error = 0;
    for (size_t i = 0; i < runs_.runs.size(); ++i) {
      const double found = options_.metric ? options_.metric(before_[i], after[i]) : difference(before_[i], after[i]);
      error = std::max(error, std::isfinite(found) ? std::abs(found) : kNotFinite);
    }
    return error;
  }

  // A point of the curve is chosen if it is within the bound and smaller than what was.
  void add_point(std::string types, const Model& made, double error, std::vector<PassRequest> passes) {
    const uint64_t bytes = count_model(made).bytes;
    choice_.curve.push_back({.types = std::move(types), .bytes = bytes, .error = error});
    const bool is_first = choice_.curve.size() == 1;
    if (!is_first && (error > options_.max_error || bytes >= choice_.curve[choice_.chosen].bytes)) return;
    choice_.chosen = choice_.curve.size() - 1;
    choice_.passes = std::move(passes);
  }

  // Computes in half precision where that alone stays within the bound. The evaluator judges as well: it
  // rounds after each node, and runtimes that compute halves in single precision hide what overflows.
  void try_half() {
    PassRequest half = request_;
    half.observer = nullptr;
    half.options.emplace_back("precision", "f16");
    auto made = clone_model(m_);
    (void)run_uncompared(*made, half);
    std::vector<Results> evaluated;
    for (const Inputs& inputs : runs_.runs) evaluated.push_back(evaluate(made->graph(), inputs, {.fast_products = true}));
    double error = error_of(evaluated);
    if (options_.runner) error = std::max(error, error_of(results_of(*made)));
    add_point("f16", *made, error, {half});
    if (choice_.chosen == 0) return;
    half_ = std::move(half);
    half_error_ = error;
  }

  // What each weight of the main graph costs, stored in each type, with all others as they are.
  void measure_weights() {
    const int opset = static_cast<int>(m_.opset_version("").value_or(0));
    for (const Narrow& n : kNarrow) {
      if (opset >= n.opset) narrow_all(n.type);
    }
    if (weights_.empty()) return;
    auto probe = clone_model(m_);
    Graph& g = probe->graph();
    std::vector<EvalValue> given;
    std::vector<Weight*> measured;
    for (Value* v : std::vector<Value*>(g.constants().begin(), g.constants().end())) {
      const auto at = weights_.find(v->name().view());
      if (at == weights_.end()) continue;
      given.emplace_back(v->constant());
      measured.push_back(&at->second);
      Value* input = g.add_input(at->first + "_given", v->type());
      g.replace_uses(*v, *input);
      g.erase_constant(*v);
    }
    const RunModel run = runs_.prepare(*probe);
    size_t done = 0;
    for (size_t i = 0; i < measured.size(); ++i) {
      const EvalValue whole = given[i];
      for (auto& [type, stored] : measured[i]->narrow) {
        given[i] = EvalValue(stored.floats());
        stored.error = error_of(results_of(run, given));
      }
      given[i] = whole;
      if (request_.observer != nullptr) request_.observer->progress("weights", ++done, measured.size());
    }
  }

  // Stores all weights of a copy of the model in one type.
  void narrow_all(std::string_view type) {
    Model& made = *copies_.emplace_back(clone_model(m_));
    (void)run_uncompared(made, narrowing(type, {}, learned()));
    std::map<std::string_view, TensorPtr> before;
    for (const Value* v : m_.graph().constants()) before.emplace(v->name().view(), v->constant());
    for (const Node& n : made.graph().nodes()) {
      if (!n.is("DequantizeLinear")) continue;
      std::string_view name = n.operands()[0].value->name().view();
      if (!name.ends_with(onnx::kCodesSuffix)) continue;
      name.remove_suffix(onnx::kCodesSuffix.size());
      const auto weight = before.find(name);
      if (weight == before.end()) continue;
      Weight& w = weights_[std::string(name)];
      w.bytes = weight->second->byte_size() / (half_ ? 2 : 1);
      Stored& stored = w.narrow[type];
      stored.dequantize = &n;
      for (const TensorPtr& t : stored.operands()) stored.bytes += t != nullptr ? t->byte_size() : 0;
    }
  }

  // The types that cost the fewest bytes where an error counts `price` bytes for its square.
  Assignment assigned(double price) const {
    Assignment names;
    for (const auto& [name, w] : weights_) {
      double least = static_cast<double>(w.bytes);
      std::string_view best;
      for (const auto& [type, stored] : w.narrow) {
        const double cost = static_cast<double>(stored.bytes) + price * stored.error * stored.error;
        if (cost < least) std::tie(least, best) = std::pair(cost, type);
      }
      if (!best.empty()) names[best].push_back(name);
    }
    return names;
  }

  // The error of an assignment if those of its weights are independent.
  double predicted(const Assignment& names) const {
    double sum = half_error_ * half_error_;
    for (const auto& [type, of_type] : names) {
      for (const std::string& name : of_type) {
        const double error = weights_.at(name).narrow.at(type).error;
        sum += error * error;
      }
    }
    return std::sqrt(sum);
  }

  // The cheapest assignment whose predicted error is at most `error`.
  Assignment cheapest(double error) const {
    double low = 1e-3, high = 1e24;  // prices, by factors
    for (int i = 0; i < 100; ++i) {
      const double price = std::sqrt(low * high);
      (predicted(assigned(price)) <= error ? high : low) = price;
    }
    return assigned(high);
  }

  // Narrows as many weights as the bound allows: measures what the prediction chooses, and corrects the
  // prediction by what was measured. Runtimes that join narrow weights with their products round more than
  // single weights tell.
  void narrow_many() {
    constexpr int kTrials = 8;
    double target = options_.max_error;
    Assignment last;
    for (int i = 0; i < kTrials && !weights_.empty(); ++i) {
      const auto names = cheapest(target);
      if (names.empty() || (i > 0 && names == last)) break;
      last = names;
      const double error = measure(names);
      if (error > options_.max_error) {
        const double corrected = target * (std::isfinite(error) ? 0.95 * options_.max_error / error : 0.5);
        target = std::min(corrected, 0.95 * predicted(names));  // another choice in any case
      } else if (error < 0.8 * options_.max_error) {
        target *= std::clamp(0.95 * options_.max_error / std::max(error, 1e-30), 1.0, 4.0);
      } else {
        break;
      }
    }
  }

  double measure(const Assignment& names) {
    auto made = clone_model(m_);
    std::vector<PassRequest> passes;
    std::string types = half_ ? "f16" : "f32";
    if (half_) passes.push_back(*half_);
    for (const auto& [type, of_type] : names) {
      passes.push_back(narrowing(type, of_type, learned()));
      types += fmt::format(", {} weight{} {}", of_type.size(), of_type.size() == 1 ? "" : "s", type);
    }
    for (const PassRequest& request : passes) (void)run_uncompared(*made, request);
    const double error = error_of(results_of(*made));
    add_point(std::move(types), *made, error, std::move(passes));
    return error;
  }

  const Model& m_;
  const OptimizeOptions& options_;
  const PassRequest& request_;
  Calibration runs_;
  std::vector<Results> before_;
  std::optional<PassRequest> half_;  // if results may be computed in half precision
  double half_error_ = 0;
  std::vector<std::unique_ptr<Model>> copies_;  // in which all weights are narrow
  std::map<std::string, Weight, std::less<>> weights_;
  PrecisionChoice choice_;
};

}  // namespace

PrecisionChoice choose_precision(const Model& m, const OptimizeOptions& options, const PassRequest& request, Calibration runs) {
  return Chooser(m, options, request, std::move(runs)).run();
}

}  // namespace sardonyx
