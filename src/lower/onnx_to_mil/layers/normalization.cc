// Normalizations: Core ML's own ops if gamma and beta are constants of the right shape, else arithmetic.
#include <fmt/format.h>

#include <algorithm>

#include "lower/onnx_to_mil/layers/layers.h"

namespace sardonyx::onnx_to_mil {
namespace {

// A per-channel vector reshaped to broadcast to x: [C, 1, 1].
Value* per_channel(Lowering& ctx, Value* v, size_t rank_of_x) {
  return rank_of_x <= 2 ? v : ctx.unsqueeze(v, iota(rank_of_x - 2, 1));
}

Value* scaled(Lowering& ctx, Value* x, Value* gamma, Value* beta) {
  if (gamma != nullptr) x = ctx.b.mul(x, gamma);
  return beta != nullptr ? ctx.b.add(x, beta) : x;
}

bool is_constant(const Value* v) { return v != nullptr && v->is_constant(); }

// In training mode: normalizes by the moments of the batch, and updates the running moments.
std::vector<Value*> trained(Lowering& ctx, double epsilon) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  const size_t rank = ctx.rank(0);
  std::vector<int64_t> axes = iota(rank);
  if (rank > 1) axes.erase(axes.begin() + 1);
  Value* mean = b.reduce_mean(x, {.axes = axes, .keep_dims = true});
  Value* centered = b.sub(x, mean);
  Value* variance = b.reduce_mean(b.mul(centered, centered), {.axes = axes, .keep_dims = true});
  Value* unit = b.mul(centered, b.rsqrt(variance, {.epsilon = ctx.like(x, epsilon)}));
  Value* gamma = per_channel(ctx, ctx.in(1), rank);
  std::vector<Value*> results{scaled(ctx, unit, gamma, per_channel(ctx, ctx.in(2), rank))};
  const double momentum = ctx.float_attr("momentum", 0.9);
  for (size_t i : {1, 2}) {
    if (!ctx.is_used(i)) continue;
    Value* before = ctx.in(i + 2);
    Value* now = ctx.cast(ctx.squeeze(i == 1 ? mean : variance, axes), before->dtype());
    results.resize(i + 1);
    Value* kept = b.mul(before, ctx.like(before, momentum));
    results[i] = b.add(kept, b.mul(now, ctx.like(now, 1 - momentum)));
  }
  results.resize(ctx.node.num_results());
  return results;
}

}  // namespace

std::vector<Value*> lower_BatchNormalization(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value *x = ctx.in(0), *gamma = ctx.in(1), *beta = ctx.in(2), *mean = ctx.in(3), *variance = ctx.in(4);
  const double epsilon = ctx.float_attr("epsilon", 1e-5);
  const size_t rank = ctx.rank(0);
  if (ctx.int_attr("training_mode", 0) != 0) return trained(ctx, epsilon);
  const bool constants = is_constant(gamma) && is_constant(beta) && is_constant(mean) && is_constant(variance);
  const bool one_type =
      std::ranges::all_of(std::vector<Value*>{gamma, beta, mean, variance}, [&](Value* v) { return v->dtype() == x->dtype(); });
  if (constants && one_type && rank >= 2 && rank <= 5) {
    if (rank == 2) x = ctx.unsqueeze(x, std::vector<int64_t>{2});
    x = b.batch_norm(x, {.beta = beta, .epsilon = ctx.like(x, epsilon), .gamma = gamma, .mean = mean, .variance = variance});
    return {rank == 2 ? ctx.squeeze(x, std::vector<int64_t>{2}) : x};
  }
  const DType own = x->dtype();
  x = ctx.cast(x, mean->dtype());
  Value* factor = b.rsqrt(variance, {.epsilon = ctx.like(variance, epsilon)});
  Value* centered = b.sub(x, per_channel(ctx, mean, rank));
  factor = b.mul(factor, ctx.cast(gamma, mean->dtype()));
  Value* y = scaled(ctx, centered, per_channel(ctx, factor, rank), per_channel(ctx, ctx.cast(beta, mean->dtype()), rank));
  return {ctx.cast(y, own)};
}

// Reshapes the groups to rows and normalizes them with layer_norm.
std::vector<Value*> lower_GroupNormalization(Lowering& ctx) {
  Value* x = ctx.in(0);
  const auto dims = ctx.in_dims(0);
  const int64_t groups = ctx.int_attr("num_groups", 1);
  if (ctx.node.op().since_version < 21) ctx.unsupported("group normalization of an opset before 21");
  const std::vector<Dim> rows{dims[0], Dim::of(groups), ctx.dims().product(dims.subspan(1))};
  std::vector<Dim> shape{rows[0], rows[1], rows[2].is_int() ? Dim::of(rows[2].value() / groups) : Dim()};
  Value* y = ctx.reshape(x, shape);
  y = ctx.b.layer_norm(y, {.axes = {2}, .epsilon = ctx.like(x, ctx.float_attr("epsilon", 1e-5))});
  y = ctx.reshape(y, dims);
  Value *gamma = per_channel(ctx, ctx.in(1), dims.size()), *beta = per_channel(ctx, ctx.in(2), dims.size());
  return {scaled(ctx, y, gamma, beta)};
}

