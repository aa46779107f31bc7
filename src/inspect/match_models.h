// Which nodes of two models are the same: by what they compute, by name, by origin, and by their neighbors.
#pragma once

#include "sardonyx/inspect.h"

namespace sardonyx {

// In time linear in both models, but for sorting the order of matched nodes. Inputs and constants match by
// name, by position and by value.
ModelMatch match_models(const Model& before, const Model& after);

// Whether two constants have the same elements, as far as that is known without computing them.
bool is_same_constant(const Value& v, const Value& w);

}  // namespace sardonyx
