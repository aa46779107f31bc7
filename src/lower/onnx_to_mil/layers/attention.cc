// Attention.
//
//   softmax(q k' * scale, capped and masked) v
//
// From iOS 18 on, attention without a cap becomes scaled_dot_product_attention. Its scale is always
// 1 / sqrt(size of a head), so the queries are multiplied if the node has another scale. For a query that may
// attend to no key, ONNX returns zeros, where softmax would return NaN.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lower/onnx_to_mil/control/counted_loop.h"
#include "lower/onnx_to_mil/layers/layers.h"

namespace sardonyx::onnx_to_mil {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// [batch, length, heads * size]   =>   [batch, length, heads, size]
Value* by_head(Lowering& ctx, Value* x, int64_t heads) {
  const auto dims = x->type()->dims();
  const auto size = heads > 0 ? ctx.dims().divide_exactly(dims[2], Dim::of(heads)) : std::nullopt;
  if (!size) ctx.unsupported("heads whose size is not known");
  return ctx.reshape(x, std::vector<Dim>{dims[0], dims[1], Dim::of(heads), *size});
}

}  // namespace

Value* split_heads(Lowering& ctx, Value* x, int64_t heads) {
  return ctx.transpose(by_head(ctx, x, heads), std::vector<int64_t>{0, 2, 1, 3});
}

Value* joined_heads(Lowering& ctx, Value* x) {
  x = ctx.transpose(x, std::vector<int64_t>{0, 2, 1, 3});
  const auto dims = x->type()->dims();
  return ctx.reshape(x, std::vector<Dim>{dims[0], dims[1], ctx.dims().product(dims.subspan(2))});
}

Value* counted(Lowering& ctx, Value* x, size_t axis) {
  const Dim n = x->type()->dim(axis);
  if (!n.is_int()) return ctx.b.range_1d(ctx.b.squeeze(ctx.size_of(x, axis), {.axes = {0}}), 0, 1);
  return ctx.b.i32s(iota(static_cast<size_t>(n.value())));
}

Value* attend(Lowering& ctx, Value* q, Value* k, Value* v, double scale, Value* mask) {
  constexpr int kIos18 = 9;
  MilBuilder& b = ctx.b;
  const Dim size = q->type()->dim(q->type()->rank() - 1);
  if (ctx.version() >= kIos18 && size.is_int()) {
    const double own = 1 / std::sqrt(static_cast<double>(size.value()));
    // Attributes are f32, and a scale may have been computed as a product of square roots.
    if (std::abs(scale / own - 1) > 1e-6) q = b.mul(q, scale / own);
    if (mask == nullptr) return b.scaled_dot_product_attention(q, k, v);
    if (mask->type()->rank() == 1) mask = b.expand_dims(mask, {.axes = {0}});
    return b.scaled_dot_product_attention(q, k, v, {.attn_mask = mask});
  }
  Value* scores = b.matmul(b.mul(q, scale), k, {.transpose_x = false, .transpose_y = true});
  if (mask != nullptr && mask->dtype() == DType::kBool) scores = b.select(mask, scores, ctx.like(scores, kHidden));
  if (mask != nullptr && mask->dtype() != DType::kBool) scores = b.add(scores, ctx.cast(mask, scores->dtype()));
  return b.matmul(b.softmax(scores, {.axis = -1}), v, {.transpose_x = false, .transpose_y = false});
}

