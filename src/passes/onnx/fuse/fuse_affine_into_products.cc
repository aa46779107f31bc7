//   x ── MatMul(W) [── Add(b)] ── Mul(scale) ── y   =>   x ── MatMul(W * scale) [── Add(b * scale)] ── y
//   x ── Gemm(W, b) ── BatchNormalization ── y      =>   x ── Gemm(W * factor, (b - mean) * factor + beta) ── y
//
// Folds constants that scale the columns of a product into its constant weights: Mul and Div with one element
// per column or one in all, and BatchNormalization in inference mode after a matrix product. Large weights
// are deferred: computed when the model is written.
//
// What stops it: another user of the product; weights that have other users (the file would hold both
// versions) or are not constant; a constant that varies within a column or broadcasts the product; factors
// that are infinite or NaN.
// Rounds: weights are rounded once more, and the arithmetic on activations disappears.
#include <cmath>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/fuse/per_channel.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, w{"w"}, y{"y"}, bias{"bias"}, c{"c"}, gamma{"gamma"}, beta{"beta"}, mu{"mu"}, var{"var"};

// Whether the weights are transposed. The flag must be known.
bool is_transposed(const Node& n) { return n.is("Gemm") && *read::Gemm(n).transB(); }

// The number of columns of the product; 0 if unknown or if the weights may not change.
int64_t columns(const Match& m) {
  const Node& n = m.node(y);
  const Value* weights = m[w];
  if (!weights->is_constant() || !weights->has_one_use() || !is_float(weights->dtype()) || weights->constant()->rank() != 2)
    return 0;
  if (n.is("Gemm") && !read::Gemm(n).transB()) return 0;
  if (!m[y]->ranked() || m[y]->type()->rank() < 2) return 0;
  return weights->constant()->shape()[is_transposed(n) ? 0 : 1];
}

// Whether v is one number per column of the product, or one in all.
bool fits(const Match& m, const Value* v) {
  const size_t rank = m[y]->type()->rank();
  return v->is_constant() && is_per_channel(v->type(), rank, rank - 1, columns(m));
}

TensorPtr scaled_weights(const Match& m, const Channels& factors, bool divide) {
  const TensorPtr& t = m[w]->constant();
  const int64_t rows = t->shape()[0], all = t->size();
  const ChannelRows layout = is_transposed(m.node(y)) ? ChannelRows{rows} : ChannelRows{all, t->shape()[1], rows};
  return scaled(t, layout, factors, divide);
}

// A constant with one number per column.
Value* per_column(Rewriter& b, const Match& m, const Channels& values) {
  return channel_constant(b, m[y]->dtype(), values, {});
}

bool has_known_bias(const Match& m) {
  const Value* v = m.node(y).input(2);
  return v == nullptr || fits(m, v);
}

bool scales(const Match& m) {
  if (columns(m) <= 0) return m.refuse("the weights are not constant, or have other users");
  if (!fits(m, m[c])) return m.refuse("the constant is not one number per column");
  return (has_known_bias(m) && (m[bias] == nullptr || fits(m, m[bias]))) || m.refuse("the bias is not constant");
}

Value* scale(Rewriter& b, const Match& m) {
  const int64_t count = columns(m);
  const bool divide = m.root().is("Div");
  const Channels by = numbers(*m[c]->constant(), count);
  if (!can_scale(by, divide, m[y]->dtype())) return nullptr;
  const auto also = [&](const Value* old) {
    Channels values = numbers(*old->constant(), count);
    for (size_t i = 0; i < values.size(); ++i) values[i] = divide ? values[i] / by[i] : values[i] * by[i];
    return per_column(b, m, values);
  };
  const Node& n = m.node(y);
  std::vector<Value*> operands{m[x], b.constant(scaled_weights(m, by, divide), m[w]->name().view())};
  if (n.input(2) != nullptr) operands.push_back(also(n.input(2)));
  Value* made = b.like(n, operands);
  return m[bias] == nullptr ? made : b.Add(made, also(m[bias]));
}

bool normalizes(const Match& m) {
  const Node& root = m.root();
  const read::BatchNormalization norm(root);
  if (norm.training_mode().value_or(false) || norm.spatial().value_or(1) != 1 || root.num_results() > 1 || !norm.epsilon())
    return m.refuse("it trains");
  if (columns(m) <= 0) return m.refuse("the weights are not constant, or have other users");
  if (m[y]->type()->rank() != 2) return m.refuse("its channels are not the columns");
  return has_known_bias(m) || m.refuse("the bias is not constant");
}

Value* normalize(Rewriter& b, const Match& m) {
  const Node& n = m.node(y);
  const int64_t count = columns(m);
  const double eps = *read::BatchNormalization(m.root()).epsilon();
  const auto of = [&](const Value* v) { return numbers(*v->constant(), count); };
  Channels factor = of(m[gamma]);
  const Channels offset = of(m[beta]), mean = of(m[mu]), variance = of(m[var]);
  Channels shift(static_cast<size_t>(count));
  if (n.input(2) != nullptr) {
    shift = of(n.input(2));
    for (double& v : shift) v *= read::Gemm(n).beta().value_or(NAN);
  }
  for (size_t i = 0; i < shift.size(); ++i) {
    factor[i] /= std::sqrt(variance[i] + eps);
    shift[i] = (shift[i] - mean[i]) * factor[i] + offset[i];
  }
  if (!can_scale(factor, false, m[y]->dtype()) || !can_scale(shift, false, m[y]->dtype())) return nullptr;
  Value* weights = b.constant(scaled_weights(m, factor, false), m[w]->name().view());
  AttrInit attrs;
  for (std::string_view name : {"alpha", "transA", "transB"}) {
    if (const Attr* a = n.attr(name)) attrs.push_back(attr(name, *a));
  }
  return b.op("Gemm", {m[x], weights, per_column(b, m, shift)}, attrs);
}

}  // namespace

Pass fuse_affine_into_products() {
  const Pattern product = sole(any_of(MatMul(x, w), Gemm(x, w, rest))).as(y);
  const Pattern at = any_of(product, sole(Add(product, constant.as(bias)))), by = constant.as(c);
  std::vector<Rule> rules;
  rules.push_back({.name = "scale",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Mul(at, by), Div(at, by)),
                   .when = scales,
                   .build = scale});
  rules.push_back(
      {.name = "batch_normalization",
       .numerics = Numerics::kRounds,
       .match = BatchNormalization(product, constant.as(gamma), constant.as(beta), constant.as(mu), constant.as(var)),
       .when = normalizes,
       .build = normalize,
       .opset = 11});
  return rules;
}

}  // namespace sardonyx::onnx
