// Random graphs for rules. They are grown from a rule's pattern, or varied from a graph on which the rule
// fires by changing its sizes, dtypes, constants and attributes.
#pragma once

#include <memory>

#include "random/dice.h"
#include "rewrite/pass.h"

namespace sardonyx::fuzz {

// A model whose graph has a node that the pattern describes. Whatever the pattern leaves open is drawn as in
// random graphs (generator.h). Returns null when the attempt fails because types do not fit.
std::unique_ptr<Model> grow(const Rule& rule, Dice& dice);

// Returns the graph with other sizes, dtypes, constants and attributes; null when that is not a valid graph.
// Does not support graphs with bodies or calls.
std::unique_ptr<Model> vary(const Model& seed, Dice& dice);

}  // namespace sardonyx::fuzz
