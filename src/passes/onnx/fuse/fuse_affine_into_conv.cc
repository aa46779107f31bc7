//   x ── Conv(W, b) [── Transpose] ── Sub(mean) ── Mul(scale) ── Add(bias)
//     =>   x ── Conv(W * scale, (b - mean) * scale + bias) [── Transpose]
//   x ── Mul(scale) ── Conv(W) ── y   =>   x ── Conv(W * scale) ── y
//
// Folds constants that scale or shift whole channels of a convolution into its weights and bias: Add, Sub,
// Mul and Div with one element per channel or one in all, and BatchNormalization in inference mode. Each
// operation has a rule, so chains of any length and order fold. A Transpose in between (channels last) only
// moves the channel axis. Large weights are deferred: computed when the model is written. A ConstantOfShape
// counts as a constant if the result is again one repeated number.
//
// What stops it: another user of the convolution; weights that must change but have other users (the file
// would hold both versions) or are not constant; a constant that varies within a channel or broadcasts the
// convolution; factors that are infinite, NaN, or so large that f16 weights might overflow.
// Rounds: weights are rounded once more, and the arithmetic on activations disappears.
// After onnxruntime's ConvBatchNormalization, ConvMul and ConvAdd fusions and coremltools'
// fuse_conv_batchnorm.
#include <cmath>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/fuse/per_channel.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, conv{"conv"}, y{"y"}, c{"c"}, w{"w"};
constexpr Var gamma{"gamma"}, beta{"beta"}, mu{"mu"}, var{"var"};
bool is_transposed(const Node& n) { return n.is("ConvTranspose"); }

// The number of output channels, from the static shape of the weights; 0 if unknown.
int64_t channels(const Node& n) {
  const Value* weights = n.input(1);
  if (weights == nullptr || !weights->ranked() || weights->type()->rank() < 3) return 0;
  const auto group = int_attr(n, "group");
  const Dim d = weights->type()->dim(is_transposed(n) ? 1 : 0);
  if (!group || !d.is_int() || *group < 1) return 0;
  const Dim rows = weights->type()->dim(0);  // shared out among the groups
  if (!rows.is_int() || rows.value() % *group != 0) return 0;
  return is_transposed(n) ? d.value() * *group : d.value();
}

// The channel axis of y, which is the convolution or a transpose of it.
std::optional<size_t> channel_axis(const Match& m) {
  const Value* v = m[y];
  const Node& n = m.node(conv);
  if (v == n.result()) return 1;
  const auto perm = ints_attr(*v->def(), "perm");
  if (!perm) return std::nullopt;
  return static_cast<size_t>(std::find(perm->begin(), perm->end(), 1) - perm->begin());
}

// Whether the constant is one number per channel. Does not read its elements.
bool is_per_channel(const Match& m, const Value& v) {
  const auto axis = channel_axis(m);
  const int64_t count = channels(m.node(conv));
  return axis && count > 0 && m[y]->ranked() && known_elements(v) != nullptr &&
         onnx::is_per_channel(v.type(), m[y]->type()->rank(), *axis, count);
}

// One row per output channel for Conv; one per pair of input channel and output channel of the group for
// ConvTranspose.
ChannelRows rows_of(const Node& n) {
  const Type* t = n.input(1)->type();
  if (!is_transposed(n)) return {t->dim(0).value()};
  const int64_t in = t->dim(0).value(), out = t->dim(1).value();
  return {in * out, out, in / *int_attr(n, "group")};
}

Channels bias_of(const Node& n, int64_t count) {
  return n.input(2) != nullptr ? numbers(*known_elements(*n.input(2)), count) : Channels(static_cast<size_t>(count), 0.0);
}