namespace {

// Repeats each head `times` times: several heads of queries share one head of keys.
Value* repeated(Lowering& ctx, Value* x, int64_t times) {
  const auto dims = x->type()->dims();
  Value* wide = ctx.b.tile(ctx.b.expand_dims(x, {.axes = {2}}), {1, 1, times, 1, 1});
  return ctx.reshape(wide, std::vector<Dim>{dims[0], Dim::of(dims[1].value() * times), dims[2], dims[3]});
}

// Keys or values with as many heads as the queries.
Value* for_each_head(Lowering& ctx, Value* x, Dim own) {
  const Dim shared = x->type()->dim(1);
  if (own == shared) return x;
  if (!own.is_int() || !shared.is_int() || shared.value() == 0 || own.value() % shared.value() != 0)
    ctx.unsupported("numbers of heads that are open");
  return repeated(ctx, x, own.value() / shared.value());
}

double scale_of(Lowering& ctx, const Value* q) {
  if (ctx.node.attr("scale") != nullptr) return ctx.float_attr("scale", 1);
  const Dim size = q->type()->dim(q->type()->rank() - 1);
  if (!size.is_int()) ctx.unsupported("heads whose size is not known");
  return 1 / std::sqrt(static_cast<double>(size.value()));
}

class Attention {
 public:
  explicit Attention(Lowering& ctx) : ctx_(ctx), b_(ctx.b), flat_(ctx.rank(0) == 3) {
    const auto heads = [&](size_t i, std::string_view attr) {
      return flat_ ? split_heads(ctx, ctx.in(i), ctx.int_attr(attr, 0)) : ctx.in(i);
    };
    q_ = heads(0, "q_num_heads");
    k_ = heads(1, "kv_num_heads");
    v_ = heads(2, "kv_num_heads");
    if (!ctx.takes("matmul", q_->dtype())) ctx.unsupported(fmt::format("Core ML's matmul takes no {}", to_string(q_->dtype())));
    const bool cached = ctx.has(4);
    if (cached) {
      k_ = b_.concat({ctx.in(4), k_}, {.axis = 2, .interleave = false});
      v_ = b_.concat({ctx.in(5), v_}, {.axis = 2, .interleave = false});
    }
    all_keys_ = k_;
    all_values_ = v_;
    k_ = for_each_head(ctx, k_, dim(q_, 1));
    v_ = for_each_head(ctx, v_, dim(q_, 1));
    hide();
  }

  std::vector<Value*> results() {
    Value* shown = nullptr;
    const bool flat = is_plain() && is_flat();
    if (flat) q_ = ctx_.in(0), k_ = ctx_.in(1), v_ = ctx_.in(2);
    Value* y = is_plain() ? fused() : spelled(shown);
    if (flat_ && !flat) y = joined_heads(ctx_, y);
    std::vector<Value*> all{y, all_keys_, all_values_, shown};
    all.resize(ctx_.node.num_results());
    return all;
  }

 private:
  static Dim dim(const Value* v, size_t axis) { return v->type()->dim(axis); }

  // The mask; one that ends before the last key is padded to mask the remaining keys.
  Value* mask() {
    Value* m = ctx_.in(3);
    const Dim found = dim(m, m->type()->rank() - 1), wanted = dim(k_, 2);
    if (!found.is_int() || !wanted.is_int() || found == wanted || found.is(1)) return m;
    std::vector<int64_t> shape;
    for (Dim d : m->type()->dims()) {
      if (!d.is_int()) ctx_.unsupported("a mask of open size that ends before the last key");
      shape.push_back(d.value());
    }
    const auto last = as_int(shape.size()) - 1;
    shape.back() = wanted.value() - found.value();
    if (m->dtype() != DType::kBool)
      return b_.concat({m, b_.full(m->dtype(), shape, kHidden)}, {.axis = last, .interleave = false});
    Value* wide =
        b_.concat({b_.cast(m, {.dtype = DType::kI32}), b_.full(DType::kI32, shape, 0)}, {.axis = last, .interleave = false});
    return b_.not_equal(wide, 0);
  }

  void see(Value* which) { seen_ = seen_ == nullptr ? which : b_.logical_and(seen_, which); }

  // Combines masks, causality, windows and the lengths of padded keys into `seen_`, `bias_` and
  // `may_be_blind_`.
  void hide() {
    if (ctx_.has(3)) {
      Value* m = mask();
      (m->dtype() == DType::kBool ? seen_ : bias_) = m;
      may_be_blind_ = !m->is_constant() || is_blind(*m);
    }
    const bool causal = ctx_.int_attr("is_causal", 0) != 0;
    const int64_t left = ctx_.int_attr("left_window_size", -1), right = ctx_.int_attr("right_window_size", -1);
    const bool padded = ctx_.has(6);
    if (!causal && left < 0 && right < 0 && !padded) return;
    Value* lengths = padded ? b_.expand_dims(ctx_.in(6), {.axes = {1, 2, 3}}) : nullptr;  // [batch, 1, 1, 1]
    Value* keys = counted(ctx_, k_, 2);
    if (padded) see(b_.less(keys, lengths));
    if (causal || left >= 0 || right >= 0) {
      Value* position = b_.expand_dims(counted(ctx_, q_, 2), {.axes = {1}});
      if (padded) {
        Value* first = b_.sub(lengths, b_.squeeze(ctx_.size_of(q_, 2), {.axes = {0}}));
        position = b_.add(position, first);
      } else if (ctx_.has(4)) {
        position = b_.add(position, b_.squeeze(ctx_.size_of(ctx_.in(4), 2), {.axes = {0}}));
      }
      if (causal) see(b_.less_equal(keys, position));
      if (left >= 0) see(b_.greater_equal(keys, b_.sub(position, left)));
      if (right >= 0) see(b_.less_equal(keys, b_.add(position, right)));
    }
    // A purely causal mask lets each query attend to the first key.
    may_be_blind_ |= ctx_.has(3) || padded || left >= 0 || right >= 0;
  }

