// What the rules of fuse_attention share.
#pragma once

#include <functional>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// The node that makes v, if it is this operator of ONNX's own domain in the same graph and nobody else reads v; else null.
Node* made_by(const Value* v, const Graph* graph, std::string_view op);
// The Softmax whose probabilities p v is: p itself, or Where(IsNaN(p), 0, p). Null if anything else reads what stands between.
Node* softmax_of(const Value* v, const Graph* graph, PassContext& c);
// A mask without additions of axes and expansions of "true" that it passes through.
Value* bare_mask(Value* v, PassContext& c);
// v is a product of matrices of the same graph that was at most scaled and seen in another shape.
bool comes_from_product(const Value* v, const Graph* graph);
// v times a number, or divided by one; nothing broadcasts v.
struct Scaled {
  Value* value;
  double by;
};
std::optional<Scaled> scaled(const Node& n, PassContext& c);
// What Where puts where its condition does not hold, if that vanishes in a softmax: -1e4 or less.
std::optional<double> vanishing_fill(const Node& where, PassContext& c);
// Attention takes the root of its scale, and holds it in f32.
bool can_be_scale(double scale, DType t);

// Whether a condition [..., query, key] of as many queries as keys holds where query position >= key position, both counted from the same
// start (fuse_attention_causal.cc).
bool is_causal(Value* condition, PassContext& c);
// Of a mask that is added: the value whose last two axes tell queries and keys apart, if it adds 0 where a query may see a key and
// -1e4 or less to what comes later; else null.
const Value* causes_of(Value* mask, PassContext& c);

// What masks the scores: numbers that are added, or the condition where Where keeps them, and what it puts instead.
struct AttentionMask {
  Value* value = nullptr;
  std::optional<double> fill;
  bool guarded = false;  // zeros stand where probabilities are NaN

  // The numbers that Attention adds; `placed` puts the axes of the mask in place.
  Value* added(Rewriter& b, const std::function<Value*(Value*)>& placed) const;
  // What Attention gave, with the guard behind it where rows may see nothing: kernels give zeros or NaN there.
  Value* guard(Rewriter& b, Value* y) const;
};
// A row that sees nothing stays the mean over all keys, or NaN, in every release; else says why not (fuse_attention_masks.cc).
bool keeps_blind_rows(const Match& m, const AttentionMask& mask);
// Each axis of the mask provably is one, or the axis of the scores that it meets.
bool meets_axes(const Match& m, const Value* mask, const Value* scores);
// The mask with an axis of all queries of q, [.., queries, size].
Value* with_queries(Rewriter& b, Value* mask, Value* q);
// Attention of f32 is computed by a kernel, in the model's opset; others are slower than single operators.
bool has_kernel(const Match& m);

// Where(constant condition, ...)  =>  the same with a condition that is not repeated.
Rule mask_that_repeats();

// Queries in groups that share keys, with an axis of their own: five axes between the products (fuse_attention_groups.cc).
Rule attention_of_groups();

}  // namespace sardonyx::onnx