// The convolution with new weights (null: unchanged) and a new bias, followed by the same transpose. `olds`
// are the constants folded into the bias. Null if repeated numbers would have to be stored one by one.
Value* rebuilt(Rewriter& b, const Match& m, const TensorPtr& weights, const Channels& bias,
               std::initializer_list<Value*> olds) {
  const Node& n = m.node(conv);
  Value* wanted = weights == nullptr ? n.input(1) : known_like(b, *n.input(1), weights);
  std::vector<const Value*> all(olds.begin(), olds.end());
  all.push_back(n.input(2));
  Value* offset = wanted == nullptr ? nullptr : channel_constant(b, n.result()->dtype(), bias, all);
  if (offset == nullptr) return nullptr;
  Value* operands[] = {n.input(0), wanted, offset};
  Value* made = b.like(n, operands);
  if (m[y] == n.result()) return made;
  return b.like(*m[y]->def(), std::span<Value* const>(&made, 1));
}

bool has_constant_bias(const Node& n) { return n.input(2) == nullptr || known_elements(*n.input(2)) != nullptr; }

// Whether the weights may change: a constant without other users, or a repeated number, which takes no space
// if copied.
bool may_change(const Node& n) {
  const Value* weights = n.input(1);
  return known_elements(*weights) != nullptr && (weights->has_one_use() || !weights->is_constant());
}

// A convolution with a single use, perhaps through a transpose.
Pattern convolution() {
  const Pattern at = any_of(Conv(x, w, rest).as(conv), ConvTranspose(x, w, rest).as(conv));
  return sole(any_of(at, Transpose(sole(at)))).as(y);
}

bool shifts(const Match& m) {
  const Node& n = m.node(conv);
  if (!is_per_channel(m, *m[c])) return m.refuse("the constant is not one number per channel");
  return has_constant_bias(n) || m.refuse("the bias is not constant");
}

Value* shift(Rewriter& b, const Match& m) {
  const Node& n = m.node(conv);
  const int64_t count = channels(n);
  Channels bias = bias_of(n, count);
  const Channels by = numbers(*known_elements(*m[c]), count);
  const bool minus = m.root().is("Sub");
  for (size_t i = 0; i < bias.size(); ++i) bias[i] += minus ? -by[i] : by[i];
  return rebuilt(b, m, nullptr, bias, {m[c]});
}

bool scales(const Match& m) {
  const Node& n = m.node(conv);
  if (!is_per_channel(m, *m[c])) return m.refuse("the constant is not one number per channel");
  if (!has_constant_bias(n)) return m.refuse("the bias is not constant");
  return may_change(n) || m.refuse("the weights are not constant, or have other users");
}

Value* scale(Rewriter& b, const Match& m) {
  const Node& n = m.node(conv);
  const int64_t count = channels(n);
  const Channels by = numbers(*known_elements(*m[c]), count);
  const bool divide = m.root().is("Div");
  if (!can_scale(by, divide, n.result()->dtype())) return nullptr;
  const TensorPtr weights = scaled(known_elements(*n.input(1)), rows_of(n), by, divide);
  if (n.input(2) == nullptr) {
    Value* operands[] = {n.input(0), known_like(b, *n.input(1), weights)};
    if (operands[1] == nullptr) return nullptr;
    Value* made = b.like(n, operands);
    return m[y] == n.result() ? made : b.like(*m[y]->def(), std::span<Value* const>(&made, 1));
  }
  Channels bias = bias_of(n, count);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = divide ? bias[i] / by[i] : bias[i] * by[i];
  return rebuilt(b, m, weights, bias, {m[c]});
}

// c - conv(x)
Value* mirror(Rewriter& b, const Match& m) {
  const Node& n = m.node(conv);
  const int64_t count = channels(n);
  Channels bias = bias_of(n, count);
  const Channels from = numbers(*known_elements(*m[c]), count);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = from[i] - bias[i];
  const Channels minus(static_cast<size_t>(count), -1.0);
  return rebuilt(b, m, scaled(known_elements(*n.input(1)), rows_of(n), minus, false), bias, {m[c]});
}

bool normalizes(const Match& m) {
  const Node& n = m.node(conv);
  const Node& root = m.root();
  const read::BatchNormalization norm(root);
  if (norm.training_mode().value_or(false) || norm.spatial().value_or(1) != 1 || root.num_results() > 1)
    return m.refuse("it trains");
  if (m[y] != n.result()) return false;
  const int64_t count = channels(n);
  if (count == 0) return false;
  for (Var v : {gamma, beta, mu, var}) {
    const TensorPtr t = known_elements(*m[v]);
    if (t == nullptr || t->size() != count) return m.refuse("its parameters are not one number per channel");
  }
  if (!has_constant_bias(n)) return m.refuse("the bias is not constant");
  return (may_change(n) && norm.epsilon().has_value()) || m.refuse("the weights are not constant, or have other users");
}

