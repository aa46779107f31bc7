// What each pass of an optimization saved: nodes, bytes of constants, arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inspect/model_counts.h"
#include "sardonyx/ir.h"
#include "sardonyx/observe.h"

namespace sardonyx {

// Positive where the model became smaller.
struct Saved {
  int64_t nodes = 0;
  int64_t bytes = 0;  // of constants, as ModelCounts::bytes
  std::string flops;  // an expression in the named sizes, as dialects/flops.h counts; empty: not known, or too large
  std::optional<double> at_flops;  // with every named size at its minimum
  // Nodes whose arithmetic is not known, so that the sum lacks it. A difference where this is not 0 has no flops.
  int64_t unknown = 0;
  bool is_nothing() const { return nodes == 0 && bytes == 0 && flops == "0" && unknown == 0; }
};

// All rows together are the difference of the model before and after.
struct Savings {
  Saved before, after;                                // the whole model, nodes and bytes that nothing uses included
  std::vector<Saved> by_pass;                         // one for each entry of PipelineReport::passes
  std::vector<std::pair<std::string, Saved>> beside;  // what no pass did, without those that are nothing
  std::string at;                                     // "B=1, T=1": the sizes of at_flops; empty if there are none
  // Whether `before` and `after` count the arithmetic of the same nodes.
  bool has_comparable_flops() const;
};

// Keeps the account while it observes pipelines on the model. Nodes and constants that nothing uses count as
// gone: a pass that leaves some behind saved them, not the pass that erases them.
class SavingsAccount : public Observer {
 public:
  // `before`: of the model.
  static std::unique_ptr<SavingsAccount> of(Model& m, const ModelCounts& before);

  // The model was cut to a part before the passes run.
  virtual void cut() = 0;
  // `after`: of the model, without the `nodes_added` by the writer (io/onnx/added_nodes.h).
  virtual Savings finish(const ModelCounts& after, size_t nodes_added) = 0;
};

}  // namespace sardonyx
