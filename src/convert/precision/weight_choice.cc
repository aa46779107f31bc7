#include "convert/precision/weight_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "ir/tensor/half.h"
#include "passes/catalog.h"
#include "passes/onnx/quantize/quantize_weights.h"
#include "passes/precision/probe.h"

namespace sardonyx {
namespace {

struct NarrowType {
  std::string_view name;
  int opset;  // that its DequantizeLinear needs, of half precision
};
constexpr NarrowType kTypes[] = {{"int8", 19}, {"int8 in blocks", 21}, {"uint4", 21}};
constexpr std::string_view kInBlocks = " in blocks";  // of 32
constexpr std::string_view kHalf = "f16";

constexpr int64_t kLeastElements = 256;  // of a weight that is worth a node
constexpr double kNodeBytes = 200;       // of that node and its names in a file

std::vector<TensorPtr> parts_of(const Node& dequantize) {
  std::vector<TensorPtr> constants;
  for (const Use& u : dequantize.operands()) constants.push_back(u.value != nullptr ? u.value->constant() : nullptr);
  return constants;
}

// What the codes stand for, in the weight's type.
TensorPtr floats_of(const Node& dequantize, DType type) {
  const auto results = evaluate_node(dequantize, parts_of(dequantize), SIZE_MAX);
  SX_CHECK(results, "what quantize_weights writes can be evaluated");
  return type == DType::kBF16 ? as_bf16(results->front()) : results->front();
}

// What the errors of many single weights have in common.
struct Statistics {
  double deviations = 0;        // from the mean over runs, which is 1, squared
  size_t degrees = 0;           // of freedom
  double worst = 0, usual = 0;  // sums of squares

