// Products, recurrent layers, attention.
#include <fmt/format.h>

#include "dialects/mil/infer/rule_util.h"
#include "dialects/mil/infer/rules.h"

namespace sardonyx::mil::rules {

void linear(InferContext& c) {
  const Type *x = c.ranked(0), *weight = c.ranked(1);
  const DType dtype = dtype_of(c, 0);
  if (x == nullptr || weight == nullptr) return c.set_unranked(0, dtype);
  need_rank_at_least(c, 0, 1);
  need_rank(c, 1, 2);
  same_dim(c, x->dim(x->rank() - 1), weight->dim(1), "the last size of x and that of the weight");
  if (const size_t i = operand(c, "bias"); i != kNoSlot && c.ranked(i) != nullptr) {
    need_rank(c, i, 1);
    same_dim(c, weight->dim(0), c.ranked(i)->dim(0), "the rows of the weight and the size of the bias");
  }
  DimVec dims = dims_of(x);
  dims.back() = weight->dim(0);
  set_dims(c, dtype, dims);
}

void matmul(InferContext& c) {
  const Type *x = c.ranked(0), *y = c.ranked(1);
  DType dtype = dtype_of(c, 0);
  // From iOS 17 on, a constant operand may have another type; the other operand decides.
  if (c.constant(0) != nullptr && c.constant(1) == nullptr) dtype = dtype_of(c, 1);
  if (x == nullptr || y == nullptr) return c.set_unranked(0, dtype);
  need_rank_at_least(c, 0, 1);
  need_rank_at_least(c, 1, 2);
  DimVec a = dims_of(x), b = dims_of(y);
  const bool vector = a.size() == 1;
  if (param_bool(c, "transpose_x")) {
    if (vector) c.fail("a vector cannot be transposed");
    std::swap(a[a.size() - 1], a[a.size() - 2]);
  }
  if (param_bool(c, "transpose_y")) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (vector) a.insert(a.begin(), Dim::of(1));
  same_dim(c, a.back(), b[b.size() - 2], "the sizes that are summed over");
  DimVec dims = broadcast(c, std::span(a).first(a.size() - 2), std::span(b).first(b.size() - 2));
  if (!vector) dims.push_back(a[a.size() - 2]);
  dims.push_back(b.back());
  set_dims(c, dtype, dims);
}

// Two operands and one of two equations: "nchw,nwhr->nchr" or the same without n.
void einsum(InferContext& c) {
  const Range values = list(c, "values");
  if (values.last - values.first != 2) c.fail("takes two operands");
  const Type *x = c.ranked(values.first), *y = c.ranked(values.first + 1);
  const DType dtype = dtype_of(c, values.first);
  if (x == nullptr || y == nullptr) return c.set_unranked(0, dtype);
  if (x->rank() != y->rank() || x->rank() < 3 || x->rank() > 4) c.fail("the operands must have rank 3 or 4");
  const size_t r = x->rank();
  same_dim(c, x->dim(r - 1), y->dim(r - 3), "the sizes that are summed over");
  DimVec dims = dims_of(x);
  dims[r - 1] = y->dim(r - 1);
  const DimVec shared = broadcast(c, x->dims().subspan(r - 2, 1), y->dims().subspan(r - 2, 1));
  dims[r - 2] = shared[0];
  if (r == 4) dims[0] = broadcast(c, x->dims().first(1), y->dims().first(1))[0];
  set_dims(c, dtype, dims);
}

namespace {

// x is [time, batch, features].
void recurrent(InferContext& c, size_t hidden_axis, size_t states, int64_t directions) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  const size_t slot = operand(c, hidden_axis == 0 ? "weight_ih" : "weight_hh");
  const Type* weight = slot == kNoSlot ? nullptr : c.ranked(slot);
  for (size_t i = 0; i <= states; ++i) {
    if (x == nullptr || weight == nullptr) c.set_unranked(i, dtype);
  }
  if (x == nullptr || weight == nullptr) return;
  need_rank(c, 0, 3);
  need_rank(c, slot, 2);
  const Dim hidden = mul(c, weight->dim(hidden_axis), Dim::of(directions));
  set_dims(c, dtype, DimVec{param_bool(c, "output_sequence") ? x->dim(0) : Dim::of(1), x->dim(1), hidden});
  for (size_t i = 1; i <= states; ++i) set_dims(c, dtype, DimVec{x->dim(1), hidden}, i);
}

}  // namespace

void gru(InferContext& c) { recurrent(c, 1, 1, 1); }
void rnn(InferContext& c) { recurrent(c, 0, 1, 1); }
void lstm(InferContext& c) { recurrent(c, 1, 2, param_string(c, "direction") == "bidirectional" ? 2 : 1); }

void attention(InferContext& c) {
  const Type *query = c.ranked(0), *key = c.ranked(1), *value = c.ranked(2);
  const DType dtype = dtype_of(c, 0);
  if (query == nullptr || value == nullptr) return c.set_unranked(0, dtype);
  if (query->rank() < 3 || value->rank() != query->rank()) c.fail("query, key and value must have the same rank, 3 or more");
  if (key != nullptr && key->rank() == query->rank())
    same_dim(c, query->dim(query->rank() - 1), key->dim(key->rank() - 1), "the last sizes of query and key");
  DimVec dims = dims_of(query);
  dims.back() = value->dim(value->rank() - 1);
  set_dims(c, dtype, dims);
}

}  // namespace sardonyx::mil::rules
