// Names of nodes and values that users give in options.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "sardonyx/ir.h"

namespace sardonyx {

using Names = std::set<std::string, std::less<>>;

// The names in a comma-separated list that no node or value of the model has.
Names names_not_in(const Model& m, std::string_view list);

// Throws kInvalidArgument for a name in keep_f32, with the nearest one that the model has.
[[noreturn]] void refuse_kept(const std::string& name, const Model& m);

}  // namespace sardonyx
