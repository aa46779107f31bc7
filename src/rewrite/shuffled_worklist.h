// For tests: rules that fire in another order than users see, for what a rule claims must hold in any.
#pragma once

#include "support/shuffled.h"
#include "support/thread_scoped.h"

namespace sardonyx {

// While it lives, the worklist of this thread takes nodes and rules in an order drawn from the seed instead of that of the graph and of the
// lists. What passes leave may then look different, and is worth the same.
struct ShuffledWorklist : Shuffled, ThreadScoped<ShuffledWorklist> {
  using Shuffled::Shuffled;
};

}  // namespace sardonyx
