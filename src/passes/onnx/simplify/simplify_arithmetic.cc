//   x ── Mul 1, Div 1, Pow 1, Sub 0, Add -0 ── y      =>   x
//   x ── Mul -1, Div -1 ── y                          =>   x ── Neg ── y
//   Neg Neg x, Abs Neg x, Relu Relu x, Floor Ceil x   =>   one of them, or none
//   x + Neg y, x - Neg y, Neg x * Neg y               =>   x - y, x + y, x * y
//   (x * c) * d, (x + c) + d                          =>   x * (c * d), x + (c + d)
//   (x * c) / d, (x / c) * d, (x / c) / d             =>   x * (c / d), x * (d / c), x / (c * d), for floats
//
// Float semantics decide what is exact: x + 0 turns -0 into 0, so it equals x only up to the sign of zero
// (rounds); x - 0 and x + -0 equal x for every x; x * 0 is not 0. Constants regroup exactly among integers,
// which wrap. Among floats they regroup only if the sum does not cancel and the product stays in the range of
// normal numbers (rounds).
// What stops it: a constant that determines the result's shape; inner nodes with other users, which would be
// computed twice.
#include <array>
#include <cmath>
#include <limits>

#include "dialects/onnx/refusals.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, y{"y"}, c{"c"}, d{"d"};

bool is_int(const Match& m, Var v) { return is_integer(m[v]->dtype()); }
bool is_real(const Match& m, Var v) { return is_float(m[v]->dtype()); }

bool is_zero(const Match& m, Var v, bool negative) {
  const auto s = m.splat(v);
  return s && *s == 0 && std::signbit(*s) == negative;
}

// Bfloat16 has no Sub kernel either, so Neg is no worse.
bool can_negate(const Match& m, Var v) {
  const DType t = m[v]->dtype();
  return t == DType::kBF16 || has_kernel(m.model(), "Neg", t);
}

Value* keep_x(Rewriter&, const Match& m) { return m[x]; }

// The smallest and the largest normal number of a float type.
double least_normal(DType t) {
  switch (t) {
    case DType::kF64: return std::numeric_limits<double>::min();
    case DType::kF32:
    case DType::kBF16: return std::numeric_limits<float>::min();
    default: return 0x1p-14;  // f16
  }
}
double greatest(DType t) {
  switch (t) {
    case DType::kF64: return std::numeric_limits<double>::max();
    case DType::kF32:
    case DType::kBF16: return 3e38;
    default: return 65504;  // f16
  }
}

// Whether one constant, c op d, may replace both.
bool regroups(const Match& m, bool product) {
  if (m[c]->constant()->size() != 1 && m[d]->constant()->size() != 1) return false;
  if (is_int(m, c)) return true;
  const auto a = m.splat(c), b = m.splat(d);
  if (!a || !b) return false;
  const double r = product ? *a * *b : *a + *b;
  if (!(std::abs(r) <= greatest(m[c]->dtype()))) return false;
  if (product) {
    const double least = least_normal(m[c]->dtype());
    return std::abs(r) >= least && std::abs(*a) >= least && std::abs(*b) >= least;
  }
  // A sum rounded in advance may be off by more than the final result if x cancels most of it.
  std::array<std::byte, 8> rounded{};
  encode_element(m[c]->dtype(), rounded.data(), 0, r);
  return std::signbit(*a) == std::signbit(*b) && decode_element(m[c]->dtype(), rounded.data(), 0) == r && r - *a == *b;
}

// Whether top / bottom may replace both factors, or their product if both divide.
bool regroups_quotient(const Match& m, Var top, Var bottom, bool both_divide) {
  if (m[x]->is_constant() || !is_real(m, c)) return false;
  const auto a = m.splat(top), b = m.splat(bottom);
  if (!a || !b) return false;
  if (m[c]->constant()->size() != 1 && m[d]->constant()->size() != 1) return false;
  const double least = least_normal(m[c]->dtype()), most = greatest(m[c]->dtype());
  const auto in_range = [&](double v) { return std::abs(v) >= least && std::abs(v) <= most; };
  return in_range(*a) && in_range(*b) && in_range(both_divide ? *a * *b : *a / *b);
}

}  // namespace

