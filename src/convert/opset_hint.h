// What a newer opset would give.
#pragma once

#include <cstddef>
#include <optional>

#include "sardonyx/convert.h"

namespace sardonyx {

// Optimizes a copy of `original` in opset 23, and returns what that saves; nullopt if the copy has `nodes`
// nodes or more.
std::optional<OpsetHint> opset_hint(const Model& original, const PassRequest& request, size_t nodes);

}  // namespace sardonyx
