// NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss.
//
//   loss[n] = -x[n, label[n]] * weight[label[n]]       0 where the label is `ignore_index`
#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {
namespace {

Value* loss_of(Lowering& ctx, Value* x) {
  MilBuilder& b = ctx.b;
  Value* labels = ctx.in(1);
  Value* counts = nullptr;
  if (ctx.node.attr("ignore_index") != nullptr) {
    counts = b.not_equal(labels, ctx.int_attr("ignore_index", 0));
    labels = b.select(counts, labels, 0);
  }
  Value* indices = b.expand_dims(labels, {.axes = {1}});
  Value* picked = ctx.squeeze(b.gather_along_axis(x, indices, {.axis = 1}), std::vector<int64_t>{1});
  Value* loss = b.mul(picked, ctx.like(picked, -1));
  Value* weight = ctx.has(2) ? b.gather(ctx.in(2), labels, {.axis = 0}) : nullptr;
  if (counts != nullptr) {
    Value* kept = b.cast(counts, {.dtype = loss->dtype()});
    weight = weight != nullptr ? b.mul(weight, kept) : kept;
  }
  if (weight != nullptr) loss = b.mul(loss, weight);
  const std::string reduction = ctx.string_attr("reduction", "mean");
  if (reduction == "none") return loss;
  const std::vector<int64_t> axes = iota(loss->type()->rank());
  if (reduction == "mean" && weight == nullptr) return b.reduce_mean(loss, {.axes = axes, .keep_dims = false});
  Value* sum = b.reduce_sum(loss, {.axes = axes, .keep_dims = false});
  if (reduction != "mean") return sum;
  return b.real_div(sum, b.reduce_sum(weight, {.axes = axes, .keep_dims = false}));
}

}  // namespace

std::vector<Value*> lower_NegativeLogLikelihoodLoss(Lowering& ctx) { return {loss_of(ctx, ctx.in(0))}; }

std::vector<Value*> lower_SoftmaxCrossEntropyLoss(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  Value* below = b.sub(x, b.reduce_max(x, {.axes = {1}, .keep_dims = true}));
  Value* sum = b.reduce_sum(b.exp(below), {.axes = {1}, .keep_dims = true});
  Value* logarithms = b.sub(below, b.log(sum, {.epsilon = ctx.like(x, 0)}));
  std::vector<Value*> results{loss_of(ctx, logarithms), logarithms};
  results.resize(ctx.node.num_results());
  return results;
}

}  // namespace sardonyx::onnx_to_mil
