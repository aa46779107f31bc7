// What a newer opset would give.
#pragma once

#include <cstddef>
#include <optional>

#include "sardonyx/convert.h"

namespace sardonyx {

// Optimizes a copy of `original` in opset 23, and says what that gives over `nodes`; nullopt where it gives nothing.
std::optional<OpsetHint> opset_hint(const Model& original, const PassRequest& request, size_t nodes);

}  // namespace sardonyx