  // Whether a row of a constant mask masks all keys.
  static bool is_blind(const Value& m) {
    const TensorPtr& t = m.constant();
    const int64_t width = t->rank() == 0 ? 1 : t->shape().back();
    for (int64_t row = 0; width > 0 && row < t->size() / width; ++row) {
      bool sees = false;
      for (int64_t i = row * width; i < (row + 1) * width && !sees; ++i)
        sees = m.dtype() == DType::kBool ? t->as_double(i) != 0 : t->as_double(i) != kHidden;
      if (!sees) return true;
    }
    return false;
  }

  // Whether the op can use [batch, length, size] directly: one head, and masks without an axis of heads.
  bool is_flat() const {
    const auto fits = [](const Value* m) { return m == nullptr || m->type()->rank() <= 2; };
    return flat_ && !ctx_.has(4) && !ctx_.has(6) && dim(q_, 1).is(1) && ctx_.int_attr("kv_num_heads", 0) == 1 && fits(seen_) &&
           fits(bias_) && !ctx_.is_used(1) && !ctx_.is_used(2);
  }

  DType precision() const {
    const auto given = static_cast<DType>(ctx_.int_attr("softmax_precision", 0));
    return given == DType::kUndefined ? q_->dtype() : stored_dtype(given);
  }

  bool is_plain() const {
    constexpr int kIos18 = 9;
    return ctx_.version() >= kIos18 && ctx_.float_attr("softcap", 0) == 0 && !ctx_.is_used(3) && precision() == q_->dtype() &&
           !(seen_ != nullptr && bias_ != nullptr) && dim(q_, q_->type()->rank() - 1).is_int();
  }

  Value* fused() {
    Value* mask = seen_ != nullptr ? seen_ : bias_;
    Value* y = attend(ctx_, q_, k_, v_, scale_of(ctx_, q_), mask);
    if (!may_be_blind_) return y;
    Value* best =
        b_.reduce_max(seen_ != nullptr ? b_.cast(mask, {.dtype = DType::kI32}) : mask, {.axes = {-1}, .keep_dims = true});
    Value* sees = seen_ != nullptr ? b_.not_equal(best, 0) : b_.not_equal(best, ctx_.like(best, kHidden));
    return b_.select(sees, y, ctx_.like(y, 0));
  }

  Value* spelled(Value*& shown) {
    const int64_t mode = ctx_.int_attr("qk_matmul_output_mode", 0);
    const auto show = [&](int64_t when, Value* v) {
      if (mode == when && ctx_.is_used(3)) shown = v;
    };
    Value* scores = b_.matmul(b_.mul(q_, scale_of(ctx_, q_)), k_, {.transpose_x = false, .transpose_y = true});
    show(0, scores);
    if (const double cap = ctx_.float_attr("softcap", 0); cap > 0)
      scores = b_.mul(b_.tanh(b_.real_div(scores, ctx_.like(scores, cap))), ctx_.like(scores, cap));
    show(1, scores);
    if (bias_ != nullptr) scores = b_.add(scores, ctx_.cast(bias_, scores->dtype()));
    if (seen_ != nullptr) scores = b_.select(seen_, scores, ctx_.like(scores, kHidden));
    show(2, scores);
    scores = ctx_.cast(scores, precision());
    Value* p = b_.softmax(scores, {.axis = -1});
    if (may_be_blind_) {
      Value* best = b_.reduce_max(scores, {.axes = {-1}, .keep_dims = true});
      p = b_.select(b_.not_equal(best, ctx_.like(best, kHidden)), p, ctx_.like(p, 0));
    }
    p = ctx_.cast(p, q_->dtype());
    show(3, p);
    return b_.matmul(p, v_, {.transpose_x = false, .transpose_y = false});
  }

