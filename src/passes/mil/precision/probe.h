// Runs of a small function on random inputs: in single precision, and with every result of chosen ops rounded
// to half precision, as a device would compute it.
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "passes/mil/params.h"
#include "sardonyx/eval.h"

namespace sardonyx::mil {

struct ProbeFinding {
  const Value* value;
  std::string_view why;
  bool by_itself;  // half precision cannot hold it; else what half precision computes is wrong
};

struct HalfChoice {
  std::function<bool(const Node&)> is_half;   // whether the op is cast
  std::function<bool(const Value&)> is_mask;  // whether numbers beyond 65504 among its elements stand for infinity
};

class Probe {
 public:
  // Runs the function in single precision, unless that takes more than about a tenth of a second or the
  // evaluator cannot do it.
  explicit Probe(Graph& function);

  // Where that choice first goes wrong: infinite, NaN, or off by more than a twentieth of the largest element
  // though the operands are right.
  std::vector<ProbeFinding> find(const HalfChoice& choice) const;

 private:
  struct Seen {
    double largest = 0;
    bool finite = true;
    Array first;     // of all turns of a loop; absent if the evaluator did not make it in single precision
    double off = 0;  // of the first one: the largest difference, by the largest element in single precision
  };
  using Sight = std::unordered_map<const Value*, Seen>;

  Sight run(const HalfChoice* choice) const;

  Graph& function_;
  std::vector<EvalValue> inputs_;
  Sight single_;
};

}  // namespace sardonyx::mil
