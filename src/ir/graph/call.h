// Finds the function that a node calls.
#pragma once

#include <string_view>

#include "sardonyx/ir.h"

namespace sardonyx {

// Distinguishes functions of one name; empty for most.
inline std::string_view overload_of(const Node& n) {
  return n.extra() != nullptr ? std::string_view(n.extra()->overload) : std::string_view();
}

// Null if n is no call: its operator is known, or no function of the model has its name.
inline Function* called_function(const Node& n) {
  return n.op().known ? nullptr : n.model().find_function(n.op().domain, n.op().name, overload_of(n));
}

}  // namespace sardonyx
