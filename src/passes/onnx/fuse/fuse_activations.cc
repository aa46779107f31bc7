//   Max(x, 0)                                          =>   Relu(x)
//   Min(Max(x, lo), hi), two Wheres that bound x       =>   Clip(x, lo, hi)
//   x < 0 ? a x : x, Relu(x) - a Relu(-x)              =>   LeakyRelu(x), or PRelu(x, a) when a varies
//   1 / (1 + exp(-x)), (1 + tanh(x / 2)) / 2           =>   Sigmoid(x)
//   log(1 + exp(x)), max(x, 0) + log1p(exp(-|x|))      =>   Softplus(x)
//   x > 0 ? x : a expm1(x)                             =>   Elu(x);  a constant times it: Selu(x)
//   Clip(a x + b, 0, 1), Clip(x + 3, 0, 6) / 6         =>   HardSigmoid(x);  x times it: HardSwish(x)
//   x Tanh(Softplus(x)), x Sigmoid(a x), x / (1 + |x|) =>   Mish(x), Swish(x), Softsign(x)
//
//   log(1 / (1 + exp(-x)))                             =>   -Softplus(-x)
//
// A sigmoid below a logarithm stays written out: onnxruntime's Sigmoid has an absolute error of one ulp of 1,
// which exceeds the whole result far below zero. Each operator has a rule, which takes the results of other
// rules, so longer chains fuse step by step. Recognizes expm1 and log1p as the lowerings from JAX write them.
// NaN stays NaN in every branch.
// What stops it: other constants, an inner value with another user, an element type that onnxruntime has no
// kernel for, an opset that lacks the operator (Mish 18, HardSwish 14) or in which onnxruntime does not run
// it (Swish except in 24).
// Rounds: the parts become one kernel.
#include <cmath>

#include "dialects/onnx/refusals.h"
#include "dialects/onnx/runtimes/wrong_kernels.h"
#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/fuse/per_channel.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, lo{"lo"}, hi{"hi"}, a{"a"}, b_{"b"}, e{"e"}, u{"u"}, d{"d"}, s{"s"}, node{"node"}, d_{"minus"};

bool is_one_of(const Match& m, std::initializer_list<DType> types) {
  return std::find(types.begin(), types.end(), m[x]->dtype()) != types.end();
}
bool whole(const Match& m) { return has_no_other_users(m) || m.refuse("a part of it has another user"); }
bool in_f32(const Match& m) { return is_one_of(m, {DType::kF32}) && whole(m); }
// Whether x is a float type for which every supported release has a kernel of `op`.
bool computes(const Match& m, std::string_view op) {
  return is_float(m[x]->dtype()) && has_kernel(m.model(), op, m[x]->dtype()) && whole(m);
}
Condition computed(std::string_view op) {
  return [op](const Match& m) { return computes(m, op); };
}

// Whether an f32 attribute holds the number as precisely as the constant.
bool fits_attribute(const Match& m, Var v) {
  const auto number = m.splat(v);
  return number && std::isfinite(*number) && static_cast<double>(static_cast<float>(*number)) == *number;
}

// Whether the bounds are scalars, in order, and of a type that compares exactly.
bool bounds(const Match& m) {
  const DType t = m[x]->dtype();
  if (bit_width(t) < 8 || t == DType::kBF16 || t == DType::kI16 || t == DType::kU16) return false;
  // Comparisons of wide integers are right where Clip is wrong.
  if (m.root().is("Where") && is_wrong("Clip", t))
    return m.refuse("Clip of this type is wrong in some releases of onnxruntime");
  const double low = m[lo] != nullptr ? m.splat(lo).value_or(NAN) : 0.0, high = m.splat(hi).value_or(NAN);
  if (!(low <= high)) return false;
  // 64-bit integers that round to the same double need not be in order.
  if (low == high && is_integer(t) && m[lo] != nullptr && m[lo]->constant()->as_int(0) != m[hi]->constant()->as_int(0))
    return false;
  return whole(m);
}

Value* clip(Rewriter& b, const Match& m) {
  const auto bound = [&](Value* v) -> Value* {
    if (v->type()->rank() == 0) return v;
    return is_integer(v->dtype()) ? b.scalar_int(v->dtype(), v->constant()->as_int(0))
                                  : b.scalar(v->dtype(), *b.context().splat(v));
  };
  Value* low = m[lo] != nullptr ? bound(m[lo]) : b.scalar(m[x]->dtype(), 0);
  return b.Clip(m[x], low, bound(m[hi]));
}

