// Names of tensors that parts of a model besides its nodes refer to: training information and quantization
// annotations, which passes do not see.
#pragma once

#include <memory>

#include "sardonyx/ir.h"

namespace sardonyx {

// Construct it before passes run; afterwards restore() gives these names their meaning again.
//   - A constant that training information names is a training variable. While passes run it is an input, so
//     that nothing is folded into it or out of it; afterwards it is an initializer again. A node's result that
//     training information names keeps its name.
//   - A quantization annotation stays with its tensor and keeps the tensors of its parameters. It is removed if
//     the tensor is gone or has other elements.
class OutsideNames {
 public:
  explicit OutsideNames(Model& m);
  ~OutsideNames();
  OutsideNames(const OutsideNames&) = delete;
  OutsideNames& operator=(const OutsideNames&) = delete;

  void restore();

 private:
  struct State;
  std::unique_ptr<State> state_;  // null: nothing refers to names
};

}  // namespace sardonyx
