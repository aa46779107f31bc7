// What a model costs to run: arithmetic, memory traffic, and memory for activations.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

struct NodeCost {
  const Node* node = nullptr;
  Dim flops;  // as dialects/flops.h counts; of all runs together for nodes in bodies
  Dim bytes;  // of the operands, each once, and the results; of selected elements only; 0 for views
};

struct ModelCosts {
  Dim flops = Dim::of(0);
  Dim bytes = Dim::of(0);
  std::vector<NodeCost> nodes;  // of the main function, bodies and called functions included
  size_t unknown = 0;           // nodes that are left out: flops() does not know them, or sizes are too large
  size_t open_loops = 0;        // loops that run an unknown number of times: counted once
};
// Types must have been inferred. Expressions are in the model's Dims. A function counts once for each call;
// of an If, both branches count.
ModelCosts costs_of(Model& m);

// How often each graph runs when the model runs once, by the same rules. Graphs that never run are left out.
std::unordered_map<const Graph*, Dim> runs_by_graph(Model& m);

// The smallest numbers for named sizes, at least 1, at which no result is empty, if there are any. A
// convolution of 3 x 3 without padding has no result at H=1. Types must have been inferred.
class LeastSizes {
 public:
  explicit LeastSizes(Model& m);
  int64_t of(std::string_view name) const;

 private:
  void fit(Dims& dims, Dim d);

  const Model& m_;
  std::map<std::string, int64_t, std::less<>> raised_;
};

// Bytes of activations (inputs, results and what is between them, without constants) that are alive at once,
// if nodes run in the order of the file, results get memory when their node runs, and views share that of
// their operand. `value_of` gives numbers for named sizes.
struct PeakMemory {
  uint64_t bytes = 0;
  const Node* node = nullptr;  // where it is reached
  size_t unknown = 0;          // values without a known size, left out
};
PeakMemory peak_memory(Model& m, const std::function<std::optional<Dim>(std::string_view)>& value_of);

}  // namespace sardonyx