Value* normalize(Rewriter& b, const Match& m) {
  const Node& n = m.node(conv);
  const int64_t count = channels(n);
  const double eps = *read::BatchNormalization(m.root()).epsilon();
  Channels factor = numbers(*known_elements(*m[gamma]), count);
  const Channels offset = numbers(*known_elements(*m[beta]), count), mean = numbers(*known_elements(*m[mu]), count),
                 variance = numbers(*known_elements(*m[var]), count);
  Channels bias = bias_of(n, count);
  for (size_t i = 0; i < bias.size(); ++i) {
    factor[i] /= std::sqrt(variance[i] + eps);
    bias[i] = (bias[i] - mean[i]) * factor[i] + offset[i];
  }
  if (!can_scale(factor, false, n.result()->dtype())) return nullptr;
  return rebuilt(b, m, scaled(known_elements(*n.input(1)), rows_of(n), factor, false), bias,
                 {m[gamma], m[beta], m[mu], m[var]});
}

// --- before the convolution, where padding stays zero whatever the factor

int64_t input_channels(const Node& n) {
  const Type* t = n.input(1)->type();
  return is_transposed(n) ? t->dim(0).value() : t->dim(1).value() * *int_attr(n, "group");
}

ChannelRows input_rows_of(const Node& n) {
  const Type* t = n.input(1)->type();
  if (is_transposed(n)) return {t->dim(0).value()};
  const int64_t out = t->dim(0).value(), in = t->dim(1).value();
  return {out * in, in, out / *int_attr(n, "group")};
}

bool scales_input(const Match& m) {
  const Node& n = m.root();
  if (!may_change(n)) return m.refuse("the weights are not constant, or have other users");
  if (channels(n) == 0 || !same_shape(m[x], m[y])) return false;
  return onnx::is_per_channel(m[c]->type(), m[x]->type()->rank(), 1, input_channels(n)) ||
         m.refuse("the constant is not one number per channel");
}

Value* scale_input(Rewriter& b, const Match& m) {
  const Node& n = m.root();
  const Channels by = numbers(*m[c]->constant(), input_channels(n));
  const bool divide = m.node(y).is("Div");
  if (!can_scale(by, divide, n.result()->dtype())) return nullptr;
  Value* operands[] = {m[x], known_like(b, *n.input(1), scaled(known_elements(*n.input(1)), input_rows_of(n), by, divide)),
                       n.input(2)};
  if (operands[1] == nullptr) return nullptr;
  return b.like(n, std::span<Value* const>(operands, n.input(2) != nullptr ? 3 : 2));
}

}  // namespace

Pass fuse_affine_into_conv() {
  const Pattern at = convolution(), by = any.as(c);
  std::vector<Rule> rules;
  rules.push_back({.name = "shift",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Add(at, by), Sub(at, by)),
                   .when = shifts,
                   .build = shift});
  rules.push_back({.name = "scale",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Mul(at, by), Div(at, by)),
                   .when = scales,
                   .build = scale});
  rules.push_back({.name = "mirror", .numerics = Numerics::kRounds, .match = Sub(by, at), .when = scales, .build = mirror});
  rules.push_back({.name = "batch_normalization",
                   .numerics = Numerics::kRounds,
                   .match = BatchNormalization(at, gamma, beta, mu, var),
                   .when = normalizes,
                   .build = normalize});
  const Pattern factor = constant.as(c), times = sole(any_of(Mul(x, factor), Div(x, factor))).as(y);
  rules.push_back({.name = "scale_before",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Conv(times, w, rest), ConvTranspose(times, w, rest)),
                   .when = scales_input,
                   .build = scale_input,
                   .same_type = true});
  return rules;
}

}  // namespace sardonyx::onnx
