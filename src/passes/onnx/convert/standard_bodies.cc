// Each body follows the operator's schema text in the `onnx` package. Statistics are computed in the type
// that the operator names (stash_type), but never in a narrower type than the operand's. Not included are
// bodies of many nodes: LinearAttention, CausalConvWithState, AffineGrid, losses.
#include "passes/onnx/convert/standard_bodies.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "dialects/onnx/readers.h"

namespace sardonyx::onnx {
namespace {

using Results = std::vector<Value*>;

// The node to write out.
struct Site {
  Rewriter& b;
  const Node& n;
  std::string* why;

  Value* in(size_t i) const { return n.input(i); }
  Value* x() const { return n.input(0); }
  Results refuse(std::string_view reason) const {
    if (why != nullptr) *why = reason;
    return {};
  }
  Value* cast(Value* v, DType to) const {
    return v->dtype() == to ? v : b.op("Cast", {v}, {attr("to", static_cast<int64_t>(to))});
  }
  // A scalar in the dtype of `like`.
  Value* num(const Value* like, double v) const { return b.scalar(like->dtype(), v); }
  double number(std::string_view name, double otherwise) const { return float_attr(n, name).value_or(otherwise); }
};

std::optional<int64_t> size_of(const Value* v, size_t axis) {
  if (!v->ranked() || axis >= v->type()->rank() || !v->type()->dim(axis).is_int()) return std::nullopt;
  return v->type()->dim(axis).value();
}

// --- activations

Results celu(const Site& s) {
  Value* alpha = s.num(s.x(), s.number("alpha", 1));
  Value* below = s.b.Mul(alpha, s.b.Sub(s.b.Exp(s.b.Div(s.x(), alpha)), s.num(s.x(), 1)));
  Value* zero = s.num(s.x(), 0);
  return {s.b.Add(s.b.op("Max", {s.x(), zero}), s.b.op("Min", {below, zero}))};
}

Results hard_swish(const Site& s) { return {s.b.Mul(s.x(), s.b.HardSigmoid(s.x(), {.alpha = 1.F / 6, .beta = 0.5F}))}; }

Results mish(const Site& s) { return {s.b.Mul(s.x(), s.b.Tanh(s.b.Softplus(s.x())))}; }

// x * sigmoid(alpha x). Computes bfloat16 in f32: no runtime has a bfloat16 Sigmoid.
Value* swish_of(const Site& s, Value* x) {
  const DType own = x->dtype();
  if (own == DType::kBF16) x = s.cast(x, DType::kF32);
  const double alpha = s.number("alpha", 1);
  Value* y = s.b.Mul(x, s.b.Sigmoid(alpha != 1 ? s.b.Mul(x, s.num(x, alpha)) : x));
  return s.cast(y, own);
}

Results swish(const Site& s) { return {swish_of(s, s.x())}; }
Results swiglu(const Site& s) { return {s.b.Mul(swish_of(s, s.x()), s.in(1))}; }

Results gelu(const Site& s) {
  Value* x = s.x();
  Value* half = s.b.Mul(x, s.num(x, 0.5));
  Value* inner = nullptr;
  if (string_attr(s.n, "approximate").value_or("none") == "tanh") {
    Value* cube = s.b.Mul(s.b.Mul(s.b.Mul(x, x), x), s.num(x, 0.044715));
    inner = s.b.Tanh(s.b.Mul(s.b.Add(x, cube), s.num(x, std::sqrt(2 / M_PI))));
  } else {
    inner = s.b.Erf(s.b.Mul(x, s.num(x, M_SQRT1_2)));
  }
  return {s.b.Mul(half, s.b.Add(inner, s.num(x, 1)))};
}

Results thresholded_relu(const Site& s) {
  Value* alpha = s.num(s.x(), s.number("alpha", 1));
  return {s.b.Where(s.b.Greater(s.x(), alpha), s.x(), s.num(s.x(), 0))};
}

Results cast_like(const Site& s) {
  if (s.in(1)->dtype() == DType::kUndefined) return s.refuse("the type that it casts to is not known");
  return {s.b.op("Cast", {s.x()}, {attr("to", static_cast<int64_t>(s.in(1)->dtype()))})};
}

// --- normalizations

// The dtype for statistics.
DType statistics_type(const Site& s) {
  const DType own = s.x()->dtype(), stash = static_cast<DType>(int_attr(s.n, "stash_type").value_or(1));
  return own == DType::kF64 ? own : stash;
}

std::optional<std::vector<int64_t>> normalized_axes(const Site& s) {
  const auto first = read::LayerNormalization(s.n).axis();
  if (!first || !s.x()->ranked()) return std::nullopt;
  std::vector<int64_t> axes(s.x()->type()->rank() - *first);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(*first));
  return axes;
}

struct Moments {
  Value *centered, *mean, *inverse_deviation;
};
Moments moments(const Site& s, Value* x, const std::vector<int64_t>& axes, double epsilon) {
  Value* mean = s.b.reduce("ReduceMean", x, axes, /*keepdims=*/true);
  Value* centered = s.b.Sub(x, mean);
  Value* variance = s.b.reduce("ReduceMean", s.b.Mul(centered, centered), axes, /*keepdims=*/true);
  return {centered, mean, s.b.Reciprocal(s.b.Sqrt(s.b.Add(variance, s.num(x, epsilon))))};
}

Results layer_normalization(const Site& s) {
  const auto axes = normalized_axes(s);
  if (!axes) return s.refuse("its rank is not known");
  const Moments m = moments(s, s.cast(s.x(), statistics_type(s)), *axes, s.number("epsilon", 1e-5));
  Value* y = s.b.Mul(s.cast(s.b.Mul(m.centered, m.inverse_deviation), s.x()->dtype()), s.in(1));
  if (s.in(2) != nullptr) y = s.b.Add(y, s.in(2));
  Results results{y, m.mean, m.inverse_deviation};
  results.resize(s.n.num_results());
  return results;
}

Results rms_normalization(const Site& s) {
  const auto axes = normalized_axes(s);
  if (!axes) return s.refuse("its rank is not known");
  Value* x = s.cast(s.x(), statistics_type(s));
  Value* square = s.b.reduce("ReduceMean", s.b.Mul(x, x), *axes, /*keepdims=*/true);
  Value* root = s.b.Sqrt(s.b.Add(square, s.num(x, s.number("epsilon", 1e-5))));
  return {s.b.Mul(s.cast(s.b.Div(x, root), s.in(1)->dtype()), s.in(1))};
}

// Scale and bias are per channel; before version 21, per group.
Results group_normalization(const Site& s) {
  const auto groups = int_attr(s.n, "num_groups");
  const auto channels = size_of(s.x(), 1);
  if (!groups || !channels) return s.refuse("the number of its channels is not known");
  const bool by_group = s.n.op().since_version < 21;
  const DType own = s.x()->dtype(), wide = by_group ? own : statistics_type(s);
  const std::vector<int64_t> last{2};
  const Moments m = moments(s, s.cast(s.b.Reshape(s.x(), s.b.i64s({0, *groups, -1})), wide), last, s.number("epsilon", 1e-5));
  Value* y = s.cast(s.b.Mul(m.centered, m.inverse_deviation), own);
  const auto shifted = [&](Value* v, std::vector<int64_t> shape) {
    return s.b.Add(s.b.Mul(v, s.b.Reshape(s.in(1), s.b.i64s(shape))), s.b.Reshape(s.in(2), s.b.i64s(shape)));
  };
  if (by_group) y = shifted(y, {1, *groups, 1});
  y = s.b.Reshape(y, s.b.Shape(s.x()));
  if (by_group) return {y};
  std::vector<int64_t> shape(s.x()->type()->rank(), 1);
  shape[1] = *channels;
  return {shifted(y, shape)};
}

Results mean_variance_normalization(const Site& s) {
  const auto axes = ints_attr(s.n, "axes");
  if (!axes) return s.refuse("its axes are set by the function's calls");
  Value* centered = s.b.Sub(s.x(), s.b.reduce("ReduceMean", s.x(), *axes, /*keepdims=*/true));
  Value* variance = s.b.reduce("ReduceMean", s.b.Mul(centered, centered), *axes, /*keepdims=*/true);
  return {s.b.Div(centered, s.b.Add(s.b.Sqrt(variance), s.num(s.x(), 1e-9)))};
}

// --- transformers

Value* slice(const Site& s, Value* v, int64_t axis, int64_t first, int64_t last, int64_t step = 1) {
  return s.b.Slice(v, s.b.i64s({first}), s.b.i64s({last}), s.b.i64s({axis}), s.b.i64s({step}));
}

// [batch, length, features]  =>  [batch, heads, length, head features]
Value* split_heads(const Site& s, Value* v, int64_t heads) {
  return s.b.Transpose(s.b.Reshape(v, s.b.i64s({0, 0, heads, -1})), {.perm = Attr::Ints{0, 2, 1, 3}});
}
Value* join_heads(const Site& s, Value* v) {
  return s.b.Reshape(s.b.Transpose(v, {.perm = Attr::Ints{0, 2, 1, 3}}), s.b.i64s({0, 0, -1}));
}

Results rotary_embedding(const Site& s) {
  Value *x = s.x(), *cosines = s.in(1), *sines = s.in(2);
  if (!x->ranked()) return s.refuse("its rank is not known");
  const bool is_flat = x->type()->rank() == 3;
  const int64_t heads = int_attr(s.n, "num_heads").value_or(0);
  if (is_flat && heads < 1) return s.refuse("the number of its heads is not known");
  if (is_flat) x = split_heads(s, x, heads);
  const auto width = size_of(x, 3);
  if (!width) return s.refuse("the size of its heads is not known");
  int64_t rotated = int_attr(s.n, "rotary_embedding_dim").value_or(0);
  if (rotated == 0) rotated = *width;
  // [batch, 1, length, half]
  const auto angles = [&](Value* v) { return s.b.Unsqueeze(s.in(3) != nullptr ? s.b.Gather(v, s.in(3)) : v, s.b.i64s({1})); };
  cosines = angles(cosines);
  sines = angles(sines);
  const bool interleaved = int_attr(s.n, "interleaved").value_or(0) != 0;
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  const int64_t half = rotated / 2;
  Value* even = interleaved ? slice(s, x, 3, 0, rotated, 2) : slice(s, x, 3, 0, half);
  Value* odd = interleaved ? slice(s, x, 3, 1, rotated, 2) : slice(s, x, 3, half, rotated);
  Value* real = s.b.Sub(s.b.Mul(cosines, even), s.b.Mul(sines, odd));
  Value* imaginary = s.b.Add(s.b.Mul(sines, even), s.b.Mul(cosines, odd));
  Value* y = nullptr;
  if (interleaved) {
    Value* last = s.b.i64s({-1});
    y = s.b.Concat({s.b.Unsqueeze(real, last), s.b.Unsqueeze(imaginary, last)}, {.axis = -1});
    const auto grouped_heads = size_of(x, 1);
    if (!grouped_heads) return s.refuse("the number of its heads is not known");
    y = s.b.Reshape(y, s.b.i64s({0, *grouped_heads, -1, rotated}));
  } else {
    y = s.b.Concat({real, imaginary}, {.axis = 3});
  }
  if (rotated < *width) y = s.b.Concat({y, slice(s, x, 3, rotated, kEnd)}, {.axis = 3});
  return {is_flat ? join_heads(s, y) : y};
}

// 0, 1, ... along axis 2 of v.
Value* positions(const Site& s, Value* v) {
  if (const auto size = size_of(v, 2)) {
    std::vector<int64_t> all(static_cast<size_t>(*size));
    std::iota(all.begin(), all.end(), 0);
    return s.b.i64s(all);
  }
  Value* size = s.b.Gather(s.b.Shape(v), s.b.i64(2));
  return s.b.Range(s.b.i64(0), size, s.b.i64(1));
}

// Repeats keys or values for the queries that share them.
Value* repeated(const Site& s, Value* v, int64_t times, int64_t heads, int64_t width) {
  if (times == 1) return v;
  Value* wide = s.b.Expand(s.b.Unsqueeze(v, s.b.i64s({2})), s.b.i64s({1, 1, times, 1, 1}));
  return s.b.Reshape(wide, s.b.i64s({0, heads, -1, width}));
}

Results attention(const Site& s) {
  const Node& n = s.n;
  Value *q = s.x(), *k = s.in(1), *v = s.in(2), *mask = s.in(3);
  if (!q->ranked() || !k->ranked() || !v->ranked()) return s.refuse("its ranks are not known");
  const bool is_flat = q->type()->rank() == 3, is_causal = int_attr(n, "is_causal").value_or(0) != 0;
  if (s.in(6) != nullptr) return s.refuse("it pads keys (nonpad_kv_seqlen)");
  if (s.number("softcap", 0) != 0) return s.refuse("it caps its scores (softcap)");
  if (n.num_results() > 3 && n.result(3)->has_uses()) return s.refuse("its scores are returned");
  if (is_causal && s.in(4) != nullptr) return s.refuse("it is causal with past keys");
  if (is_flat) {
    const int64_t heads = int_attr(n, "q_num_heads").value_or(0), kv_heads = int_attr(n, "kv_num_heads").value_or(0);
    if (heads < 1 || kv_heads < 1) return s.refuse("the number of its heads is not known");
    q = split_heads(s, q, heads);
    k = split_heads(s, k, kv_heads);
    v = split_heads(s, v, kv_heads);
  }
  if (s.in(4) != nullptr) k = s.b.Concat({s.in(4), k}, {.axis = 2});
  if (s.in(5) != nullptr) v = s.b.Concat({s.in(5), v}, {.axis = 2});
  Results results{nullptr, k, v, nullptr};
  const auto heads = size_of(q, 1), kv_heads = size_of(k, 1), width = size_of(q, 3), value_width = size_of(v, 3);
  if (!heads || !kv_heads || !width || !value_width || *kv_heads < 1 || *heads % *kv_heads != 0)
    return s.refuse("the number or the size of its heads is not known");
  const auto given = float_attr(n, "scale");
  const double scale = std::sqrt(given ? *given : 1 / std::sqrt(static_cast<double>(*width)));
  const auto scaled = [&](Value* x) { return s.b.Mul(x, s.num(x, scale)); };
  Value* keys = repeated(s, k, *heads / *kv_heads, *heads, *width);
  Value* scores = s.b.MatMul(scaled(q), scaled(s.b.Transpose(keys, {.perm = Attr::Ints{0, 1, 3, 2}})));
  Value* unseen = s.num(scores, -std::numeric_limits<double>::infinity());
  Value* zero = s.num(scores, 0);
  if (is_causal) {
    Value* later = s.b.Less(s.b.Unsqueeze(positions(s, q), s.b.i64s({1})), positions(s, keys));
    scores = s.b.Where(later, unseen, scores);
  }
  if (mask != nullptr) {
    const bool selects = mask->dtype() == DType::kBool;
    scores = s.b.Add(scores, selects ? s.b.Where(mask, zero, unseen) : s.cast(mask, scores->dtype()));
  }
  const auto precision = static_cast<DType>(int_attr(n, "softmax_precision").value_or(0));
  const DType own = scores->dtype();
  if (precision != DType::kUndefined) scores = s.cast(scores, precision);
  Value* p = s.cast(s.b.Softmax(scores, {.axis = -1}), own);
  // A row whose keys are all masked gives zeros.
  if (mask != nullptr) p = s.b.Where(s.b.IsNaN(p), zero, p);
  Value* y = s.b.MatMul(p, repeated(s, v, *heads / *kv_heads, *heads, *value_width));
  results[0] = is_flat ? join_heads(s, y) : y;
  results.resize(n.num_results());
  return results;
}

struct StandardBody {
  std::string_view op;
  int version;
  Results (*write)(const Site&);
};
constexpr StandardBody kBodies[] = {
    {"Attention", 23, attention},
    {"CastLike", 15, cast_like},
    {"Celu", 12, celu},
    {"Gelu", 20, gelu},
    {"GroupNormalization", 21, group_normalization},
    {"GroupNormalization", 18, group_normalization},
    {"HardSwish", 14, hard_swish},
    {"LayerNormalization", 17, layer_normalization},
    {"MeanVarianceNormalization", 9, mean_variance_normalization},
    {"Mish", 18, mish},
    {"RMSNormalization", 23, rms_normalization},
    {"RotaryEmbedding", 23, rotary_embedding},
    {"SwiGLU", 28, swiglu},
    {"Swish", 24, swish},
    {"ThresholdedRelu", 10, thresholded_relu},
};

const StandardBody* body_of(const Node& n) {
  if (!n.op().domain.empty()) return nullptr;
  for (const StandardBody& body : kBodies) {
    if (n.is(body.op) && body.version <= n.op().since_version) return &body;
  }
  return nullptr;
}

}  // namespace

int version_with_body(const Node& n) {
  const StandardBody* body = body_of(n);
  return body == nullptr ? 0 : body->version;
}

std::vector<Value*> write_body(Rewriter& b, Node& n, std::string* why) {
  const StandardBody* body = body_of(n);
  if (body == nullptr || n.unchecked()) return {};
  Graph& g = *n.graph();
  Node* before = n.prev();
  const size_t constants = g.constants().size();
  Results results = body->write({b, n, why});
  if (!results.empty()) return results;
  while (n.prev() != before) g.erase(*n.prev());
  while (g.constants().size() > constants) g.erase_constant(*g.constants().back());
  return {};
}

}  // namespace sardonyx::onnx
