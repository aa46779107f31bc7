// Whether two models compute the same, found by evaluating both on seeded inputs.
#pragma once

#include <optional>
#include <string>

#include "sardonyx/ir.h"
#include "sardonyx/passes.h"

namespace sardonyx {

struct ModelComparison {
  size_t runs = 0;                        // evaluations that were compared
  std::optional<std::string> difference;  // what differs, on which inputs
  std::string skipped;                    // why nothing was compared
};

// Inputs are paired by place; `after` may lack some of the inputs of `before`. Infers the types of both. Throws kInvalidArgument when the
// signatures do not fit each other.
ModelComparison compare_models(Model& before, Model& after, Numerics numerics);

}  // namespace sardonyx
