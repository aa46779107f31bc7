// Shared by the rules of fuse_attention.
#pragma once

#include <functional>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// The producer of v, if it is this operator of the default ONNX domain in `graph` and v has no other user;
// else null.
Node* made_by(const Value* v, const Graph* graph, std::string_view op);
// The Softmax whose probabilities v holds: either its result or Where(IsNaN(p), 0, p). Null if a value
// between has another user.
Node* softmax_of(const Value* v, const Graph* graph, PassContext& c);
// The mask below views that add axes and below expansions by Where(true, ...).
Value* bare_mask(Value* v, PassContext& c);
// Whether v is a matrix product of the same graph that was at most scaled and reshaped.
bool comes_from_product(const Value* v, const Graph* graph);
// v multiplied or divided by a number; nothing broadcasts v.
struct Scaled {
  Value* value;
  double by;
};
std::optional<Scaled> scaled(const Node& n, PassContext& c);
// The number that Where puts in place of masked scores, if softmax turns it into zero: -1e4 or less.
std::optional<double> vanishing_fill(const Node& where, PassContext& c);
// Whether Attention can use this scale: kernels take its square root and hold it in f32.
bool can_be_scale(double scale, DType t);

// Whether a condition [..., query, key] with as many queries as keys is true exactly where query position >=
// key position, both counted from the same start (fuse_attention_causal.cc).
bool is_causal(Value* condition, PassContext& c);
// For an additive mask that adds 0 up to the query's position and -1e4 or less to later keys: the value whose
// last two axes are queries and keys. Else null.
const Value* causes_of(Value* mask, PassContext& c);

// The mask of the scores: numbers to add, or the condition of a Where that keeps scores, with the fill for
// the others.
struct AttentionMask {
  Value* value = nullptr;
  std::optional<double> fill;
  bool guarded = false;  // NaN probabilities become zeros

  // The mask as numbers that Attention adds. `placed` puts the mask's axes in order.
  Value* added(Rewriter& b, const std::function<Value*(Value*)>& placed) const;
  // Adds the guard to the result of Attention if rows may be fully masked: for those, kernels give zeros or
  // NaN.
  Value* guard(Rewriter& b, Value* y) const;
};
// Whether a fully masked row stays the mean over all keys, or NaN, in every release; reports a near miss if
// not (fuse_attention_masks.cc).
bool keeps_blind_rows(const Match& m, const AttentionMask& mask);
// Whether each axis of the mask provably has size one or the size of the scores' axis.
bool meets_axes(const Match& m, const Value* mask, const Value* scores);
// The mask with an axis for all queries of q: [.., queries, size].
Value* with_queries(Rewriter& b, Value* mask, Value* q);
// Whether onnxruntime has a fast Attention kernel: f32, in the model's opset. Otherwise single operators are
// faster.
bool has_kernel(const Match& m);

// Where(constant condition, ...)  =>  the same without the repetitions in the condition.
Rule mask_that_repeats();

// Attention of grouped queries that have an axis for their groups: five axes between the products
// (fuse_attention_groups.cc).
Rule attention_of_groups();

}  // namespace sardonyx::onnx
