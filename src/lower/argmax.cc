// argmax[axes, index_dtype] x, argmin   =>   Cast(ArgMax<axis, keepdims = 0>(x))
//
// The first of equals wins in both. In JAX a NaN wins over all numbers: it travels as the infinity on the winning side. (A NaN behind an
// infinity of that sign is the one case where the positions differ.)
#include "lower/reduction.h"

namespace sardonyx {
namespace {

std::vector<Value*> index_of(Lowering& at, std::string_view op, double winner) {
  auto axes = at.ints_param("axes");
  if (axes.size() != 1) at.unsupported("one axis at a time");
  Value* x = operands(at)[0];
  if (x->dtype() == DType::kU64) x = to_ordered_i64(at, x);
  DType wide = kernel_dtype({op}, x->dtype());
  x = at.cast(x, wide);
  if (is_float(wide)) x = at.b.Where(at.b.IsNaN(x), like(at, x, winner), x);
  Value* index = at.b.op(op, {x}, {attr("axis", axes[0]), attr("keepdims", 0)});
  return {at.cast(index, at.out_dtype())};
}

}  // namespace

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
std::vector<Value*> lower_argmax(Lowering& at) { return index_of(at, "ArgMax", kInfinity); }
std::vector<Value*> lower_argmin(Lowering& at) { return index_of(at, "ArgMin", -kInfinity); }

}  // namespace sardonyx