// exp(v) - 1, or the equal (exp(v) + 1) tanh(v / 2).
Pattern expm1(const Pattern& v) {
  return any_of(Mul(Add(Exp(v), splat(1)), Tanh(any_of(Mul(v, splat(0.5)), Div(v, splat(2))))), Sub(Exp(v), splat(1)),
                Add(Exp(v), splat(-1)));
}

// log(1 + e), with or without the correction that the lowering of log1p adds.
Pattern log1p(const Pattern& inner) {
  const Pattern sum = Add(inner.as(e), splat(1)).as(u);
  const Pattern corrected = Add(Log(Var(u)), Div(Sub(Var(e), Var(d)), Var(u)));
  return any_of(Log(sum), Where(Equal(Sub(sum, splat(1)).as(d), Var(e)), Log(Var(u)), corrected));
}

Attr number(double v) { return Attr(static_cast<double>(static_cast<float>(v))); }
Attr number(const Match& m, Var v) { return number(m[v] != nullptr ? *m.splat(v) : 1.0); }

void bounds_rules(std::vector<Rule>& rules) {
  rules.push_back({.name = "clip",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Min(any_of(Max(x, constant.as(lo)), Relu(x)), constant.as(hi)),
                                   Max(Min(x, constant.as(hi)), constant.as(lo)),
                                   Where(Greater(x, constant.as(hi)), hi, Where(Less(x, constant.as(lo)), lo, x)),
                                   Where(Less(x, constant.as(lo)), lo, Where(Greater(x, constant.as(hi)), hi, x))),
                   .when = bounds,
                   .build = clip,
                   .opset = 12});
  rules.push_back(
      {.name = "relu", .numerics = Numerics::kRounds, .match = Max(x, splat(0)), .when = computed("Relu"), .replace = Relu(x)});

  const Pattern times = Mul(x, any.as(a));
  const Pattern leaky = any_of(Where(any_of(GreaterOrEqual(x, splat(0)), Greater(x, splat(0))), x, times),
                               Where(any_of(Less(x, splat(0)), LessOrEqual(x, splat(0))), times, x));
  const auto leaks = [](const Match& m, std::string_view op) { return m[a]->is_constant() && computes(m, op); };
  rules.push_back(
      {.name = "leaky_relu",
       .numerics = Numerics::kRounds,
       .match = leaky,
       .when = [leaks](const Match& m) { return leaks(m, "LeakyRelu") && fits_attribute(m, a); },
       .build = [](Rewriter& b, const Match& m) { return b.op("LeakyRelu", {m[x]}, {attr("alpha", number(m, a))}); }});
  rules.push_back(
      {.name = "leaky_relu_as_maximum",
       .numerics = Numerics::kRounds,
       .match = Max(x, Mul(x, constant.as(a))),
       .when =
           [](const Match& m) {
             return computes(m, "LeakyRelu") && fits_attribute(m, a) && *m.splat(a) > 0 && *m.splat(a) < 1;
           },
       .build = [](Rewriter& b, const Match& m) { return b.op("LeakyRelu", {m[x]}, {attr("alpha", number(m, a))}); }});
  const auto slopes = [leaks](const Match& m) {
    if (!leaks(m, "PRelu") || !m[x]->ranked()) return false;
    const auto slope = m.type(a)->dims(), of = m[x]->type()->dims();
    if (slope.size() > of.size()) return false;
    for (size_t i = 0; i < slope.size(); ++i) {
      if (!slope[i].is(1) && !(slope[i] == of[of.size() - slope.size() + i])) return false;
    }
    return true;
  };
  rules.push_back(
      {.name = "prelu", .numerics = Numerics::kRounds, .match = leaky, .when = slopes, .replace = PRelu(x, a), .opset = 9});
  // As Keras and its exporter write it: the part above zero plus the slope times the part below.
  const Pattern below = Relu(Neg(x)), slope = constant.as(a), twice_below = Sub(x, Abs(x));
  rules.push_back({.name = "prelu_of_parts",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Add(Relu(x), Mul(slope, below).as(u)), Add(Relu(x), Mul(slope, Neg(below))),
                                   Sub(Relu(x), Mul(slope, below)), Add(Relu(x), Mul(Mul(slope, twice_below), splat(0.5))),
                                   Add(Relu(x), Mul(slope, Mul(twice_below, splat(0.5))))),
                   .when = slopes,
                   .build =
                       [](Rewriter& b, const Match& m) {
                         const bool negated = m[u] != nullptr;  // the part below zero was negated
                         if (fits_attribute(m, a))
                           return b.op("LeakyRelu", {m[x]}, {attr("alpha", number(negated ? -*m.splat(a) : *m.splat(a)))});
                         Value* by = m[a];
                         if (negated) by = b.constant(scaled(by->constant(), {1}, {-1.0}, false), by->name().view());
                         return b.PRelu(m[x], by);
                       },
                   .opset = 9});
}

