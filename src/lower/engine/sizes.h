// Sizes at run time.
#pragma once

#include "sardonyx/ir.h"

namespace sardonyx::lower {

// Computes symbolic sizes from values that have them. A pair of dialects says how it spells each step.
class SizeWriter {
 public:
  virtual ~SizeWriter() = default;
  // The size as a value; null if no value has it and it cannot be computed from sizes that have one.
  Value* write(Dims& dims, Dim d);

 protected:
  virtual Value* constant(int64_t n) = 0;
  // A value that was written before, or what reads d from a tensor; else null.
  virtual Value* known(Dim d) = 0;
  // One step of the expression `whole`, whose parts are given: x is the first operand or the result of the
  // step before, y the next operand. Null if the target cannot compute it.
  virtual Value* combine(Dim whole, const Dims::Parts& parts, Value* x, Value* y) = 0;
  virtual void keep(Dim /*d*/, Value* /*v*/) {}  // v has been written for the expression d
};

}  // namespace sardonyx::lower
