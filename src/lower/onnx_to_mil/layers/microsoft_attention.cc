// onnxruntime's attention: Attention, which projects its operand itself, MultiHeadAttention and
// RotaryEmbedding.
//
//   softmax(q k' * scale + hidden keys + attention_bias) v
//
// mask_filter_value is added to the scores of a masked key, and the lowest number to those of a key after the
// query. A query whose keys are all masked still attends to them.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "lower/onnx_to_mil/layers/layers.h"

namespace sardonyx::onnx_to_mil {
namespace {

Dim dim(const Value* v, size_t axis) { return v->type()->dim(axis); }

// 0 where `seen`, else the number. Core ML's select needs one branch with the condition's shape.
Value* zero_where(Lowering& ctx, Value* seen, DType d, double otherwise) {
  MilBuilder& b = ctx.b;
  return b.select(seen, b.mul(b.cast(seen, {.dtype = d}), b.scalar(d, 0)), b.scalar(d, otherwise));
}

// The bias for the scores that masks the keys by operand i, [batch, 1, queries or 1, keys].
//   [batch, keys], [batch, queries, keys]: 1 for a key to attend to
//   [batch]: the number of keys to attend to
Value* hidden_by(Lowering& ctx, size_t i, Value* keys) {
  MilBuilder& b = ctx.b;
  Value* m = ctx.in(i);
  Value* seen = nullptr;
  if (ctx.rank(i) == 2 || ctx.rank(i) == 3) {
    if (dim(m, ctx.rank(i) - 1) != dim(keys, 2) && dim(m, ctx.rank(i) - 1).is_int() && dim(keys, 2).is_int())
      ctx.unsupported("a mask that does not have one number for each key");
    seen = b.expand_dims(b.greater(m, 0), {.axes = ctx.rank(i) == 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1}});
  } else if (ctx.rank(i) == 1 && dim(m, 0) == dim(keys, 0)) {
    seen = b.less(counted(ctx, keys, 2), b.expand_dims(m, {.axes = {1, 2, 3}}));
  } else {
    ctx.unsupported(fmt::format("a mask of type {}; expected one of a number for each key, or of lengths",
                                ctx.types().to_string(m->type())));
  }
  return zero_where(ctx, seen, keys->dtype(), ctx.float_attr("mask_filter_value", -10000));
}

struct Operands {
  Value *q, *k, *v;        // of the new positions: [batch, heads, length, size]
  Value *past_k, *past_v;  // of earlier ones, or null
  size_t mask, bias;       // operands of the node, if it has them
};

struct Attended {
  Value *y, *k, *v;  // [batch, length, heads * size]; all keys and values
};

Attended attention(Lowering& ctx, Operands o) {
  MilBuilder& b = ctx.b;
  if (ctx.int_attr("past_present_share_buffer", 0) != 0)
    ctx.unsupported("a past in a buffer of maximum size (past_present_share_buffer)");
  Value* q = o.q;
  const Dim size = dim(q, 3);
  if (!size.is_int()) ctx.unsupported("heads whose size is not known");
  if (o.past_k != nullptr) {
    o.k = b.concat({o.past_k, o.k}, {.axis = 2, .interleave = false});
    o.v = b.concat({o.past_v, o.v}, {.axis = 2, .interleave = false});
  }
  Value* added = nullptr;
  const auto add = [&](Value* v) { added = added == nullptr ? v : b.add(added, v); };
  if (ctx.has(o.mask)) add(hidden_by(ctx, o.mask, o.k));
  if (ctx.int_attr("unidirectional", 0) != 0) {
    Value* position = b.expand_dims(counted(ctx, q, 2), {.axes = {1}});
    if (o.past_k != nullptr) position = b.add(position, b.squeeze(ctx.size_of(o.past_k, 2), {.axes = {0}}));
    add(zero_where(ctx, b.less_equal(counted(ctx, o.k, 2), position), q->dtype(), std::numeric_limits<float>::lowest()));
  }
  if (ctx.has(o.bias)) add(ctx.in(o.bias));
  double scale = ctx.float_attr("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(size.value()));
  return {joined_heads(ctx, attend(ctx, q, o.k, o.v, scale, added)), o.k, o.v};
}

// Part `at` of `count` along axis 0, without that axis.
Value* part(Lowering& ctx, Value* x, int64_t at) {
  const size_t rank = x->type()->rank();
  std::vector<int64_t> begin(rank), end(rank);
  std::vector<bool> all(rank, true), gone(rank, false);
  begin[0] = at;
  end[0] = at + 1;
  all[0] = false;
  gone[0] = true;
  return ctx.b.slice_by_index(x, begin, end, {.begin_mask = all, .end_mask = all, .squeeze_mask = gone});
}

}  // namespace

// The weights of queries, keys and values are concatenated. Past and present each hold keys and values in one
// tensor.
std::vector<Value*> lower_PackedAttention(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  if (ctx.int_attr("do_rotary", 0) != 0) ctx.unsupported("attention with a rotary embedding of queries and keys (do_rotary)");
  const int64_t heads = ctx.int_attr("num_heads", 0);
  const Dim all = ctx.in_dims(1)[1];
  if (!all.is_int()) ctx.unsupported("a projection of open size");
  const auto widths = ctx.ints_attr("qkv_hidden_sizes", 3, all.value() / 3);
  Value* x = product(ctx, ctx.in(0), ctx.in(1));
  if (ctx.has(2)) x = b.add(x, ctx.in(2));
  Node& parts = b.split(x, 3, {.axis = -1, .split_sizes = widths});
  const auto head = [&](size_t i) { return split_heads(ctx, parts.result(i), heads); };
  Operands o{.q = head(0), .k = head(1), .v = head(2), .past_k = nullptr, .past_v = nullptr, .mask = 3, .bias = 5};
  if (ctx.has(4)) {
    o.past_k = part(ctx, ctx.in(4), 0);
    o.past_v = part(ctx, ctx.in(4), 1);
  }
  const Attended found = attention(ctx, o);
  std::vector<Value*> results{found.y};
  if (ctx.is_used(1)) results.push_back(b.stack({found.k, found.v}, {.axis = 0}));
  results.resize(ctx.node.num_results());
  return results;
}

std::vector<Value*> lower_MultiHeadAttention(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const int64_t heads = ctx.int_attr("num_heads", 0);
  if (!ctx.has(1) || !ctx.has(2) || ctx.rank(0) != 3 || ctx.rank(1) == 5)
    ctx.unsupported("queries, keys and values packed in one tensor");
  if (ctx.has(8) || ctx.has(9)) ctx.unsupported("a past of which parts count (past_sequence_length, cache_indirection)");
  if (ctx.is_used(3)) ctx.unsupported("the scores as a result");
  // The bias is one vector for all three.
  std::vector<Value*> biases(3);
  if (ctx.has(3)) {
    const auto width = [&](size_t i) {
      const Dim d = ctx.rank(i) == 3 ? ctx.in_dims(i)[2] : Dim();
      if (!d.is_int()) ctx.unsupported("a bias for operands of open size, or for keys and values that are split into heads");
      return d.value();
    };
    Node& parts = b.split(ctx.in(3), 3, {.axis = 0, .split_sizes = {width(0), width(1), width(2)}});
    for (size_t i = 0; i < 3; ++i) biases[i] = parts.result(i);
  }
  const auto head = [&](size_t i) {
    Value* x = ctx.in(i);
    if (biases[i] != nullptr) x = b.add(x, biases[i]);
    return ctx.rank(i) == 4 ? x : split_heads(ctx, x, heads);
  };
  const Attended found = attention(ctx, {.q = head(0),
                                         .k = head(1),
                                         .v = head(2),
                                         .past_k = ctx.in_or_null(6),
                                         .past_v = ctx.in_or_null(7),
                                         .mask = 4,
                                         .bias = 5});
  std::vector<Value*> results{found.y, found.k, found.v};
  results.resize(ctx.node.num_results());
  return results;
}

// Position ids are given for each token, or for the first token.
std::vector<Value*> lower_CachedRotaryEmbedding(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  if (ctx.int_attr("is_packed_batching", 0) != 0)
    ctx.unsupported("sequences of several lengths packed in one (is_packed_batching)");
  if (ctx.float_attr("scale", 1) != 1) ctx.unsupported("positions that are scaled");
  const Dim half = ctx.in_dims(2)[1];
  if (!half.is_int()) ctx.unsupported("angles of open size");
  const int64_t rotary = 2 * half.value();
  Value* x = ctx.in(0);
  const bool flat = ctx.rank(0) == 3;
  if (flat) {
    int64_t heads = ctx.int_attr("num_heads", 0);
    if (ctx.int_attr("rotary_embedding_dim", 0) == 0) {
      const Dim whole = ctx.in_dims(0)[2];
      if (!whole.is_int()) ctx.unsupported("heads whose size is not known");
      heads = whole.value() / rotary;
    }
    x = split_heads(ctx, x, heads);
  }
  if (!dim(x, 3).is_int()) ctx.unsupported("heads whose size is not known");
  Value* positions = ctx.in(1);
  if (ctx.rank(1) == 1) positions = b.expand_dims(b.add(counted(ctx, x, 2), positions), {.axes = {0}});
  const auto angles = [&](size_t i) { return b.expand_dims(b.gather(ctx.in(i), positions, {.axis = 0}), {.axes = {1}}); };
  Value* cosines = angles(2);
  Value* y = rotated(ctx, x, cosines, angles(3), rotary, ctx.int_attr("interleaved", 0) != 0);
  return {flat ? joined_heads(ctx, y) : y};
}

}  // namespace sardonyx::onnx_to_mil
