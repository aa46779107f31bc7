// The steps of an optimization as a picture.
#pragma once

#include "driver/optimize.h"
#include "view/picture.h"

namespace sardonyx::view {

// Optimizes `m` and adds its state after each step that changed it. The steps are named by the passes that did
// something.
OptimizeReport trace(Model& m, const OptimizeOptions& options, Picture& to);

}  // namespace sardonyx::view
