//   scaled_dot_product_attention(q, k, v, mask)    =>    concat over chunks c of q's rows: softmax(q[c] kᵀ / sqrt(E) + mask[c]) v
//
// The matrix of all rows by all columns is never in memory at once. For sequences of at least
// `min_seq_length`, known, and divided into `seq_length_divider` chunks. Ops in nested blocks stay, as in
// coremltools' pass of this name, which reads beyond the last row if there are fewer rows than chunks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

struct Limits {
  int64_t length, divider;
};

Limits limits(const PassContext& context) {
  const Limits l{context.options().number("min_seq_length", 1280), context.options().number("seq_length_divider", 16)};
  if (l.length < 0) throw Error(ErrorCode::kInvalidArgument, "option 'min_seq_length' must be 0 or more");
  if (l.divider < 1) throw Error(ErrorCode::kInvalidArgument, "option 'seq_length_divider' must be 1 or more");
  return l;
}

Value* slice(Rewriter& b, Value* x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
             const std::vector<bool>& to_end) {
  return b.slice_by_index(x, begin, end, {.end_mask = to_end});
}

Value* sliced(Rewriter& b, const Match& found) {
  PassContext& context = b.context();
  const Limits limit = limits(context);
  Node& attention = found.root();
  if (attention.graph()->parent() != nullptr) return nullptr;
  const ScaledDotProductAttention read(attention, context.facts);
  Value *q = read.query(), *k = read.key(), *v = read.value(), *mask = read.attn_mask();
  if (q == nullptr || k == nullptr || v == nullptr || !q->ranked() || !q->type()->is_static()) return nullptr;
  const std::vector<Dim> dims(q->type()->dims().begin(), q->type()->dims().end());
  const size_t rank = dims.size();
  const int64_t length = dims[rank - 2].value(), width = dims[rank - 1].value();
  if (length < limit.length) return nullptr;
  if (mask != nullptr && (!mask->ranked() || !mask->type()->is_static() || mask->type()->rank() < 2)) return nullptr;
  if (mask != nullptr && mask->type()->rank() > 2 && !mask->type()->dim(mask->type()->rank() - 2).is(1)) return nullptr;

  if (mask != nullptr && mask->dtype() == DType::kBool) {
    std::vector<int64_t> shape;
    for (Dim d : mask->type()->dims()) shape.push_back(d.value());
    Value* hidden = b.logical_not(mask);
    Value* zeros = b.constant(Tensor::full(q->dtype(), shape, 0));
    mask = b.select(hidden, -std::numeric_limits<double>::infinity(), zeros);
  }
  const bool one_row = mask != nullptr && mask->type()->dim(mask->type()->rank() - 2).is(1);
  std::vector<bool> to_end(rank, true);
  to_end[rank - 2] = false;
  Value* joined = nullptr;
  int64_t begin = 0;
  const int64_t chunks = std::min(limit.divider, length);
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t end = begin + length / chunks + (i < length % chunks ? 1 : 0);
    std::vector<int64_t> from(rank, 0), to;
    from[rank - 2] = begin;
    for (Dim d : dims) to.push_back(d.value());
    to[rank - 2] = end;
    Value* rows = slice(b, q, from, to, to_end);
    Value* scores = b.matmul(rows, k, {.transpose_x = false, .transpose_y = true});
    scores = b.mul(scores, std::pow(static_cast<double>(width), -0.5));
    if (mask != nullptr) {
      Value* part = one_row ? mask : slice(b, mask, {begin, 0}, {end, mask->type()->dim(1).value()}, {0, 1});
      scores = b.add(scores, part);
    }
    Value* weights = b.softmax(scores, {.axis = -1});
    Value* out = b.matmul(weights, v, {.transpose_x = false, .transpose_y = false});
    if (joined == nullptr) {
      joined = b.concat({out}, {.axis = -2, .interleave = false});
    } else {
      joined = b.concat({joined, out}, {.axis = -2, .interleave = false});
    }
    begin = end;
  }
  return joined;
}

}  // namespace

Pass scaled_dot_product_attention_sliced_q() {
  using namespace pattern;
  namespace m = pattern::mil;
  Pass pass(Rule{.numerics = Numerics::kRounds, .match = m::scaled_dot_product_attention(), .build = sliced});
  // Checks the options even if there is no attention.
  pass.graph_walk = [](Graph&, PassContext& context) {
    limits(context);
    return false;
  };
  return pass.option("min_seq_length", "divide attention with at least this many rows (1280)")
      .option("seq_length_divider", "number of chunks (16)");
}

}  // namespace sardonyx::mil