Pass simplify_arithmetic() {
  const Pattern k = constant.as(c), l = constant.as(d);
  std::vector<Rule> rules = {
      {.name = "times_one", .match = Mul(x, splat(1)), .build = keep_x},
      {.name = "by_one", .match = Div(x, splat(1)), .build = keep_x},
      {.name = "power_one", .match = Pow(x, splat(1)), .build = keep_x},
      {.name = "minus_zero", .match = Sub(x, k), .when = [](const Match& m) { return is_zero(m, c, false); }, .build = keep_x},
      {.name = "plus_zero",
       .match = Add(x, k),
       .when = [](const Match& m) { return is_zero(m, c, is_real(m, c)); },
       .build = keep_x},
      {.name = "plus_positive_zero",
       .numerics = Numerics::kRounds,
       .match = Add(x, k),
       .when = [](const Match& m) { return is_zero(m, c, false); },
       .build = keep_x},
      {.name = "zero_minus",
       .numerics = Numerics::kRounds,
       .match = Sub(k, x),
       .when = [](const Match& m) { return can_negate(m, x) && (is_zero(m, c, false) || is_zero(m, c, true)); },
       .replace = Neg(x)},
      {.name = "times_minus_one",
       .match = any_of(Mul(x, splat(-1)), Div(x, splat(-1))),
       .when = [](const Match& m) { return can_negate(m, x); },
       .build = [](Rewriter& b, const Match& m) { return b.Neg(m[x]); }},
      {.name = "neg_neg", .match = Neg(Neg(x)), .build = keep_x},
      {.name = "reciprocal_reciprocal", .numerics = Numerics::kRounds, .match = Reciprocal(Reciprocal(x)), .build = keep_x},
      {.name = "abs_neg", .match = Abs(Neg(x)), .replace = Abs(x)},
      {.name = "abs_abs", .match = Abs(Abs(x).as(y)), .build = [](Rewriter&, const Match& m) { return m[y]; }},
      {.name = "relu_relu", .match = Relu(Relu(x).as(y)), .build = [](Rewriter&, const Match& m) { return m[y]; }},
      {.name = "sign_sign", .match = Sign(Sign(x).as(y)), .build = [](Rewriter&, const Match& m) { return m[y]; }},
      {.name = "round_round",
       .match = any_of(Floor(any_of(Floor(x), Ceil(x), Round(x)).as(y)), Ceil(any_of(Floor(x), Ceil(x), Round(x)).as(y)),
                       Round(any_of(Floor(x), Ceil(x), Round(x)).as(y))),
       .build = [](Rewriter&, const Match& m) { return m[y]; }},
      {.name = "plus_neg", .match = Add(x, sole(Neg(y))), .replace = Sub(x, y)},
      {.name = "minus_neg", .match = Sub(x, sole(Neg(y))), .replace = Add(x, y)},
      {.name = "neg_times_neg", .match = Mul(sole(Neg(x)), sole(Neg(y))), .replace = Mul(x, y)},
      {.name = "neg_by_neg",
       .match = Div(sole(Neg(x)), sole(Neg(y))),
       .when = [](const Match& m) { return is_real(m, x); },
       .replace = Div(x, y)},
      {.name = "neg_difference", .numerics = Numerics::kRounds, .match = Neg(sole(Sub(x, y))), .replace = Sub(y, x)},
      {.name = "times_reciprocal", .numerics = Numerics::kRounds, .match = Mul(x, sole(Reciprocal(y))), .replace = Div(x, y)},
      {.name = "by_reciprocal", .numerics = Numerics::kRounds, .match = Div(x, sole(Reciprocal(y))), .replace = Mul(x, y)},
  };
  const auto regroup = [&](std::string_view name, Numerics numerics, const Pattern& match, const Pattern& replace, bool product,
                           bool ints) {
    rules.push_back(
        {.name = name,
         .numerics = numerics,
         .match = match,
         .when = [=](const Match& m) { return !m[x]->is_constant() && is_int(m, c) == ints && regroups(m, product); },
         .replace = replace});
  };
  for (bool ints : {true, false}) {
    const Numerics numerics = ints ? Numerics::kExact : Numerics::kRounds;
    regroup(ints ? "regroup_integer_products" : "regroup_products", numerics, Mul(sole(Mul(x, k)), l), Mul(x, Mul(c, d)), true,
            ints);
    regroup(ints ? "regroup_integer_sums" : "regroup_sums", numerics, Add(sole(Add(x, k)), l), Add(x, Add(c, d)), false, ints);
  }
  const auto quotient = [&](std::string_view name, const Pattern& match, const Pattern& replace, Var top, Var bottom,
                            bool both) {
    rules.push_back({.name = name,
                     .numerics = Numerics::kRounds,
                     .match = match,
                     .when = [=](const Match& m) { return regroups_quotient(m, top, bottom, both); },
                     .replace = replace});
  };
  quotient("product_by_number", Div(sole(Mul(x, k)), l), Mul(x, Div(c, d)), c, d, false);
  quotient("quotient_times_number", Mul(sole(Div(x, k)), l), Mul(x, Div(d, c)), d, c, false);
  quotient("quotient_by_number", Div(sole(Div(x, k)), l), Div(x, Mul(c, d)), c, d, true);
  return rules;
}

}  // namespace sardonyx::onnx
