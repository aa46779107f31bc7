// Names of operators and attributes that the tables do not have: a typing error in a plugin makes a node that no runtime loads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

struct Misspelling {
  std::string text;                // "Elu-22 has no attribute 'alhpa'"
  std::vector<std::string> notes;  // what was likely meant, and where
};

// Null for what the standard has in the model's opset, for calls of the model's functions, and for domains outside of the standard, whose
// operators need not be in a table.
std::optional<Misspelling> misspelling(const Node& n);
// The first in a graph or in bodies within it, of the nodes behind `after` where that is not null.
std::optional<Misspelling> misspelling(const Graph& g, const Node* after = nullptr);

// Throws Error(kInvalidModel) with the first one in the model.
void check_spelling(const Model& m);

struct UnknownAttr {
  std::string text;             // "Elu-22 has no attribute 'alhpa'"
  std::string_view meant = {};  // may be empty
};
// Null for an attribute that the operator has, and for operators without a table.
std::optional<UnknownAttr> unknown_attr(const Op& op, std::string_view name);

}  // namespace sardonyx
