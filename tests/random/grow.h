// Random graphs for rules: grown from a rule's pattern, or made of a graph on which the rule fires by
// changing its sizes, types, constants and attributes.
#pragma once

#include <memory>

#include "random/dice.h"
#include "rewrite/pass.h"

namespace sardonyx::fuzz {

// A model whose graph has a node that the pattern describes. What the pattern leaves open is drawn as in
// random graphs (generator.h). Null when this try came to nothing: types that do not fit.
std::unique_ptr<Model> grow(const Rule& rule, Dice& dice);

// The graph with other sizes, element types, constants and attributes; null when that makes no graph. Graphs
// with bodies and calls are not for this.
std::unique_ptr<Model> vary(const Model& seed, Dice& dice);

}  // namespace sardonyx::fuzz
