// Measures what single weights cost in fewer bits, and chooses among them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/precision/trials.h"

namespace sardonyx {

// Stores the named weights in a type of quantize_weights, or in "int8 in blocks"; without names, all of them.
PassRequest narrowing(std::string_view type, const std::vector<std::string>& names, const Calibration* calibration);

// Names of weights by type.
using NarrowWeights = std::map<std::string_view, std::vector<std::string>>;

// Weights of the main graph of a model in single precision, each in fewer bits.
class WeightChoice {
 public:
  // What weights take in some model, by their names.
  struct Stored {
    uint64_t bytes = 0;
    bool is_half = false;  // scales are then as well
  };
  using StoredWeights = std::map<std::string, Stored, std::less<>>;

  // Measures all weights in 8 bits, with and without blocks, and in 4, one at a time with the others as they
  // are. They learn from `learned`; null: from nothing. `observer` may be null.
  WeightChoice(const Model& m, const PrecisionTrials& trials, const Calibration* learned, Observer* observer);

  // The same in half precision, which is then a choice for weights of f32.
  void measure_halves(const Model& m, const PrecisionTrials& trials, Observer* observer);

  // Those weights in a model that was made from this one.
  StoredWeights weights_in(const Model& made) const;
  // The fewest bytes for a predicted error of at most `error`, where `base` is that of all weights as they
  // are. Errors of single weights are taken as independent.
  NarrowWeights cheapest(const StoredWeights& weights, double base, double error) const;
  // The bytes that are saved if nothing but bytes counts.
  double most_saved(const StoredWeights& weights) const;
  // How much errors differ from run to run, as a share; 0 for one run.
  double spread() const { return spread_; }

 private:
  struct Narrow {
    const Node* dequantize = nullptr;  // of a copy of the model; null for halves
    uint64_t code_bytes = 0, scale_bytes = 0;
    double square = 0;  // of the usual error of results
    bool is_measured = false;

    auto bytes() const { return std::pair(code_bytes, scale_bytes); }
  };
  using ByType = std::map<std::string_view, Narrow>;

  void narrow_all(const Model& m, std::string_view type, const Calibration* learned);
  void measure(const Model& m, const PrecisionTrials& trials, Observer* observer);
  static double bytes_of(const Narrow& narrow, const Stored& stored);  // with its node
  double predicted(const NarrowWeights& names, double base) const;
  NarrowWeights assigned(const StoredWeights& weights, double price) const;
  void fill(const StoredWeights& weights, double rest, NarrowWeights& names) const;

  std::vector<std::unique_ptr<Model>> copies_;  // in which all weights are narrow
  std::map<std::string, ByType, std::less<>> weights_;
  double spread_ = 0;
  double worst_square_ = 0;  // of the worst error, over that of the usual
};

}  // namespace sardonyx
