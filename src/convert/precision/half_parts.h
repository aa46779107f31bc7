// Finds what half precision spoils in a model.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "convert/precision/trials.h"

namespace sardonyx {

// The main graph's values in order, in parts. Each part has the error that rounding its values alone makes.
class HalfParts {
 public:
  // `half` is made from `m` and computes in half precision. Both must outlive this object.
  HalfParts(const Model& m, const Model& half, const PrecisionTrials& trials);

  // Divides the parts with the largest errors until few nodes have to stay in single precision for an error
  // of at most `bound`, or this took many runs.
  void divide(double bound, Observer* observer);
  // Names of the nodes around the values that have to stay for a predicted error of at most `error`. Errors
  // of parts are taken as independent. Nullopt if too much would have to stay.
  std::optional<std::vector<std::string>> kept(double error) const;

 private:
  struct Part {
    size_t first = 0, end = 0;  // in values_
    double worth = 0;           // what half precision saves at the nodes that make them
    double error = 0;
    bool is_whole = false;  // its error is not that of its halves

    bool may_divide() const { return !is_whole && end - first > 1; }
  };

  Part measured(size_t first, size_t end) const;
  std::vector<Part> staying(double error) const;
  std::unordered_set<const Node*> nodes_around(const std::vector<Part>& parts) const;
  double share_of(const std::unordered_set<const Node*>& nodes) const;  // of the worth of all

  const Model& m_;
  const PrecisionTrials& trials_;
  std::vector<const Value*> values_;
  std::vector<Part> parts_;
  double worth_ = 0;  // of all nodes
};

}  // namespace sardonyx
