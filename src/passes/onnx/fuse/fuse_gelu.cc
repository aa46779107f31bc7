//   x ──┬── Mul(1/sqrt 2) ── Erf ── Add(1) ──┐
//       └── Mul(0.5) ───────────────────── Mul ── y            =>   Gelu(x)
//   x ──┬── x + 0.044715 x^3 ── Mul(sqrt(2/pi)) ── Tanh ── Add(1) ──┐
//       └── Mul(0.5) ──────────────────────────────────────────── Mul ── y   =>   Gelu<approximate="tanh">(x)
//
// Opset 20. The factors may have any order and association. The argument of Erf may be negated (1 - erf(-z),
// which JAX makes of erfc). The cube may be a power or two products, or be factored out: x (1 + 0.044715
// x^2).
//
// What stops it: constants that differ by more than an ulp, an inner value with another user, f64
// (onnxruntime has no kernel).
// Rounds: the parts become one kernel.
#include <cmath>

#include "dialects/onnx/refusals.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, square{"square"}, cube{"cube"};

bool is_square(const Value* v, const Value* of, PassContext& c) {
  const Node* n = v->def();
  if (n == nullptr) return false;
  if (n->is("Mul")) return n->input(0) == of && n->input(1) == of;
  return n->is("Pow") && n->input(0) == of && c.splat(n->input(1)) == 2.0;
}

bool is_cube(const Value* v, const Value* of, PassContext& c) {
  const Node* n = v->def();
  if (n == nullptr) return false;
  if (n->is("Pow")) return n->input(0) == of && c.splat(n->input(1)) == 3.0;
  return n->is("Mul") &&
         ((n->input(0) == of && is_square(n->input(1), of, c)) || (n->input(1) == of && is_square(n->input(0), of, c)));
}

bool fits(const Match& m) {
  const DType t = m[x]->dtype();
  // For bfloat16 the parts have no kernels either.
  if (t != DType::kBF16 && !has_kernel(m.model(), "Gelu", t)) return m.refuse("onnxruntime has no Gelu of this element type");
  return has_no_other_users(m) || m.refuse("a part of it has another user");
}

bool fits_tanh(const Match& m) {
  PassContext& c = m.context();
  if (m[square] != nullptr && !is_square(m[square], m[x], c)) return m.refuse("the square is of something else");
  if (m[cube] != nullptr && !is_cube(m[cube], m[x], c)) return m.refuse("the cube is of something else");
  return fits(m);
}

// x * 0.5 * one_up in any association, or x * (0.5 + 0.5 * erf).
Pattern product(const Pattern& one_up, const Pattern& raw) {
  const Pattern half = splat(0.5);
  return any_of(Mul(any_of(Mul(x, half), Div(x, splat(2))), one_up), Mul(Mul(x, one_up), half), Mul(x, Mul(one_up, half)),
                Div(Mul(x, one_up), splat(2)), Mul(x, Div(one_up, splat(2))), Mul(x, Add(Mul(raw, half), half)));
}

}  // namespace

Pass fuse_gelu() {
  const double root2 = std::sqrt(2.0);
  const Pattern z = any_of(Mul(x, splat(1 / root2)), Div(x, splat(root2)));
  const Pattern minus_z = any_of(Mul(Neg(x), splat(1 / root2)), Div(Neg(x), splat(root2)), Mul(x, splat(-1 / root2)),
                                 Div(x, splat(-root2)), Neg(z));
  const Pattern erf_up = any_of(Add(Erf(z), splat(1)), Sub(splat(1), Erf(minus_z)));

  const double k = std::sqrt(2 / M_PI);
  const Pattern third = Mul(any.as(cube), splat(0.044715)), second = Add(Mul(any.as(square), splat(0.044715)), splat(1));
  const Pattern inner = any_of(Mul(Add(x, third), splat(k)), Mul(Mul(x, splat(k)), second), Mul(x, Mul(second, splat(k))),
                               Mul(Mul(x, second), splat(k)), Mul(Add(x, Mul(square, Mul(x, splat(0.044715)))), splat(k)),
                               Mul(Add(x, Mul(x, Mul(square, splat(0.044715)))), splat(k)));
  const Pattern tanh_up = Add(Tanh(inner), splat(1));

  std::vector<Rule> rules;
  rules.push_back({.name = "erf",
                   .numerics = Numerics::kRounds,
                   .match = product(erf_up, Erf(z)),
                   .when = fits,
                   .replace = Gelu(x),
                   .opset = 20});
  rules.push_back({.name = "tanh",
                   .numerics = Numerics::kRounds,
                   .match = product(tanh_up, Tanh(inner)),
                   .when = fits_tanh,
                   .replace = Gelu(x).attr("approximate", "tanh"),
                   .opset = 20});
  return rules;
}

}  // namespace sardonyx::onnx