// Whether a logarithm follows v, at most a few elementwise nodes later.
bool is_in_logarithm(const Value& v, int depth) {
  for (const Use& u : v.uses()) {
    if (u.owner->is("Log")) return true;
    if (depth > 0 && u.owner->has(Trait::kElementwise) && is_in_logarithm(*u.owner->result(), depth - 1)) return true;
  }
  return false;
}

void sigmoid_rules(std::vector<Rule>& rules) {
  const Pattern falling = Add(Exp(Neg(x)), splat(1));
  rules.push_back({.name = "sigmoid",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Reciprocal(falling), Div(splat(1), falling),
                                   Mul(Add(Tanh(any_of(Mul(x, splat(0.5)), Div(x, splat(2)))), splat(1)), splat(0.5)),
                                   Add(Mul(Tanh(any_of(Mul(x, splat(0.5)), Div(x, splat(2)))), splat(0.5)), splat(0.5))),
                   .when =
                       [](const Match& m) {
                         return computes(m, "Sigmoid") &&
                                (!is_in_logarithm(*m.root().result(), 3) || m.refuse("a logarithm uses it"));
                       },
                   .replace = Sigmoid(x)});
  rules.push_back({.name = "softplus",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Log(Add(Exp(x), splat(1))), Add(any_of(Max(x, splat(0)), Relu(x)), log1p(Exp(Neg(Abs(x)))))),
                   .when = in_f32,
                   .replace = Softplus(x)});
  rules.push_back({.name = "softplus_of_negative",  // |-x| is written as |x|
                   .numerics = Numerics::kRounds,
                   .match = Add(Relu(Neg(x).as(d_)), log1p(Exp(Neg(Abs(x))))),
                   .when = [](const Match& m) { return is_one_of(m, {DType::kF32}) && has_no_other_users(m, m[d_]); },
                   .replace = Softplus(d_)});
  rules.push_back({.name = "log_sigmoid",
                   .numerics = Numerics::kRounds,
                   .match = Log(any_of(Reciprocal(falling), Div(splat(1), falling))),
                   .when = in_f32,
                   .replace = Neg(Softplus(Neg(x)))});
  rules.push_back({.name = "guarded_softplus",  // the guard keeps NaN, and so does Softplus
                   .numerics = Numerics::kRounds,
                   .match = Where(Equal(x, x), Softplus(x), x),
                   .replace = Softplus(x)});
  rules.push_back({.name = "mish",
                   .numerics = Numerics::kRounds,
                   .match = Mul(x, Tanh(Softplus(x))),
                   .when = computed("Mish"),
                   .replace = Mish(x),
                   .opset = 18});
  rules.push_back({.name = "swish",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Mul(x, Sigmoid(Mul(x, constant.as(a)))), Mul(x, Sigmoid(x))),
                   .when =
                       [](const Match& m) {
                         // onnxruntime has no kernel. It uses ONNX's function body, which it finds in opset
                         // 24 only.
                         if (!has_kernel(m.model(), "Swish", m[x]->dtype()))
                           return m.refuse("no runtime has a Swish of this opset");
                         return whole(m) && (m[a] == nullptr || fits_attribute(m, a));
                       },
                   .build =
                       [](Rewriter& b, const Match& m) {
                         return b.op("Swish", {m[x]}, m[a] == nullptr ? AttrInit{} : AttrInit{attr("alpha", number(m, a))});
                       },
                   .opset = 24});
  rules.push_back({.name = "softsign",
                   .numerics = Numerics::kRounds,
                   .match = Div(x, Add(Abs(x), splat(1))),
                   .when = in_f32,
                   .replace = Softsign(x)});
}

