// Finds the known name that a user most likely meant.
#pragma once

#include <span>
#include <string_view>

namespace sardonyx {

// The number of insertions, deletions and substitutions that turn a into b.
size_t edit_distance(std::string_view a, std::string_view b);
// The nearest of `known` that shares at least half of its letters with `wanted`; empty if there is none.
std::string_view nearest(std::string_view wanted, std::span<const std::string_view> known);

}  // namespace sardonyx
