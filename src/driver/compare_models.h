// Whether two models compute the same, found by evaluating both on seeded inputs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/ir.h"
#include "sardonyx/passes.h"

namespace sardonyx {

struct ModelComparison {
  size_t runs = 0;                        // evaluations that were compared
  std::optional<std::string> difference;  // what differs, on which inputs
  std::string skipped;                    // why nothing was compared
  // The runtime that loads the model before, by its table of kernels, and what keeps it from loading the one after.
  std::string runtime;
  std::vector<std::string> load_problems;
};

// Inputs are paired by place; `after` may lack some of the inputs of `before`. Infers the types of both. Throws kInvalidArgument when the
// signatures do not fit each other. `target` names the runtime that is to load both, the newest if empty; a model before that it
// does not load for certain leaves the one after free.
ModelComparison compare_models(Model& before, Model& after, Numerics numerics, std::string_view target = {});

}  // namespace sardonyx