std::vector<Value*> lower_InstanceNormalization(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value *x = ctx.in(0), *gamma = ctx.in(1), *beta = ctx.in(2);
  const double epsilon = ctx.float_attr("epsilon", 1e-5);
  const size_t rank = ctx.rank(0);
  if (is_constant(gamma) && is_constant(beta) && (rank == 3 || rank == 4))
    return {b.instance_norm(x, {.beta = beta, .epsilon = ctx.like(x, epsilon), .gamma = gamma})};
  Value* y = b.layer_norm(x, {.axes = iota(rank - 2, 2), .epsilon = ctx.like(x, epsilon)});
  return {scaled(ctx, y, per_channel(ctx, gamma, rank), per_channel(ctx, beta, rank))};
}

Value* layer_norm(Lowering& ctx, Value* x, Value* gamma, Value* beta, size_t first, double epsilon) {
  MilBuilder& b = ctx.b;
  const std::vector<int64_t> axes = iota(x->type()->rank() - first, as_int(first));
  // Core ML's gamma and beta have the shape of the normalized axes.
  const auto rows = x->type()->dims().subspan(first);
  const auto fits = [&](Value* v) {
    return is_constant(v) && v->dtype() == x->dtype() &&
           std::ranges::equal(v->type()->dims(), rows, [](Dim p, Dim q) { return p == q; });
  };
  if (fits(gamma) && (beta == nullptr || fits(beta)))
    return b.layer_norm(x, {.axes = axes, .beta = beta, .epsilon = ctx.like(x, epsilon), .gamma = gamma});
  return scaled(ctx, b.layer_norm(x, {.axes = axes, .epsilon = ctx.like(x, epsilon)}), gamma, beta);
}

std::vector<Value*> lower_LayerNormalization(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  const size_t rank = ctx.rank(0), first = from_front(ctx.int_attr("axis", -1), rank);
  const double epsilon = ctx.float_attr("epsilon", 1e-5);
  std::vector<Value*> results{layer_norm(ctx, x, ctx.in(1), ctx.in_or_null(2), first, epsilon), nullptr, nullptr};
  if (ctx.is_used(1) || ctx.is_used(2)) {
    const std::vector<int64_t> axes = iota(rank - first, as_int(first));
    results[1] = b.reduce_mean(x, {.axes = axes, .keep_dims = true});
    Value* centered = b.sub(x, results[1]);
    Value* variance = b.reduce_mean(b.mul(centered, centered), {.axes = axes, .keep_dims = true});
    results[2] = b.rsqrt(variance, {.epsilon = ctx.like(x, epsilon)});
  }
  results.resize(ctx.node.num_results());
  return results;
}

std::vector<Value*> lower_LpNormalization(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  const std::vector<int64_t> axes{as_int(from_front(ctx.int_attr("axis", -1), ctx.rank(0)))};
  Value* norm = ctx.int_attr("p", 2) == 1 ? b.reduce_l1_norm(x, {.axes = axes, .keep_dims = true})
                                          : b.reduce_l2_norm(x, {.axes = axes, .keep_dims = true});
  // Zero vectors stay zero.
  Value* below = b.select(b.equal(norm, ctx.like(x, 0)), ctx.like(x, 1), norm);
  return {b.real_div(x, below)};
}

Value* inverse_rms(Lowering& ctx, Value* x, size_t first, double epsilon) {
  MilBuilder& b = ctx.b;
  Value* mean = b.reduce_mean(b.mul(x, x), {.axes = iota(x->type()->rank() - first, as_int(first)), .keep_dims = true});
  return b.rsqrt(mean, {.epsilon = ctx.like(x, epsilon)});
}

// onnxruntime's SimplifiedLayerNormalization has the factor as a second result.
std::vector<Value*> lower_RMSNormalization(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  Value* factor = inverse_rms(ctx, x, from_front(ctx.int_attr("axis", -1), ctx.rank(0)), ctx.float_attr("epsilon", 1e-5));
  Value* y = b.mul(x, factor);
  std::vector<Value*> results{ctx.cast(b.mul(y, ctx.cast(ctx.in(1), y->dtype())), stored_dtype(ctx.out_dtype()))};
  if (ctx.is_used(1)) results.push_back(factor);
  results.resize(ctx.node.num_results());
  return results;
}

}  // namespace sardonyx::onnx_to_mil
