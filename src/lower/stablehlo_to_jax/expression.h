// A small body as a text, to recognize it by.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sardonyx/ir.h"

namespace sardonyx::stablehlo_to_jax {

// What computes v, as "select(or(GT(a,b),NE(a,a)),a,b)": a comparison is named for its direction, in total
// order with a "t" ("LTt"), and names[i] is the i-th letter. A constant is its number, "nan", or "?". Texts
// of more than 1000 characters end with "..".
std::string expression(const Value& v, std::span<const Value* const> names, std::string_view letters);

}  // namespace sardonyx::stablehlo_to_jax
