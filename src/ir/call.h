// Which function of its model a node calls.
#pragma once

#include <string_view>

#include "sardonyx/ir.h"

namespace sardonyx {

// Tells functions of one name apart; empty for most.
inline std::string_view overload_of(const Node& n) {
  return n.extra() != nullptr ? std::string_view(n.extra()->overload) : std::string_view();
}

// Null when it calls none: its operator is known, or nobody knows it.
inline Function* called_function(const Node& n) {
  return n.op().known ? nullptr : n.model().find_function(n.op().domain, n.op().name, overload_of(n));
}

}  // namespace sardonyx
