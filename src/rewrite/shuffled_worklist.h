// For tests: applies rules in an order that users never see, because what a rule claims must hold in any
// order.
#pragma once

#include "support/shuffled.h"
#include "support/thread_scoped.h"

namespace sardonyx {

// While it lives, the worklist of this thread takes nodes and rules in an order drawn from the seed instead
// of graph order and list order. The result may look different but must be equivalent.
struct ShuffledWorklist : Shuffled, ThreadScoped<ShuffledWorklist> {
  using Shuffled::Shuffled;
};

}  // namespace sardonyx
