// rev[dimensions] x   =>   Slice(x) from the last element with step -1
#include <limits>

#include "lower/kernels.h"

namespace sardonyx {

std::vector<Value*> lower_rev(Lowering& at) {
  auto axes = at.ints_param("dimensions");
  if (axes.empty()) return {at.in(0)};
  std::vector<int64_t> backwards(axes.size(), -1), ends(axes.size(), std::numeric_limits<int64_t>::min());
  OnnxBuilder& b = at.b;
  return {b.Slice(at.in(0), b.i64s(backwards), b.i64s(ends), b.i64s(axes), b.i64s(backwards))};
}

}  // namespace sardonyx
