// What a newer opset would give.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sardonyx/ir.h"
#include "sardonyx/passes.h"

namespace sardonyx {

struct OpsetHint {
  int opset = 0;                       // the oldest one with the operators
  size_t nodes = 0;                    // that the model would have
  std::vector<std::string> operators;  // that only it has
};

// Optimizes a copy of `original` in opset 23, and returns what that saves; nullopt if the copy has `nodes` nodes or more.
std::optional<OpsetHint> opset_hint(const Model& original, const PassRequest& request, size_t nodes);

}  // namespace sardonyx
