// Sizes at run time.
#pragma once

#include "sardonyx/ir.h"

namespace sardonyx::lower {

// Writes nodes that compute symbolic sizes from values that hold them. Each pair of dialects supplies the
// steps.
class SizeWriter {
 public:
  virtual ~SizeWriter() = default;
  // The size as a value; null if it cannot be computed from the sizes that values hold.
  Value* write(Dims& dims, Dim d);

 protected:
  virtual Value* constant(int64_t n) = 0;
  // A value already written for d, or one that reads d from a tensor; else null.
  virtual Value* known(Dim d) = 0;
  // Writes one step of the expression `whole`, whose parts are `parts`: x is the first operand or the result
  // of the previous step, y the next operand. Null if the target cannot compute it.
  virtual Value* combine(Dim whole, const Dims::Parts& parts, Value* x, Value* y) = 0;
  virtual void keep(Dim /*d*/, Value* /*v*/) {}  // v has been written for the expression d
};

}  // namespace sardonyx::lower
