// Keeps account of what each pass of an optimization saves: nodes, bytes of constants, arithmetic.
#pragma once

#include <cstddef>
#include <memory>

#include "sardonyx/inspect.h"
#include "sardonyx/observe.h"

namespace sardonyx {

// Keeps the account while it observes pipelines on the model. Nodes and constants that nothing uses count as
// gone: a pass that leaves some behind saved them, not the pass that erases them.
class SavingsAccount : public Observer {
 public:
  // `before`: of the model.
  static std::unique_ptr<SavingsAccount> of(Model& m, const ModelCounts& before);

  // The model was cut to a part before the passes run.
  virtual void cut() = 0;
  // `after`: of the model, without the `nodes_added` by the writer (io/added_nodes.h).
  virtual Savings finish(const ModelCounts& after, size_t nodes_added) = 0;
};

}  // namespace sardonyx
