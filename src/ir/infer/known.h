// What is known of a node before it runs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/infer.h"

namespace sardonyx {

// The node's attribute, else the operator's default. nullopt if there is neither, or if the attribute is of
// another kind (including a reference to an attribute of the function).
std::optional<int64_t> int_attr(const Node& n, std::string_view name);
std::optional<double> float_attr(const Node& n, std::string_view name);
std::optional<std::string> string_attr(const Node& n, std::string_view name);
std::optional<std::vector<int64_t>> ints_attr(const Node& n, std::string_view name);

// The axis counted from the front; nullopt if it is out of range, or negative and the rank is unknown.
std::optional<int64_t> from_front(int64_t axis, std::optional<size_t> rank);
// The same for a list of axes; nullopt if there is no list, or if one of them cannot be counted so.
std::optional<std::vector<int64_t>> from_front(std::optional<std::vector<int64_t>> axes, std::optional<size_t> rank);

// Whether the axes are 0 to n - 1 in some order.
bool is_permutation(std::span<const int64_t> axes);

// The elements of v: of a constant of integers, or as inference knows them. `facts` may be null.
std::optional<std::vector<int64_t>> known_ints(const Value* v, const ValueFacts* facts);

}  // namespace sardonyx