void elu_rules(std::vector<Rule>& rules) {
  const Pattern positive = any_of(Greater(x, splat(0)), GreaterOrEqual(x, splat(0)));
  // The argument may be clamped at zero, so that the branch not taken does not overflow.
  const Pattern argument = any_of(Where(positive, splat(0), x), Min(x, splat(0)), x);
  const Pattern low = expm1(argument.as(s));
  const Pattern scaled = any_of(Mul(constant.as(a), low), low);
  rules.push_back({.name = "elu",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Where(positive, x, scaled), Add(any_of(Max(x, splat(0)), Relu(x)),
                                                                   any_of(Mul(constant.as(a), expm1(Min(x, splat(0)).as(s))),
                                                                          expm1(Min(x, splat(0)).as(s))))),
                   .when = [](const Match& m) { return computes(m, "Elu") && (m[a] == nullptr || fits_attribute(m, a)); },
                   .build = [](Rewriter& b, const Match& m) { return b.op("Elu", {m[x]}, {attr("alpha", number(m, a))}); }});
  rules.push_back({.name = "selu",
                   .numerics = Numerics::kRounds,
                   .match = Mul(Elu(x).as(node), constant.as(a)),
                   .when =
                       [](const Match& m) {
                         return computes(m, "Selu") && fits_attribute(m, a) && float_attr(m.node(node), "alpha").has_value();
                       },
                   .build =
                       [](Rewriter& b, const Match& m) {
                         return b.op("Selu", {m[x]},
                                     {attr("alpha", number(*float_attr(m.node(node), "alpha"))), attr("gamma", number(m, a))});
                       }});
}

// Models write 0.16666666, 0.16666667 or 0.1666667: the attribute may be off by an ulp.
bool has_slope_of_a_sixth(const Node& n) {
  const auto alpha = float_attr(n, "alpha");
  return alpha && std::abs(*alpha - 1.0 / 6) < 2e-8;
}

void hard_rules(std::vector<Rule>& rules) {
  const Pattern six = Clip(Add(x, splat(3)), splat(0), splat(6));
  rules.push_back({.name = "hard_sigmoid",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Div(six, splat(6)), Mul(six, splat(1.0 / 6))),
                   .when = computed("HardSigmoid"),
                   .build =
                       [](Rewriter& b, const Match& m) {
                         return b.op("HardSigmoid", {m[x]}, {attr("alpha", number(1.0 / 6)), attr("beta", number(0.5))});
                       },
                   .opset = 11});
  rules.push_back(
      {.name = "hard_sigmoid_with_slope",
       .numerics = Numerics::kRounds,
       .match = Clip(Add(any_of(Mul(x, constant.as(a)), Div(x, constant.as(d))), constant.as(b_)), splat(0), splat(1)),
       .when =
           [](const Match& m) {
             return computes(m, "HardSigmoid") && fits_attribute(m, m[a] != nullptr ? a : d) && fits_attribute(m, b_) &&
                    (m[a] != nullptr || *m.splat(d) != 0);
           },
       .build =
           [](Rewriter& b, const Match& m) {
             const double slope = m[a] != nullptr ? *m.splat(a) : 1 / *m.splat(d);
             return b.op("HardSigmoid", {m[x]}, {attr("alpha", number(slope)), attr("beta", number(m, b_))});
           },
       .opset = 11});
  const Pattern sixth = HardSigmoid(x).as(node).attr("beta", number(0.5));
  rules.push_back({.name = "hard_swish",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Mul(x, sixth), Div(Mul(x, six), splat(6)), Mul(Mul(x, six), splat(1.0 / 6))),
                   .when =
                       [](const Match& m) {
                         return computes(m, "HardSwish") && (m[node] == nullptr || has_slope_of_a_sixth(m.node(node)));
                       },
                   .replace = HardSwish(x),
                   .opset = 14});
}

}  // namespace

Pass fuse_activations() {
  std::vector<Rule> rules;
  bounds_rules(rules);
  sigmoid_rules(rules);
  elu_rules(rules);
  hard_rules(rules);
  return rules;
}

}  // namespace sardonyx::onnx
