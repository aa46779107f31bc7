//   x ──┬── Mul(x, x) ── ReduceMean ── Add(eps) ── Sqrt ──┐
//       └───────────────────────────────────────────── Div ── Mul(scale)    =>   RMSNormalization(x, scale)
//
//   x: f16 ── Cast<to=f32> ── RMSNormalization ── Cast<to=f16>              =>   RMSNormalization(x)
//
// Replaces five or six nodes by one, at opset 23. The scale may apply to x, to the reciprocal root or to the
// result; without it, the scale is a constant one.
//
// What stops it: axes that are not the last ones, an inner value with another user, f64 (the operator
// specifies the deviation in f32), a scale of another shape than the axes, a scale of ones of unknown size, a
// single element, which onnxruntime 1.23 refuses.
// Rounds: f16 is computed in f32.
#include "dialects/onnx/runtimes/runtimes.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, mean{"mean"}, deviation{"deviation"}, eps{"eps"}, scale{"scale"}, norm{"norm"};

std::vector<Dim> normalized_dims(const Match& m) {
  const auto axis = trailing(*read::Reduce(m.node(mean), m.context().facts).axes(), m[x]->type()->rank());
  const auto dims = m[x]->type()->dims().subspan(static_cast<size_t>(*axis));
  return {dims.begin(), dims.end()};
}

bool operand_fits(const Match& m, Var operand) {
  const auto dims = normalized_by(m.node(norm));
  return dims && fits_dims(*m[operand], *dims);
}

}  // namespace

Pass fuse_rms_normalization() {
  const Pattern radicand = Add(reshaped(ReduceMean(squared(x), rest).as(mean)), constant.as(eps));
  const Pattern d = reshaped(Sqrt(radicand)).as(deviation);
  const Pattern one_over = Reciprocal(Sqrt(radicand));
  const Pattern reciprocal = any_of(Reciprocal(d), Div(splat(1), d), Pow(Pattern(radicand).as(deviation), splat(-0.5)),
                                    Unsqueeze(one_over, rest).as(deviation), Reshape(one_over, any).as(deviation));
  const auto is_rms = [](const Match& m) {
    const auto over = read::Reduce(m.node(mean), m.context().facts).axes();
    if (!over || !m[x]->ranked() || !trailing(*over, m[x]->type()->rank())) return m.refuse("the axes are not the last ones");
    if (std::ranges::any_of(m[x]->type()->dims(), [](Dim size) { return size.is(0); }))
      return m.refuse("there are no elements");
    if (m[x]->dtype() != DType::kF32 && m[x]->dtype() != DType::kF16) return m.refuse("the element type is not f32 or f16");
    const auto e = m.splat(eps);
    if (!e || !(*e >= 0)) return m.refuse("eps is not one number");
    if (!has_kept_shape(m[deviation], m[x], *over)) return m.refuse("the mean does not line up with the operand");
    return has_no_other_users(m) || m.refuse("a part of it has another user");
  };
  const auto build = [](Rewriter& b, const Match& m, Value* s) -> Value* {
    const auto dims = normalized_dims(m);
    if (s == nullptr) s = ones(b, m[x]->dtype(), dims);
    if (s == nullptr) return nullptr;
    Value* y = b.RMSNormalization(m[x], trimmed(b, s, dims.size()),
                                  {.axis = static_cast<int64_t>(m[x]->type()->rank() - dims.size()),
                                   .epsilon = *m.splat(eps),
                                   .stash_type = DType::kF32});
    return pays_when_fused(*y->def()) ? y : nullptr;
  };
  std::vector<Rule> rules;
  rules.push_back({
      .name = "scale_first",
      .numerics = Numerics::kRounds,
      .match = any_of(Mul(x, any_of(Div(scale, d), Mul(scale, reciprocal))), Div(Mul(x, scale), d)),
      .when = [is_rms](const Match& m) { return is_rms(m) && fits_dims(*m[scale], normalized_dims(m)); },
      .build = [build](Rewriter& b, const Match& m) { return build(b, m, m[scale]); },
      .opset = 23,
  });
  rules.push_back({
      .name = "plain",
      .numerics = Numerics::kRounds,
      .match = any_of(Div(x, d), Mul(x, reciprocal)),
      .when = is_rms,
      .build = [build](Rewriter& b, const Match& m) { return build(b, m, nullptr); },
      .opset = 23,
  });
  // For f16 the operator computes in f32 and rounds before it multiplies by the scale, as half-precision
  // models do.
  rules.push_back({
      .name = "half",
      .numerics = Numerics::kRounds,
      .match = Cast(sole(RMSNormalization(Cast(x), splat(1)).as(norm))),
      .when =
          [](const Match& m) {
            return m[x]->dtype() == DType::kF16 && m[norm]->dtype() == DType::kF32 && m[x]->ranked() &&
                   normalized_by(m.node(norm)).has_value();
          },
      .build = [](Rewriter& b, const Match& m) -> Value* {
        Value* s = ones(b, DType::kF16, *normalized_by(m.node(norm)));
        if (s == nullptr) return nullptr;
        Value* operands[] = {m[x], s};
        return b.like(m.node(norm), operands);
      },
      .opset = 23,
  });
  rules.push_back({
      .name = "scale",
      .numerics = Numerics::kRounds,
      .match = Mul(sole(RMSNormalization(x, splat(1)).as(norm)), scale),
      .when = [](const Match& m) { return operand_fits(m, scale); },
      .build =
          [](Rewriter& b, const Match& m) {
            Value* operands[] = {m[x], trimmed(b, m[scale], normalized_by(m.node(norm))->size())};
            return b.like(m.node(norm), operands);
          },
      .opset = 23,
  });
  return rules;
}

}  // namespace sardonyx::onnx
