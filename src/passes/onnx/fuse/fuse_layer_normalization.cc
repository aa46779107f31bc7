//   x ──┬── mean ─────────────────────────────┐
//       ├───────────────────────────── Sub ── Div ── Mul(scale) ── Add(bias)
//       └── variance ── Add(eps) ── Sqrt ─────┘              =>   LayerNormalization(x, scale, bias)
//
// Replaces twelve to fifteen nodes by one. The variance may be the mean of the squared difference (PyTorch,
// Keras), or the mean of squares minus the square of the mean, clamped at zero or not (Flax). The means may
// drop their axis and restore it. The scale may apply to the difference or to the reciprocal root.
// TensorFlow's  x * inv + (bias - mean * inv) matches too. Rules of their own merge scale and bias; without
// them the scale is a constant one.
//
// What stops it: axes that are not the last ones; means, variance or eps that do not line up with x; an inner
// value with another user; f64, for which the operator specifies mean and deviation in f32; scale or bias of
// another shape than the axes; a scale of ones of unknown size; a single element, which onnxruntime 1.23
// refuses.
// Rounds: for a mean that is large compared to the deviation, Flax's difference of squares loses all digits.
// The operator does not, so its result is closer to the exact value.
// After onnxruntime's fusion of this name and Flax's _compute_stats.
#include "dialects/onnx/runtimes/runtimes.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, mean{"mean"}, second{"second"}, center{"center"}, deviation{"deviation"}, eps{"eps"}, scale{"scale"},
    bias{"bias"}, inverse{"inverse"}, norm{"norm"}, kept{"kept"};

// The mean of x, with the reduced axis kept or restored.
Pattern kept_mean() { return reshaped(ReduceMean(x, rest).as(mean)).as(kept); }

// variance + eps
Pattern radicand() {
  const Pattern difference = Sub(x, kept_mean()).as(center);
  const Pattern two_pass = ReduceMean(any_of(Mul(difference, difference), Pow(difference, splat(2))), rest).as(second);
  const Pattern square_of_mean = reshaped(squared(reshaped(ReduceMean(x, rest).as(mean))));
  const Pattern fast = Sub(reshaped(ReduceMean(squared(x), rest).as(second)), square_of_mean);
  const Pattern variance = any_of(two_pass, fast, Max(fast, splat(0)), Relu(fast), Max(two_pass, splat(0)), Relu(two_pass));
  return Add(reshaped(variance), constant.as(eps));
}

bool is_norm(const Match& m) {
  PassContext& c = m.context();
  const Value* v = m[x];
  if (!v->ranked()) return false;
  const auto over = read::Reduce(m.node(mean), c.facts).axes();
  if (!over || read::Reduce(m.node(second), c.facts).axes() != over)
    return m.refuse("mean and variance are over different axes");
  if (!trailing(*over, v->type()->rank())) return m.refuse("the axes are not the last ones");
  if (std::ranges::any_of(v->type()->dims(), [](Dim d) { return d.is(0); })) return m.refuse("there are no elements");
  if (v->dtype() != DType::kF32 && v->dtype() != DType::kF16) return m.refuse("the element type is not f32 or f16");
  const auto e = m.splat(eps);
  if (!e || !(*e >= 0)) return m.refuse("eps is not one number");
  if (!has_kept_shape(m[kept], v, *over) || !has_kept_shape(m[deviation], v, *over))
    return m.refuse("mean and variance do not line up with the operand");
  return has_no_other_users(m) || m.refuse("a part of it has another user");
}

std::vector<Dim> normalized_dims(const Match& m) {
  const auto axis = trailing(*read::Reduce(m.node(mean), m.context().facts).axes(), m[x]->type()->rank());
  const auto dims = m[x]->type()->dims().subspan(static_cast<size_t>(*axis));
  return {dims.begin(), dims.end()};
}

