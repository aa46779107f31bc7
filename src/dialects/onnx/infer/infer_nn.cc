// Normalization, losses and attention.
#include <algorithm>

#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {
namespace {

Dim dim_or_unknown(const Type* t, size_t axis) { return t && axis < t->rank() ? t->dim(axis) : Dim(); }

}  // namespace

void batch_norm(InferContext& c) {
  set_same(c);
  const Type* x = c.ranked(0);
  const Type* mean = c.ranked(3);
  Dim channels = x && x->rank() > 1 ? x->dim(1) : Dim();
  for (size_t i = 1; i <= 4; ++i) {
    need_rank(c, i, 1);
    if (const Type* t = c.ranked(i); t != nullptr && x != nullptr && x->rank() > 1) {
      channels = same_dim(c, channels, t->dim(0), "the channels of X and its parameters");
    } else if (t != nullptr) {
      channels = same_dim(c, channels, t->dim(0), "the sizes of the parameters");
    }
  }
  // The statistics have the dtype of the running statistics given as operands.
  for (size_t i = 1; i < c.num_results(); ++i) {
    const DType dtype = c.op().since_version >= 14 ? dtype_of(c, 3) : dtype_of(c, 0);
    if (dtype != DType::kUndefined && (mean != nullptr || !channels.is_anonymous())) c.set(i, dtype, DimVec{channels});
  }
}

void instance_norm(InferContext& c) {
  set_same(c);
  need_rank_at_least(c, 0, 2);
  const Type* x = c.ranked(0);
  for (size_t i = 1; i <= 2; ++i) {
    need_rank(c, i, 1);
    if (x != nullptr && c.ranked(i) != nullptr) same_dim(c, x->dim(1), c.ranked(i)->dim(0), "the channels of the operands");
  }
}

void group_norm(InferContext& c) {
  set_same(c);
  need_rank_at_least(c, 0, 2);
}

void layer_norm(InferContext& c) {
  set_same(c);
  const Type* x = c.ranked(0);
  const auto number = c.attr_int("stash_type", 1);
  const DType stash = dtype_attr(c, number, "stash_type");
  if (x == nullptr) {
    c.set_unranked(1, stash);
    c.set_unranked(2, stash);
    return;
  }
  if (x->rank() == 0) return;
  const size_t axis = normal_axis(c, c.attr_int("axis", -1), x->rank());
  if (c.num_results() < 2) return;
  DimVec dims = dims_of(x);
  for (size_t i = axis; i < dims.size(); ++i) dims[i] = Dim::of(1);
  c.set(1, stash, dims);
  c.set(2, stash, dims);
}

void softmax_cross_entropy(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  const std::string reduction = c.attr_string("reduction").value_or("mean");
  if (c.op().name == "SoftmaxCrossEntropyLoss") set_same(c, 0, 1);
  if (x != nullptr) need_rank_at_least(c, 0, 2);
  if (const Type* target = c.ranked(1); x != nullptr && target != nullptr) {
    if (target->rank() + 1 != x->rank()) c.fail(fmt::format("scores are {}, labels {}", c.show(x), c.show(target)));
    same_dim(c, x->dim(0), target->dim(0), "the batch sizes of scores and labels");
    for (size_t i = 1; i < target->rank(); ++i) same_dim(c, x->dim(i + 1), target->dim(i), "the dims of scores and labels");
  }
  if (const Type* weight = c.ranked(2)) {
    if (weight->rank() != 1) c.fail("weights must have rank 1");
  }
  if (dtype == DType::kUndefined) return;
  if (reduction != "none") {
    c.set(0, c.types().scalar(dtype));
  } else if (const Type* target = c.ranked(1)) {
    c.set(0, dtype, target->dims());
  } else if (x != nullptr) {
    DimVec dims{x->dim(0)};
    dims.insert(dims.end(), x->dims().begin() + 2, x->dims().end());
    c.set(0, dtype, dims);
  } else {
    c.set_unranked(0, dtype);
  }
}

