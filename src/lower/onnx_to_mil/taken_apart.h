// Operators that Core ML has no op for.
#pragma once

#include <string_view>
#include <vector>

namespace sardonyx {

// Their lowerings write plain arithmetic for this specification version, so no fusion should make them.
std::vector<std::string_view> taken_apart_for_mil(int version);

}  // namespace sardonyx
