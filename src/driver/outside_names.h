// Names of a model's tensors that something besides its nodes refers to: training information and quantization annotations, which passes
// do not look at.
#pragma once

#include <memory>

#include "sardonyx/ir.h"

namespace sardonyx {

// Made before passes run; restore() afterwards gives these names their meaning again.
//   - A constant that training information names is a variable of training: it is an input while passes run, so that nothing is folded into or
//     out of it, and an initializer again afterwards. A node's result that it names keeps its name.
//   - A quantization annotation stays with its tensor, and keeps the tensors of its parameters; it goes where the tensor has gone, or
//     has other elements now.
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
