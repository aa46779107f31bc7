// Element types of a node, by the type variables of its operator.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "sardonyx/ir.h"
#include "sardonyx/op.h"

namespace sardonyx::onnx {

using TypesByVariable = std::map<std::string_view, DType>;

// The types of a node's operands and results, by the variables of `op`, some version of its operator. Operands that
// each have a type of their own (those of If, Loop and Scan) are left out.
TypesByVariable types_by_variable(const Node& n, const Op& op);
// Those that were left out: each variable with each of its types.
std::set<std::pair<std::string_view, DType>> own_types_of(const Node& n);

// "f32, i64"
std::string to_string(const TypesByVariable& types);

// The slot that describes result `i`; the last one describes all that follow.
const Slot* result_slot(const Op& op, size_t i);

}  // namespace sardonyx::onnx