  Lowering& ctx_;
  MilBuilder& b_;
  bool flat_;
  Value *q_ = nullptr, *k_ = nullptr, *v_ = nullptr;  // [batch, heads, length, size]
  Value *all_keys_ = nullptr, *all_values_ = nullptr;
  Value* seen_ = nullptr;      // bool: the keys that a query may attend to; null: all
  Value* bias_ = nullptr;      // added to the scores; null: nothing
  bool may_be_blind_ = false;  // a query may attend to no key
};

}  // namespace

std::vector<Value*> lower_Attention(Lowering& ctx) { return Attention(ctx).results(); }

// Attention whose scores and probabilities two subgraphs of the node may change.
std::vector<Value*> lower_FlexAttention(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* q = ctx.in(0);
  const Dim heads = q->type()->dim(1);
  Value *k = for_each_head(ctx, ctx.in(1), heads), *v = for_each_head(ctx, ctx.in(2), heads);
  const Graph *score_mod = ctx.node.body("score_mod"), *prob_mod = ctx.node.body("prob_mod");
  const auto asked = static_cast<DType>(ctx.int_attr("softmax_precision", static_cast<int64_t>(DType::kF32)));
  const DType precision = stored_dtype(asked);
  const double scale = scale_of(ctx, q);
  if (score_mod == nullptr && prob_mod == nullptr && precision == q->dtype()) return {attend(ctx, q, k, v, scale, nullptr)};
  const auto modified = [&](const Graph* by, Value* x) {
    return by == nullptr ? x : ctx.inline_body(*by, std::vector<Value*>{x}, b).front();
  };
  Value* scores = ctx.cast(b.matmul(b.mul(q, scale), k, {.transpose_x = false, .transpose_y = true}), precision);
  Value* p = modified(prob_mod, b.softmax(modified(score_mod, scores), {.axis = -1}));
  return {b.matmul(ctx.cast(p, v->dtype()), v, {.transpose_x = false, .transpose_y = false})};
}

Value* rotated(Lowering& ctx, Value* x, Value* cosines, Value* sines, int64_t rotary, bool interleaved) {
  MilBuilder& b = ctx.b;
  const auto part = [&](int64_t first, int64_t last, int64_t step) {
    return b.slice_by_index(
        x, {0, 0, 0, first}, {0, 0, 0, last},
        {.begin_mask = {true, true, true, false}, .end_mask = {true, true, true, false}, .stride = {1, 1, 1, step}});
  };
  const int64_t half = rotary / 2;
  Value* even = interleaved ? part(0, rotary, 2) : part(0, half, 1);
  Value* odd = interleaved ? part(1, rotary, 2) : part(half, rotary, 1);
  Value* from_even = b.mul(cosines, even);
  Value* real = b.sub(from_even, b.mul(sines, odd));
  Value* from_odd = b.mul(sines, even);
  Value* imaginary = b.add(from_odd, b.mul(cosines, odd));
  std::vector<Value*> pieces{real, imaginary};
  if (interleaved) {
    std::vector<Dim> shape(x->type()->dims().begin(), x->type()->dims().end());
    shape[3] = Dim::of(rotary);
    pieces = {ctx.reshape(b.stack(pieces, {.axis = 4}), shape)};
  }
  if (!x->type()->dim(3).is(rotary)) pieces.push_back(part(rotary, x->type()->dim(3).value(), 1));
  return pieces.size() == 1 ? pieces[0] : b.concat(pieces, {.axis = 3, .interleave = false});
}

std::vector<Value*> lower_RotaryEmbedding(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const bool flat = ctx.rank(0) == 3;
  Value* x = flat ? split_heads(ctx, ctx.in(0), ctx.int_attr("num_heads", 0)) : ctx.in(0);
  const Dim width = x->type()->dim(3);
  if (!width.is_int()) ctx.unsupported("heads whose size is not known");
  int64_t rotary = ctx.int_attr("rotary_embedding_dim", 0);
  if (rotary == 0) rotary = width.value();
  const auto angles = [&](size_t i) {
    Value* v = ctx.in(i);
    if (ctx.has(3)) v = b.gather(v, ctx.in(3), {.axis = 0});
    return b.expand_dims(v, {.axes = {1}});
  };
  Value* cosines = angles(1);
  Value* sines = angles(2);
  Value* y = rotated(ctx, x, cosines, sines, rotary, ctx.int_attr("interleaved", 0) != 0);
  return {flat ? joined_heads(ctx, y) : y};
}