// Q, K and V have heads as an axis (rank 4), or folded into the last one (rank 3).
void attention(InferContext& c) {
  const DType q_type = dtype_of(c, 0), v_type = dtype_of(c, 2) == DType::kUndefined ? q_type : dtype_of(c, 2);
  const Type *q = c.ranked(0), *k = c.ranked(1), *v = c.ranked(2);
  for (const Type* t : {q, k, v}) {
    if (t != nullptr && t->rank() != 3 && t->rank() != 4)
      c.fail(fmt::format("Q, K and V must have rank 3 or 4: {}", c.show(t)));
  }
  const auto heads = [&](std::string_view name) {
    const auto n = c.attr_int(name);
    if (n && *n < 1) c.fail(fmt::format("attribute '{}' is {}", name, *n));
    return n;
  };
  const auto q_heads = heads("q_num_heads"), kv_heads = heads("kv_num_heads");
  struct Parts {
    Dim batch, heads, length, size;
  };
  const auto parts = [&](const Type* t, std::optional<int64_t> count) -> Parts {
    if (t == nullptr) return {};
    if (t->rank() == 4) return {t->dim(0), t->dim(1), t->dim(2), t->dim(3)};
    if (!count) c.fail("Q, K and V of rank 3 need q_num_heads and kv_num_heads");
    const Dim whole = t->dim(2);
    if (whole.is_int() && whole.value() % *count != 0)
      c.fail(fmt::format("{} does not divide into {} heads", whole.value(), *count));
    return {t->dim(0), Dim::of(*count), t->dim(1), whole.is_unknown() ? Dim() : floordiv(c, whole, *count)};
  };
  const Parts pq = parts(q, q_heads), pk = parts(k, kv_heads), pv = parts(v, kv_heads);
  if (q != nullptr && k != nullptr) {
    same_dim(c, pq.batch, pk.batch, "the batch sizes of Q and K");
    same_dim(c, pq.size, pk.size, "the head sizes of Q and K");
    if (pq.heads.is_int() && pk.heads.is_int() && (pk.heads.value() == 0 || pq.heads.value() % pk.heads.value() != 0)) {
      c.fail(fmt::format("{} heads of Q do not share {} heads of K", pq.heads.value(), pk.heads.value()));
    }
  }
  if (k != nullptr && v != nullptr) same_dim(c, pk.length, pv.length, "the lengths of K and V");
  if (q_type != DType::kUndefined) {
    if (q != nullptr && q->rank() == 4) {
      c.set(0, q_type, DimVec{pq.batch, pq.heads, pq.length, pv.size});
    } else if (q != nullptr) {
      // v_hidden / kv_heads * q_heads: each K/V head serves equally many query heads.
      Dim hidden = mul(c, pv.size, pq.heads);
      if (v != nullptr && v->rank() == 3 && q_heads && kv_heads && *q_heads % *kv_heads == 0) {
        hidden = mul(c, v->dim(2), *q_heads / *kv_heads);
      }
      c.set(0, q_type, DimVec{pq.batch, pq.length, hidden});
    } else {
      c.set_unranked(0, q_type);
    }
  }
  const Type *past_key = c.ranked(4), *past_value = c.ranked(5);
  const bool has_past = c.has_input(4) || c.has_input(5);
  Dim total = pk.length;
  if (has_past) {
    const Dim past = past_key ? dim_or_unknown(past_key, 2) : dim_or_unknown(past_value, 2);
    total = past.is_anonymous() ? Dim() : add(c, past, pk.length);
  }
  if (q != nullptr && k != nullptr && v != nullptr) {
    const Dim batch = same_dim(c, pq.batch, pk.batch, "the batch sizes of Q and K");
    c.set(1, q_type, DimVec{batch, pk.heads, total, pk.size});
    c.set(2, v_type, DimVec{batch, pv.heads, total, pv.size});
    c.set(3, q_type, DimVec{pq.batch, pq.heads, pq.length, total});
  }
}

void flex_attention(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  for (size_t i = 0; i < 3; ++i) need_rank(c, i, 4);
  const Type *q = c.ranked(0), *k = c.ranked(1), *v = c.ranked(2);
  if (dtype == DType::kUndefined) return;
  c.set(0, dtype, DimVec{dim_or_unknown(q, 0), dim_or_unknown(q, 1), dim_or_unknown(q, 2), dim_or_unknown(v, 3)});
  const auto number = c.attr_int("softmax_precision");
  const DType inside = number ? dtype_attr(c, *number, "softmax_precision") : dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Type* scores = c.types().freshen(
      c.types().tensor(inside, DimVec{dim_or_unknown(q, 0), dim_or_unknown(q, 1), dim_or_unknown(q, 2), dim_or_unknown(k, 2)}));
  for (const Body& body : c.node().bodies()) c.infer_body(*body.graph, std::span<const Type* const>(&scores, 1));
}

void linear_attention(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  for (size_t i = 0; i < 3; ++i) need_rank(c, i, 3);
  const Type *q = c.ranked(0), *k = c.ranked(1), *v = c.ranked(2), *past = c.ranked(3);
  const auto q_heads = c.attr_int("q_num_heads"), kv_heads = c.attr_int("kv_num_heads");
  if (!q_heads || !kv_heads || *q_heads < 1 || *kv_heads < 1) c.fail("q_num_heads and kv_num_heads must be positive");
  const auto per_head = [&](const Type* t, int64_t heads) {
    if (t == nullptr || t->dim(2).is_unknown()) return Dim();
    if (t->dim(2).is_int() && t->dim(2).value() % heads != 0)
      c.fail(fmt::format("{} does not divide into {} heads", c.show(t), heads));
    return floordiv(c, t->dim(2), heads);
  };
  const Dim d_v = per_head(v, *kv_heads), d_k = k ? per_head(k, *kv_heads) : per_head(q, *q_heads);
  const Dim batch = q ? q->dim(0) : k ? k->dim(0) : dim_or_unknown(v, 0);
  Dim hidden = mul(c, d_v, *q_heads);
  if (v != nullptr && *q_heads % *kv_heads == 0) hidden = mul(c, v->dim(2), *q_heads / *kv_heads);
  if (dtype != DType::kUndefined) c.set(0, dtype, DimVec{batch, q ? q->dim(1) : Dim(), hidden});
  const DType state = dtype_of(c, 3) != DType::kUndefined ? dtype_of(c, 3) : c.has_input(3) ? DType::kUndefined : dtype;
  if (state == DType::kUndefined) return;
  DimVec dims{batch, Dim::of(*kv_heads), d_k, d_v};
  if (past != nullptr) dims = same_dims(c, dims, past->dims(), "the shapes of past and present state");
  c.set(1, state, dims);
}

void causal_conv(InferContext& c) {
  set_same(c);
  for (size_t i = 0; i < 2; ++i) need_rank(c, i, 3);
  const DType dtype = dtype_of(c, 0);
  const Type *x = c.ranked(0), *w = c.ranked(1), *past = c.ranked(3);
  if (dtype == DType::kUndefined) return;
  DimVec dims{dim_or_unknown(x, 0), x ? x->dim(1) : dim_or_unknown(w, 0),
              w && !w->dim(2).is_unknown() ? sub(c, w->dim(2), 1) : Dim()};
  if (past != nullptr) dims = same_dims(c, dims, past->dims(), "the shapes of past and present state");
  c.set(1, dtype, dims);
}

}  // namespace sardonyx::onnx::rules
