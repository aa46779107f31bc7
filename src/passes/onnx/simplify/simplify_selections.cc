//   Where(true, x, y), Where(c, x, x)        =>   x
//   Where(Not c, x, y)                       =>   Where(c, y, x)
//   And(x, true), Or(x, false), And(x, x)    =>   x
//   Equal(x, true), Xor(x, false)            =>   x
//   Equal(x, false), Xor(x, true)            =>   Not(x)
//   Not(Not x)                               =>   x
//   Equal(Cast(x), 0), Equal(Cast(x), 1)     =>   Not(x), x      x is bool
//   Equal(i, i), i <= i, i < i ...            =>   true, true, false      only integers, at most 64 elements
//   Cast(i) > 0, Cast(i) >= 0 ...             =>   i > 0, i >= 0 ...      casts to floats keep the sign
//   Not(i < j), Not(i <= j) ...               =>   i >= j, i > j ...      only integers, because of NaN
//
// What stops it: a condition or branch that determines the result's shape; a negated comparison with other
// users.
#include <array>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, y{"y"}, c{"c"};

Value* keep_x(Rewriter&, const Match& m) { return m[x]; }
bool integers(const Match& m) { return is_integer(m[x]->dtype()); }

// A constant of this size takes no more space than a node that compares a value with itself.
constexpr int64_t kSmall = 64;

bool has_known_comparison(const Match& m) {
  const auto size = m.root().result()->type()->static_size();
  return is_integer(m[x]->dtype()) && size && *size <= kSmall;
}

Value* everywhere(Rewriter& b, const Match& m, bool truth) {
  std::vector<int64_t> shape;
  for (Dim d : m.root().result()->type()->dims()) shape.push_back(d.value());
  return b.full(DType::kBool, std::move(shape), static_cast<double>(truth));
}

// Whether the constant provably has no more axes than x.
bool adds_no_axes(const Match& m, const Value* constant) { return m[x]->ranked() || constant->type()->rank() == 0; }

// JAX divides sizes as floats and compares them. As an integer comparison, inference may know the result.
bool is_sign_of_integer(const Match& m) {
  const DType from = m[x]->dtype(), to = m[y]->dtype();
  return (from == DType::kI32 || from == DType::kI64) && is_float(to) && adds_no_axes(m, m[c]);
}

Value* sign_of_integer(Rewriter& b, const Match& m) { return b.like(m.root(), std::array{m[x], b.scalar(m[x]->dtype(), 0)}); }

// Whether v is a bool that is everywhere `truth`.
bool is_truth(const Match& m, Var v, bool truth) {
  const auto s = m[v]->dtype() == DType::kBool ? m.splat(v) : std::nullopt;
  return s && (*s != 0) == truth;
}
bool is_number_of_truth(const Match& m, double v) {
  return m[x]->dtype() == DType::kBool && m.splat(c) == v && adds_no_axes(m, m[c]);
}
bool is_true(const Match& m) { return is_truth(m, c, true); }
bool is_false(const Match& m) { return is_truth(m, c, false); }

}  // namespace

Pass simplify_selections() {
  const Pattern k = constant.as(c), cast = Cast(x).as(y), zero = splat(0).as(c);
  return std::vector<Rule>{
      {.name = "where_true", .match = Where(k, x, any), .when = is_true, .build = keep_x},
      {.name = "where_false", .match = Where(k, any, x), .when = is_false, .build = keep_x},
      {.name = "where_same", .match = Where(any, x, x), .build = keep_x},
      {.name = "where_not", .match = Where(Not(c), x, y), .replace = Where(c, y, x)},
      {.name = "not_not", .match = Not(Not(x)), .build = keep_x},
      {.name = "neutral_truth", .match = any_of(And(x, k), Equal(x, k)), .when = is_true, .build = keep_x},
      {.name = "neutral_falsehood", .match = any_of(Or(x, k), Xor(x, k)), .when = is_false, .build = keep_x},
      {.name = "same_truth", .match = any_of(And(x, x), Or(x, x)), .build = keep_x},
      {.name = "equal_false",
       .match = Equal(x, k),
       .when = is_false,
       .build = [](Rewriter& b, const Match& m) { return b.Not(m[x]); }},
      {.name = "equal_zero",
       .match = Equal(Cast(x), k),
       .when = [](const Match& m) { return is_number_of_truth(m, 0); },
       .build = [](Rewriter& b, const Match& m) { return b.Not(m[x]); },
       .same_type = true},
      {.name = "equal_one",
       .match = Equal(Cast(x), k),
       .when = [](const Match& m) { return is_number_of_truth(m, 1); },
       .build = keep_x,
       .same_type = true},
      {.name = "sign_of_integer",
       .match = any_of(Greater(cast, zero), GreaterOrEqual(cast, zero), Less(cast, zero), LessOrEqual(cast, zero)),
       .when = is_sign_of_integer,
       .build = sign_of_integer,
       .opset = 9,
       .same_type = true},
      {.name = "xor_true",
       .match = Xor(x, k),
       .when = is_true,
       .build = [](Rewriter& b, const Match& m) { return b.Not(m[x]); }},
      {.name = "equal_to_itself",
       .match = any_of(Equal(x, x), LessOrEqual(x, x), GreaterOrEqual(x, x)),
       .when = has_known_comparison,
       .build = [](Rewriter& b, const Match& m) { return everywhere(b, m, true); }},
      {.name = "less_than_itself",
       .match = any_of(Less(x, x), Greater(x, x)),
       .when = has_known_comparison,
       .build = [](Rewriter& b, const Match& m) { return everywhere(b, m, false); }},
      {.name = "not_less", .match = Not(sole(Less(x, y))), .when = integers, .replace = GreaterOrEqual(x, y), .opset = 12},
      {.name = "not_greater", .match = Not(sole(Greater(x, y))), .when = integers, .replace = LessOrEqual(x, y), .opset = 12},
      {.name = "not_less_or_equal",
       .match = Not(sole(LessOrEqual(x, y))),
       .when = integers,
       .replace = Greater(x, y),
       .opset = 12},
      {.name = "not_greater_or_equal",
       .match = Not(sole(GreaterOrEqual(x, y))),
       .when = integers,
       .replace = Less(x, y),
       .opset = 12},
  };
}

}  // namespace sardonyx::onnx