Value* normalization(Rewriter& b, const Match& m, Value* s) {
  const auto dims = normalized_dims(m);
  if (s == nullptr) s = ones(b, m[x]->dtype(), dims);
  if (s == nullptr) return nullptr;
  Value* y = b.LayerNormalization(
      m[x], trimmed(b, s, dims.size()), nullptr,
      {.axis = static_cast<int64_t>(m[x]->type()->rank() - dims.size()), .epsilon = *m.splat(eps), .stash_type = DType::kF32});
  return pays_when_fused(*y->def()) ? y : nullptr;
}

bool operand_fits(const Match& m, Var operand) {
  const auto dims = normalized_by(m.node(norm));
  return dims && fits_dims(*m[operand], *dims);
}

}  // namespace

Pass fuse_layer_normalization() {
  const Pattern difference = Sub(x, kept_mean()).as(center);
  const Pattern d = reshaped(Sqrt(radicand())).as(deviation);
  const Pattern reciprocal = any_of(Reciprocal(d), Div(splat(1), d), Pow(radicand().as(deviation), splat(-0.5)));
  const Pattern scaled = any_of(Div(scale, d), Mul(scale, reciprocal));
  const auto build_with = [](Value* s, Rewriter& b, const Match& m) { return normalization(b, m, s); };
  std::vector<Rule> rules;
  rules.push_back({
      .name = "plain",
      .numerics = Numerics::kRounds,
      .match = any_of(Div(difference, d), Mul(difference, reciprocal)),
      .when = is_norm,
      .build = [build_with](Rewriter& b, const Match& m) { return build_with(nullptr, b, m); },
      .opset = 17,
  });
  rules.push_back({
      .name = "scale_first",
      .numerics = Numerics::kRounds,
      .match = any_of(Mul(difference, scaled), Div(Mul(difference, scale), d)),
      .when = [](const Match& m) { return is_norm(m) && fits_dims(*m[scale], normalized_dims(m)); },
      .build = [build_with](Rewriter& b, const Match& m) { return build_with(m[scale], b, m); },
      .opset = 17,
  });
  rules.push_back({
      .name = "offset",  // x * inv + (bias - mean * inv)
      .numerics = Numerics::kRounds,
      .match = Add(Mul(x, scaled.as(inverse)), Sub(bias, Mul(kept_mean(), Var(inverse)))),
      .when =
          [](const Match& m) {
            return is_norm(m) && fits_dims(*m[scale], normalized_dims(m)) && fits_dims(*m[bias], normalized_dims(m));
          },
      .build =
          [build_with](Rewriter& b, const Match& m) {
            Value* n = build_with(m[scale], b, m);
            return n == nullptr ? nullptr : b.Add(n, m[bias]);
          },
      .opset = 17,
  });
  rules.push_back({
      .name = "scale",
      .numerics = Numerics::kRounds,
      .match = Mul(sole(LayerNormalization(x, splat(1), rest).as(norm)), scale),
      .when = [](const Match& m) { return m.node(norm).input(2) == nullptr && operand_fits(m, scale); },
      .build =
          [](Rewriter& b, const Match& m) {
            Value* operands[] = {m[x], trimmed(b, m[scale], normalized_by(m.node(norm))->size())};
            return b.like(m.node(norm), operands);
          },
      .opset = 17,
  });
  rules.push_back({
      .name = "bias",
      .numerics = Numerics::kRounds,
      .match = Add(sole(LayerNormalization(x, scale, rest).as(norm)), bias),
      .when = [](const Match& m) { return m.node(norm).input(2) == nullptr && operand_fits(m, bias); },
      .build =
          [](Rewriter& b, const Match& m) {
            Value* operands[] = {m[x], m[scale], trimmed(b, m[bias], normalized_by(m.node(norm))->size())};
            return b.like(m.node(norm), operands);
          },
      .opset = 17,
  });
  return rules;
}

}  // namespace sardonyx::onnx