// Each head has a matrix S. A step updates it to decay * S + k u' and returns q S. u is v, or in delta rules
// beta (v - S' k).
std::vector<Value*> lower_LinearAttention(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const int64_t q_heads = ctx.int_attr("q_num_heads", 0), heads = ctx.int_attr("kv_num_heads", 0);
  const std::string rule = ctx.string_attr("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  const auto rows = [&](size_t i, int64_t count) {  // [batch, length, heads, size]
    Value* x = ctx.in(i);
    return x->type()->rank() == 4 ? b.transpose(x, {.perm = {0, 2, 1, 3}}) : by_head(ctx, x, count);
  };
  Value* q = rows(0, q_heads);
  Value* k = rows(1, heads);
  Value* v = rows(2, heads);
  const Dim width = q->type()->dim(3);
  if (!width.is_int()) ctx.unsupported("heads whose size is not known");
  double scale = ctx.float_attr("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(width.value()));
  q = b.mul(q, scale);
  Value* decay = nullptr;
  if (gated) {  // [batch, length, heads, size or 1]
    Value* given = ctx.in(4);
    const Dim last = given->type()->dim(given->type()->rank() - 1);
    const std::vector<Dim> shape{q->type()->dim(0), q->type()->dim(1), Dim::of(heads),
                                 Dim::of(last.is(heads) ? 1 : width.value())};
    decay = b.exp(given->type()->rank() == 3 ? ctx.reshape(given, shape) : given);
  }
  Value* beta = delta ? ctx.in(5) : nullptr;  // [batch, length, heads or 1]
  Counted loop;
  const Dim length = q->type()->dim(1);
  loop.most = length.is_int() ? b.i32(static_cast<int32_t>(length.value())) : b.squeeze(ctx.size_of(q, 1), {.axes = {0}});
  const std::vector<Dim> state{q->type()->dim(0), Dim::of(heads), width, v->type()->dim(3)};
  loop.vars.push_back(ctx.has(3) ? ctx.in(3) : b.fill(ctx.shape(state), {.value = Tensor::full(q->dtype(), {}, 0)}));
  loop.stacked = 1;
  const std::vector<Dim> row{state[0], Dim::of(q_heads), Dim::of(1), state[3]};
  loop.rows.push_back(ctx.types().tensor(q->dtype(), row));
  loop.step = [&](MilBuilder& block, Value* i, std::span<Value* const> vars) -> std::vector<Value*> {
    const auto at = [&](Value* x) { return block.gather(x, i, {.axis = 1}); };
    Value* s = vars[0];
    if (decay != nullptr) s = block.mul(s, block.expand_dims(at(decay), {.axes = {-1}}));
    Value* key = at(k);
    Value* value = block.expand_dims(at(v), {.axes = {2}});  // [batch, heads, 1, size]
    if (beta != nullptr) {
      Value* across = block.expand_dims(key, {.axes = {2}});
      Value* fresh = block.sub(value, block.matmul(across, s, {.transpose_x = false, .transpose_y = false}));
      value = block.mul(fresh, block.expand_dims(at(beta), {.axes = {2, 3}}));
    }
    Value* column = block.expand_dims(key, {.axes = {3}});
    s = block.add(s, block.mul(column, value));
    Value* query = block.expand_dims(at(q), {.axes = {2}});
    Value* seen = s;
    if (q_heads != heads) {
      std::vector<int32_t> shared;
      for (int64_t h = 0; h < q_heads; ++h) shared.push_back(static_cast<int32_t>(h / (q_heads / heads)));
      seen = block.gather(s, block.constant(Tensor::of<int32_t>(DType::kI32, {q_heads}, shared)), {.axis = 1});
    }
    return {s, block.matmul(query, seen, {.transpose_x = false, .transpose_y = false})};
  };
  const std::vector<Value*> found = run(ctx, loop);
  // [length, batch, heads, 1, size]   =>   [batch, length, heads * size]
  Value* y = b.transpose(b.squeeze(found[1], {.axes = {3}}), {.perm = {1, 0, 2, 3}});
  std::vector<Value*> results{ctx.reshape(y, ctx.out_dims()), found[0]};
  results.resize(ctx.node.num_results());
  return results;
}

}  // namespace sardonyx::onnx_to_mil
