//   x ── BatchNormalization ── Mul(scale) ── Add(shift)    =>   x ── BatchNormalization with other parameters
//           (also InstanceNormalization, and with a Transpose in between for channels last)
//   x ── Sub(mean) ── Mul(scale) ── Add(shift)             =>   x ── BatchNormalization
//
// Folds constants that scale and shift whole channels into the parameters of an existing normalization
// (Caffe's Scale layer, DenseNet). Without one, two or three such nodes become a BatchNormalization. A
// preceding convolution takes all of them if it can: fuse_affine_into_conv runs first.
//
// What stops it: a normalization that trains or has other users; constants that vary within a channel, or
// that are all one number (which another node may take); unknown sizes; arithmetic before it that may belong
// to another normalization.
// Rounds: parameters are rounded once more, and the arithmetic on activations disappears.
// After coremltools' fuse_elementwise_to_batchnorm.
#include <cmath>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/fuse/per_channel.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, y{"y"}, norm{"norm"}, c{"c"}, gamma{"gamma"}, beta{"beta"}, mu{"mu"}, product{"product"},
    center{"center"};

// Whether `number` is one number per channel of v, or one in all.
bool fits(const Value* number, const Value* v, size_t axis = 1) {
  if (!v->ranked() || axis >= v->type()->rank() || !v->type()->dim(axis).is_int() || v->type()->dim(axis).value() < 1)
    return false;
  return known_elements(*number) != nullptr &&
         is_per_channel(number->type(), v->type()->rank(), axis, v->type()->dim(axis).value());
}

// The channel axis of y, which is the normalization or a transpose of it.
std::optional<size_t> channel_axis(const Match& m) {
  if (m[y] == m[norm]) return 1;
  const auto perm = ints_attr(m.node(y), "perm");
  if (!perm) return std::nullopt;
  const auto at = std::find(perm->begin(), perm->end(), 1);
  return at == perm->end() ? std::nullopt : std::optional(static_cast<size_t>(at - perm->begin()));
}

// The number of channels.
int64_t channels(const Match& m) { return m[y]->type()->dim(*channel_axis(m)).value(); }

bool is_fixed(const Match& m) {
  const Node& n = m.node(norm);
  if (n.num_results() > 1) return m.refuse("it trains");  // before opset 14 that means training
  const auto bn = read::BatchNormalization::of(n);        // or it is an InstanceNormalization
  if (bn && (bn->training_mode().value_or(false) || bn->spatial().value_or(1) != 1)) return m.refuse("it trains");
  for (Var v : {gamma, beta}) {
    const TensorPtr t = known_elements(*m[v]);
    if (t == nullptr || t->size() != channels(m)) return m.refuse("its parameters are not one known number per channel");
  }
  return m[gamma]->dtype() == m[x]->dtype() || m.refuse("its parameters have another dtype");
}

Channels channel_numbers(const Value* v, int64_t count) { return numbers(*known_elements(*v), count); }

Value* with_parameters(Rewriter& b, const Match& m, Value* scale, Value* shift) {
  if (scale == nullptr || shift == nullptr) return nullptr;
  const Node& n = m.node(norm);
  std::vector<Value*> operands{n.input(0), scale, shift};
  for (size_t i = 3; i < n.num_inputs(); ++i) operands.push_back(n.input(i));
  Value* made = b.like(n, operands);
  return m[y] == m[norm] ? made : b.like(m.node(y), std::span<Value* const>(&made, 1));
}

Value* shifted(Rewriter& b, const Match& m) {
  const int64_t count = channels(m);
  Channels offset = channel_numbers(m[beta], count);
  const Channels by = channel_numbers(m[c], count);
  const bool minus = m.root().is("Sub");
  for (size_t i = 0; i < offset.size(); ++i) offset[i] += minus ? -by[i] : by[i];
  return with_parameters(b, m, m[gamma],
                         channel_constant(b, m[x]->dtype(), offset, std::array<const Value*, 2>{m[beta], m[c]}));
}

