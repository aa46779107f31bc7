// How a summary is shown: units, and modules added up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/inspect.h"

namespace sardonyx {

// "1.2 MB"
std::string human_bytes(uint64_t bytes);

// "4.1 GFLOP", "12 FLOP"
std::string human_count(double n, std::string_view unit);

// The modules added up such that at most `most` are left: paths are cut at the deepest level that allows it.
std::vector<ModelSummary::Module> folded(const std::vector<ModelSummary::Module>& modules, size_t most);

}  // namespace sardonyx
