// CopyBudget: a bound on what sharing in a file can make of a model.
#pragma once

#include <cstdint>

#include "sardonyx/error.h"

namespace sardonyx::mlir {

// A module shares attributes, a model has a copy at each use: lists of lists of one list would grow without a
// bound. Weights are rough counts of parts, of about 50 bytes each.
class CopyBudget {
 public:
  explicit CopyBudget(uint64_t file_bytes) : limit_((uint64_t{1} << 18) + 8 * file_bytes) {}

  void spend(uint64_t weight) {
    spent_ += weight;
    if (spent_ > limit_)
      throw Error(ErrorCode::kLimit, "the attributes of the module are too large when each use has its own copy");
  }
  uint64_t spent() const { return spent_; }

 private:
  uint64_t limit_;
  uint64_t spent_ = 0;
};

}  // namespace sardonyx::mlir