Value* rescaled(Rewriter& b, const Match& m) {
  const int64_t count = channels(m);
  Channels factor = channel_numbers(m[gamma], count), offset = channel_numbers(m[beta], count);
  const Channels by = channel_numbers(m[c], count);
  const bool divide = m.root().is("Div");
  if (!can_scale(by, divide, m[x]->dtype())) return nullptr;
  for (size_t i = 0; i < offset.size(); ++i) {
    factor[i] = divide ? factor[i] / by[i] : factor[i] * by[i];
    offset[i] = divide ? offset[i] / by[i] : offset[i] * by[i];
  }
  const DType t = m[x]->dtype();
  return with_parameters(b, m, channel_constant(b, t, factor, std::array<const Value*, 2>{m[gamma], m[c]}),
                         channel_constant(b, t, offset, std::array<const Value*, 2>{m[beta], m[c]}));
}

// --- elementwise nodes

bool is_affine(const Match& m) {
  const DType t = m[x]->dtype();
  if (t != DType::kF32 && t != DType::kF64) return false;  // onnxruntime has no f16 kernel
  if (!fits(m[gamma], m[x]) || !fits(m[beta], m[x]) || (m[mu] != nullptr && !fits(m[mu], m[x])))
    return m.refuse("the constants are not one number per channel");
  // If both constants are single numbers, a neighboring node may take them.
  if (known_elements(*m[gamma])->size() == 1) return m.refuse("there is one factor for all channels");
  const Node* n = m[x]->def();
  if (n != nullptr &&
      (n->is("Div") || n->is("Mul") || n->is("Sub") || n->is("Reshape") || n->op().name.ends_with("Normalization")))
    return m.refuse("it may belong to another normalization");
  return has_no_other_users(m);
}

Value* from_affine(Rewriter& b, const Match& m) {
  const int64_t count = m[x]->type()->dim(1).value();
  const DType t = m[x]->dtype();
  const Channels factor = channel_numbers(m[gamma], count);
  Channels offset = channel_numbers(m[beta], count), mean(static_cast<size_t>(count), 0.0);
  if (m[mu] != nullptr) mean = channel_numbers(m[mu], count);
  if (m.root().is("Sub")) {
    for (double& v : offset) v = -v;
  }
  if (m[center] != nullptr && m.node(center).is("Add")) {
    for (double& v : mean) v = -v;
  }
  if (!can_scale(factor, false, m[x]->dtype())) return nullptr;
  const Value* olds[] = {m[gamma], m[beta], m[mu]};
  Value* operands[] = {m[x], channel_constant(b, t, factor, olds), channel_constant(b, t, offset, olds),
                       channel_constant(b, t, mean, olds),
                       channel_constant(b, t, Channels(static_cast<size_t>(count), 1.0), olds)};
  return b.op("BatchNormalization", operands, {attr("epsilon", 0.0)});
}

}  // namespace

Pass fuse_batch_normalization() {
  const Pattern normalization =
      any_of(BatchNormalization(x, gamma, beta, any, any), InstanceNormalization(x, gamma, beta)).as(norm);
  const Pattern at = sole(any_of(normalization, Transpose(sole(normalization)))).as(y), by = any.as(c);
  const auto takes = [](const Match& m) {
    const auto axis = channel_axis(m);
    return axis && fits(m[c], m[y], *axis) && is_fixed(m);
  };
  std::vector<Rule> rules;
  rules.push_back({.name = "shift",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Add(at, by), Sub(at, by)),
                   .when = takes,
                   .build = shifted,
                   .opset = 9});
  rules.push_back({.name = "scale",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Mul(at, by), Div(at, by)),
                   .when = takes,
                   .build = rescaled,
                   .opset = 9});
  const Pattern centered = any_of(Sub(x, mu), Add(x, mu)).as(center);
  const Pattern known = any_of(constant, ConstantOfShape(rest)), factor = known.as(gamma), offset = known.as(beta);
  const Pattern scaled = any_of(Mul(centered, factor), Mul(x, factor)).as(product);
  rules.push_back({.name = "elementwise",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Add(scaled, offset), Sub(scaled, offset)),
                   .when = is_affine,
                   .build = from_affine,
                   .opset = 9});
  return rules;
}

}  // namespace sardonyx::onnx