  void add(const std::vector<RelativeError>& errors) {
    double mean = 0;
    for (const RelativeError& e : errors) mean += e.worst / static_cast<double>(errors.size());
    if (!std::isfinite(mean) || mean == 0) return;
    for (const RelativeError& e : errors) {
      deviations += (e.worst / mean - 1) * (e.worst / mean - 1);
      worst += e.worst * e.worst;
      usual += e.usual * e.usual;
    }
    degrees += errors.size() - 1;
  }
};

double mean_square_of(const std::vector<RelativeError>& errors) {
  double sum = 0;
  for (const RelativeError& e : errors) sum += e.usual * e.usual / static_cast<double>(errors.size());
  return sum;
}

}  // namespace

PassRequest narrowing(std::string_view type, const std::vector<std::string>& names, const Calibration* calibration) {
  PassRequest request{.passes = {"quantize_weights"}, .strict = true, .calibration = calibration};
  if (type.ends_with(kInBlocks)) {
    type.remove_suffix(kInBlocks.size());
    request.options.emplace_back("quantize_weights.block_size", "32");
  }
  request.options.emplace_back("quantize_weights.type", std::string(type));
  request.options.emplace_back("quantize_weights.min_elements", std::to_string(kLeastElements));
  request.options.emplace_back("quantize_weights.only", fmt::format("{}", fmt::join(names, "\n")));
  return request;
}

WeightChoice::WeightChoice(const Model& m, const PrecisionTrials& trials, const Calibration* learned, Observer* observer) {
  const int opset = static_cast<int>(m.opset_version("").value_or(0));
  for (const NarrowType& t : kTypes) {
    if (opset >= t.opset) narrow_all(m, t.name, learned);
  }
  measure(m, trials, observer);
}

void WeightChoice::measure_halves(const Model& m, const PrecisionTrials& trials, Observer* observer) {
  for (const Value* v : m.graph().constants()) {
    const auto at = weights_.find(v->name().view());
    if (at != weights_.end() && v->dtype() == DType::kF32)
      at->second.try_emplace(kHalf, Narrow{.code_bytes = v->constant()->byte_size() / 2});
  }
  measure(m, trials, observer);
}

// Stores all weights of a copy of the model in one type.
void WeightChoice::narrow_all(const Model& m, std::string_view type, const Calibration* learned) {
  Model& made = *copies_.emplace_back(clone_model(m));
  (void)run_uncompared(made, narrowing(type, {}, learned));
  std::map<std::string_view, TensorPtr> before;
  for (const Value* v : m.graph().constants()) before.emplace(v->name().view(), v->constant());
  for (const Node& n : made.graph().nodes()) {
    if (!n.is("DequantizeLinear")) continue;
    std::string_view name = n.operands()[0].value->name().view();
    if (!name.ends_with(onnx::kCodesSuffix) || before.contains(name)) continue;  // or has been narrow
    name.remove_suffix(onnx::kCodesSuffix.size());
    if (!before.contains(name)) continue;
    const auto parts = parts_of(n);
    Narrow narrow{.dequantize = &n, .scale_bytes = parts[1]->byte_size()};
    for (const TensorPtr& t : parts) narrow.code_bytes += t != nullptr && t != parts[1] ? t->byte_size() : 0;
    ByType& known = weights_[std::string(name)];
    const auto is_same = [&](const auto& e) { return e.second.bytes() == narrow.bytes(); };  // too small for blocks
    if (std::ranges::none_of(known, is_same)) known.emplace(type, narrow);
  }
}

// The weights become inputs of a copy, so that one preparation serves all runs.
void WeightChoice::measure(const Model& m, const PrecisionTrials& trials, Observer* observer) {
  const auto is_done = [](const auto& weight) {
    return std::ranges::all_of(weight.second, [](const auto& e) { return e.second.is_measured; });
  };
  if (std::ranges::all_of(weights_, is_done)) return;
  auto probe = clone_model(m);
  Graph& g = probe->graph();
  std::vector<EvalValue> given;
  std::vector<ByType*> measured;
  for (Value* v : std::vector<Value*>(g.constants().begin(), g.constants().end())) {
    const auto at = weights_.find(v->name().view());
    if (at == weights_.end()) continue;
    given.emplace_back(v->constant());
    measured.push_back(&at->second);
    Value* input = g.add_input(at->first + "_given", v->type());
    g.replace_uses(*v, *input);
    g.erase_constant(*v);
  }
  const RunModel run = trials.prepare(*probe);
  Statistics found;
  size_t done = 0;
  for (size_t i = 0; i < measured.size(); ++i) {
    const EvalValue whole = given[i];
    for (auto& [type, narrow] : *measured[i]) {
      if (narrow.is_measured) continue;
      given[i] = type == kHalf ? EvalValue(precision::rounded_to_half(*whole.array()))
                               : EvalValue(floats_of(*narrow.dequantize, whole.array()->dtype()));
      const auto errors = trials.errors(run, given);
      narrow.square = mean_square_of(errors);
      narrow.is_measured = true;
      found.add(errors);
    }
    given[i] = whole;
    if (observer != nullptr) observer->progress("weights", ++done, measured.size());
  }
  if (spread_ == 0 && found.degrees > 0) spread_ = std::sqrt(found.deviations / static_cast<double>(found.degrees));
  if (worst_square_ == 0 && found.usual > 0) worst_square_ = found.worst / found.usual;
}

WeightChoice::StoredWeights WeightChoice::weights_in(const Model& made) const {
  StoredWeights found;
  for (const Value* v : made.graph().constants()) {
    if (!weights_.contains(v->name().view())) continue;
    Stored& stored = found[std::string(v->name().view())];
    stored.bytes += v->constant()->byte_size();
    stored.is_half = v->dtype() == DType::kF16;
  }
  return found;
}

double WeightChoice::bytes_of(const Narrow& narrow, const Stored& stored) {
  const double scales = static_cast<double>(narrow.scale_bytes) * (stored.is_half ? 0.5 : 1.0);
  return kNodeBytes + static_cast<double>(narrow.code_bytes) + scales;
}

// The types that cost the fewest bytes where an error counts `price` bytes for its square.
NarrowWeights WeightChoice::assigned(const StoredWeights& weights, double price) const {
  NarrowWeights names;
  for (const auto& [name, stored] : weights) {
    double least = static_cast<double>(stored.bytes);
    std::string_view best;
    for (const auto& [type, narrow] : weights_.find(name)->second) {
      if (type == kHalf && stored.is_half) continue;
      const double cost = bytes_of(narrow, stored) + price * worst_square_ * narrow.square;
      if (cost < least) std::tie(least, best) = std::pair(cost, type);
    }
    if (!best.empty()) names[best].push_back(name);
  }
  return names;
}

double WeightChoice::predicted(const NarrowWeights& names, double base) const {
  double sum = base * base;
  for (const auto& [type, of_type] : names) {
    for (const std::string& name : of_type) sum += worst_square_ * weights_.at(name).at(type).square;
  }
  return std::sqrt(sum);
}

NarrowWeights WeightChoice::cheapest(const StoredWeights& weights, double base, double error) const {
  double low = 1e-3, high = 1e24;  // prices, by factors
  for (int i = 0; i < 100; ++i) {
    const double price = std::sqrt(low * high);
    (predicted(assigned(weights, price), base) <= error ? high : low) = price;
  }
  NarrowWeights names = assigned(weights, high);
  fill(weights, error * error - std::pow(predicted(names, base), 2), names);
  return names;
}

// Narrows further weights, one at a time those that save most, while their squared errors stay within `rest`.
// One price for all leaves a rest where weights are few.
void WeightChoice::fill(const StoredWeights& weights, double rest, NarrowWeights& names) const {
  std::map<std::string_view, std::string_view> types;
  for (const auto& [type, of_type] : names) {
    for (const std::string& name : of_type) types[weights.find(name)->first] = type;
  }
  for (;;) {
    double most = 0, adds = 0;
    std::string_view which, to;
    for (const auto& [name, stored] : weights) {
      const ByType& narrow = weights_.find(name)->second;
      const auto at = types.find(name);
      const auto now = at != types.end() ? narrow.find(at->second) : narrow.end();
      const double before = now != narrow.end() ? bytes_of(now->second, stored) : static_cast<double>(stored.bytes);
      const double square = now != narrow.end() ? now->second.square : 0;
      for (const auto& [type, n] : narrow) {
        if (type == kHalf && stored.is_half) continue;
        const double saved = before - bytes_of(n, stored), added = worst_square_ * (n.square - square);
        if (saved > most && added <= rest)
          std::tie(most, adds, which, to) = std::tuple(saved, added, std::string_view(name), type);
      }
    }
    if (which.empty()) break;
    types[which] = to;
    rest -= adds;
  }
  names.clear();
  for (const auto& [name, type] : types) names[type].emplace_back(name);
}

double WeightChoice::most_saved(const StoredWeights& weights) const {
  double saved = 0;
  for (const auto& [type, names] : assigned(weights, 0)) {
    for (const std::string& name : names) {
      const Stored& stored = weights.find(name)->second;
      saved += static_cast<double>(stored.bytes) - bytes_of(weights_.find(name)->second.at(type), stored);
    }
  }
  return saved;
}

}  // namespace sardonyx
