// Runs of a small function on random inputs: in single precision, and with every result of chosen ops rounded
// to half precision, as a device would compute it.
#pragma once

#include <functional>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "passes/precision/words.h"
#include "sardonyx/eval.h"

namespace sardonyx::precision {

// The elements of an array of f32 as half precision has them. Finite ones are clamped to +-`most` before.
Array rounded_to_half(const Array& a, float most = std::numeric_limits<float>::infinity());

enum class ProbeFault : uint8_t {
  kOutside,      // half precision cannot represent the value
  kSmall,        // it keeps few digits of it
  kComputation,  // what computes it is wrong in half precision
};

struct ProbeFinding {
  const Value* value;
  std::string_view why;
  ProbeFault fault;
};

struct HalfChoice {
  std::function<bool(const Node&)> is_half;   // whether the op is cast
  std::function<bool(const Value&)> is_mask;  // whether its elements beyond 65504 stand for infinity
};

class Probe {
 public:
  // Runs the function in single precision, unless that takes more than about a tenth of a second or the
  // evaluator cannot do it.
  explicit Probe(Graph& function);

  // The values at which `choice` first goes wrong although the operands are right: they become infinite, NaN,
  // or off by more than a twentieth of the largest element.
  std::vector<ProbeFinding> find(const HalfChoice& choice) const;

 private:
  struct Seen {
    double largest = 0;
    bool finite = true;
    Array first;     // of the first iteration; only in the run in single precision
    double off = 0;  // its largest difference from single precision, relative to the largest element there
  };
  using Sight = std::unordered_map<const Value*, Seen>;

  Sight run(const HalfChoice* choice) const;

  Graph& function_;
  std::vector<EvalValue> inputs_;
  Sight single_;
};

}  // namespace sardonyx::precision
