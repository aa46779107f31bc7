// Finds unknown names of operators and attributes: a typing error in a plugin makes a node that no runtime
// loads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

struct Misspelling {
  std::string text;                // "Elu-22 has no attribute 'alhpa'"
  std::vector<std::string> notes;  // the likely intended name, and the location
};

// Null if the standard has the operator and attributes in the model's opset, for calls of the model's
// functions, and for domains outside the standard, which have no tables.
std::optional<Misspelling> misspelling(const Node& n);
// The first one in a graph or its bodies; with `after`, only among the nodes that follow it.
std::optional<Misspelling> misspelling(const Graph& g, const Node* after = nullptr);

// Throws Error(kInvalidModel) with the first one in the model.
void check_spelling(const Model& m);

struct UnknownAttr {
  std::string text;             // "Elu-22 has no attribute 'alhpa'"
  std::string_view meant = {};  // may be empty
};
// Null if the operator has the attribute, or has no table.
std::optional<UnknownAttr> unknown_attr(const Op& op, std::string_view name);

}  // namespace sardonyx
