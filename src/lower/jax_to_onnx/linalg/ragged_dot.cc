// ragged_dot_general[ragged_dot_dimension_numbers] x y group_sizes
//
// Groups cut one axis of x into consecutive parts of the given sizes; elements after the last group belong to
// none. That axis may be
//   neither contracted nor batch   each group has its own matrix: the sum over groups of
//                                  (x, zero outside of the group) y[group]
//   contracted                     a product per group, over its elements; groups become a leading batch axis
//   batch                          the sizes have no effect
#include <algorithm>

#include "lower/jax_to_onnx/linalg/dot_general.h"
#include "lower/jax_to_onnx/params.h"

namespace sardonyx::jax_to_onnx {
namespace {

using Axes = std::vector<int64_t>;

bool has(const Axes& axes, int64_t a) { return std::ranges::find(axes, a) != axes.end(); }

Axes behind_one(Axes axes) {
  for (int64_t& a : axes) ++a;
  return axes;
}

// The axes of `all` before `axis`.
Axes before(const Axes& all, int64_t axis) { return {all.begin(), std::ranges::find(all, axis)}; }

// Adds a leading group axis to x: zero if the position along `ragged` lies outside the group. `sizes` has the
// axes of x in `prefix`, or none of them, and then an axis of groups.
Value* by_group(Lowering& ctx, Value* x, int64_t ragged, Value* sizes, const Axes& prefix) {
  OnnxBuilder& b = ctx.b;
  auto x_dims = x->type()->dims();
  auto last = static_cast<int64_t>(sizes->type()->rank()) - 1;
  sizes = ctx.cast(sizes, DType::kI64);
  Value* ends = b.CumSum(sizes, b.i64(last));
  Value* starts = b.Sub(ends, sizes);
  // [group, axes of x]; size 1 for axes on which the sizes do not depend.
  std::vector<Dim> dims{sizes->type()->dims().back()};
  Axes perm{last};
  for (size_t a = 0; a < x_dims.size(); ++a) {
    auto found = std::ranges::find(prefix, static_cast<int64_t>(a));
    bool depends = last > 0 && found != prefix.end();
    dims.push_back(depends ? x_dims[a] : Dim::of(1));
    if (depends) perm.push_back(found - prefix.begin());
  }
  auto placed = [&](Value* v) { return ctx.reshape(ctx.transpose(v, perm), dims); };
  std::vector<Dim> along(x_dims.size(), Dim::of(1));
  along[static_cast<size_t>(ragged)] = x_dims[static_cast<size_t>(ragged)];
  Value* position = ctx.reshape(ctx.iota(DType::kI64, x_dims[static_cast<size_t>(ragged)]), along);
  Value* inside = b.And(b.LessOrEqual(placed(starts), position), b.Less(position, placed(ends)));
  return ctx.select(inside, ctx.unsqueeze(x, Axes{0}), b.scalar(x->dtype(), 0));
}

}  // namespace

std::vector<Value*> lower_ragged_dot_general(Lowering& ctx) {
  auto inputs = ctx.operands();
  if (inputs.size() != 3) ctx.unsupported("group offsets");
  Value *x = inputs[0], *y = inputs[1], *sizes = inputs[2];
  const Attr& numbers = ctx.param("ragged_dot_dimension_numbers");
  DotAxes axes = DotAxes::of(ctx, field_of(ctx, numbers, "dot_dimension_numbers"));
  int64_t ragged = ints_field(ctx, numbers, "lhs_ragged_dimensions").at(0);
  DType out = ctx.out_dtype();

  Value* result = nullptr;
  if (has(axes.lhs_batch, ragged)) {
    result = dot_general(ctx, axes, x, y, out);
  } else if (has(axes.lhs_contract, ragged)) {
    auto place = std::ranges::find(axes.lhs_contract, ragged) - axes.lhs_contract.begin();
    int64_t y_ragged = axes.rhs_contract[static_cast<size_t>(place)];
    auto prefix = [&](const Axes& batch, const Axes& contract, int64_t axis) {
      Axes all = batch;
      for (int64_t a : before(contract, axis)) all.push_back(a);
      return all;
    };
    x = by_group(ctx, x, ragged, sizes, prefix(axes.lhs_batch, axes.lhs_contract, ragged));
    y = by_group(ctx, y, y_ragged, sizes, prefix(axes.rhs_batch, axes.rhs_contract, y_ragged));
    for (Axes* a : {&axes.lhs_contract, &axes.rhs_contract, &axes.lhs_batch, &axes.rhs_batch}) *a = behind_one(*a);
    axes.lhs_batch.insert(axes.lhs_batch.begin(), 0);
    axes.rhs_batch.insert(axes.rhs_batch.begin(), 0);
    result = dot_general(ctx, axes, x, y, out);
  } else {
    Axes prefix = axes.lhs_batch;
    for (int64_t a = 0; a < ragged; ++a) {
      if (!has(axes.lhs_batch, a) && !has(axes.lhs_contract, a)) prefix.push_back(a);
    }
    x = by_group(ctx, x, ragged, sizes, prefix);
    axes.lhs_contract = behind_one(axes.lhs_contract);
    axes.lhs_batch = behind_one(axes.lhs_batch);
    axes.lhs_contract.push_back(0);
    axes.rhs_contract.push_back(ints_field(ctx, numbers, "rhs_group_dimensions").at(0));
    result = dot_general(ctx, axes, x, y, out);
  }
  return {ctx.reshape(result, ctx.out_dims())};
}

// scaled_matmul a b a_scale b_scale   =>   (a * a_scale) (b * b_scale)'
//
// a is [batch, m, k], b is [batch, n, k]; each run of elements along k has one scale.
std::vector<Value*> lower_scaled_matmul(Lowering& ctx) {
  if (ctx.b.opset() < 24 && ctx.in_dtype(2) == DType::kF8E8M0)
    ctx.unsupported("ONNX converts scales of type f8e8m0 from opset 24 on");
  auto scaled = [&](size_t i) {
    Value *x = ctx.cast(ctx.in(i), DType::kF32), *scale = ctx.cast(ctx.in(i + 2), DType::kF32);
    auto dims = x->type()->dims(), runs = scale->type()->dims();
    if (!dims[2].is_int() || !runs[2].is_int() || dims[2].value() % runs[2].value() != 0)
      ctx.unsupported("the size of the contracted axis is not a multiple of the number of scales");
    std::vector<Dim> split(runs.begin(), runs.end());
    split.push_back(Dim::of(dims[2].value() / runs[2].value()));
    std::vector<Dim> whole(dims.begin(), dims.end());
    return ctx.reshape(ctx.b.Mul(ctx.reshape(x, split), ctx.unsqueeze(scale, std::vector<int64_t>{3})), whole);
  };
  DotAxes axes{.lhs_contract = {2}, .rhs_contract = {2}, .lhs_batch = {0}, .rhs_batch = {0}};
  return {ctx.cast(dot_general(ctx, axes, scaled(0), scaled(1), DType::kF32), ctx.out_dtype())};
}

}  // namespace sardonyx::jax_to_onnx
