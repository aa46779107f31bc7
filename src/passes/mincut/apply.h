// Moves the variables of a region.
#pragma once

#include "passes/mincut/region.h"

namespace sardonyx::layout {

// Rebuilds the nodes that move, and gives each use of a root the layout that it wants. The region is used up.
void apply(Region& r, Operators& operators);

}  // namespace sardonyx::layout
