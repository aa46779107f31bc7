// The known name that somebody who wrote another one likely meant.
#pragma once

#include <span>
#include <string_view>

namespace sardonyx {

// Insertions, deletions and substitutions that make b of a.
size_t edit_distance(std::string_view a, std::string_view b);
// The nearest of `known` that shares at least half of its letters with `wanted`; empty when there is none.
std::string_view nearest(std::string_view wanted, std::span<const std::string_view> known);

}  // namespace sardonyx
