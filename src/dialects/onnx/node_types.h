// The element types of a node, by the type variables of its operator.
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

// The types of a node's operands and results, by the type variables of `op`, a version of its operator.
// Leaves out heterogeneous operands, which each have their own type (those of If, Loop and Scan).
TypesByVariable types_by_variable(const Node& n, const Op& op);
// The heterogeneous ones: each variable with each of its types.
std::set<std::pair<std::string_view, DType>> own_types_of(const Node& n);

// "f32, i64"
std::string to_string(const TypesByVariable& types);

// The slot that describes result `i`; the last slot describes all further ones.
const Slot* result_slot(const Op& op, size_t i);

}  // namespace sardonyx::onnx
