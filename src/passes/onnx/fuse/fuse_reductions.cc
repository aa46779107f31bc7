//   x ── ReduceSum ── Div(n) ── y              =>   ReduceMean(x)         n = the number of summed elements
//   x ── Mul(x, x) ── ReduceSum ── y           =>   ReduceSumSquare(x)
//   x ── ReduceSumSquare ── Sqrt ── y          =>   ReduceL2(x)
//   x ── Abs ── ReduceSum ── y                 =>   ReduceL1(x)
//   x ── Exp ── ReduceSum ── Log ── y          =>   ReduceLogSumExp(x)
//
// The model may compute n at run time from the same sizes, as JAX and PyTorch write it: Shape ── Cast ...
// What stops it: an inner value with another user; for the mean, another number, or sizes that may be zero.
// Rounds: nothing overflows that did not before.
#include <cmath>

#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, sum{"sum"}, n{"n"};

bool is_real(const Match& m) {
  const DType t = m[x]->dtype();
  return t == DType::kF32 || t == DType::kF64 || t == DType::kF16;
}

// The number of elements per sum. It must not be zero: then the quotient is NaN, but a mean need not be.
std::optional<Dim> count(const Match& m) {
  const auto axes = read::Reduce(m.node(sum), m.context().facts).axes();
  if (!axes) return std::nullopt;
  Dim product = Dim::of(1);
  for (int64_t a : *axes) {
    const Dim d = m.node(sum).input(0)->type()->dim(static_cast<size_t>(a));
    if (m.dims().range(d).min < 1) {
      m.refuse("there may be nothing to sum");
      return std::nullopt;
    }
    product = m.dims().mul(product, d);
  }
  return product;
}

// Whether n is computed at run time from the sizes of the reduced axes.
bool is_count_at_run_time(const Match& m) {
  const Value* v = m[n];
  while (v->def() != nullptr && v->def()->is("Cast") && bit_width(v->dtype()) >= (is_float(v->dtype()) ? 16 : 32))
    v = v->def()->input(0);
  const auto number = m.context().symbolic(v);
  return number && number->elements.size() == 1 && same_shape(m[sum], m.root().result()) && count(m) == number->elements[0];
}

bool is_mean(const Match& m, bool inverse) {
  if (!is_real(m)) return false;
  if (!m[n]->is_constant()) return !inverse && is_count_at_run_time(m);
  const auto number = m.splat(n);
  const auto counted = count(m);
  if (!number || !counted || !counted->is_int()) return false;
  const auto wanted = static_cast<double>(counted->value());
  if (!inverse) return *number == wanted;
  const double eps = m[x]->dtype() == DType::kF64 ? 1e-15 : m[x]->dtype() == DType::kF32 ? 1e-7 : 1e-3;
  return std::abs(*number * wanted - 1) <= eps;
}

// A reduction of v by another operator, with the same axes as the matched one.
Value* reduce(Rewriter& b, const Match& m, std::string_view name, Value* v) {
  const read::Reduce old(m.node(sum), m.context().facts);
  const auto keep = old.keepdims();
  const auto axes = old.axes();
  if (!keep || !axes) return nullptr;
  return b.reduce(name, v, *axes, *keep);
}

bool whole(const Match& m) { return is_real(m) && has_no_other_users(m); }

Rule of(std::string_view name, const Pattern& p, std::string_view op) {
  return {.name = name,
          .numerics = Numerics::kRounds,
          .match = p,
          .when = whole,
          .build = [op](Rewriter& b, const Match& m) { return reduce(b, m, op, m[x]); },
          .opset = 13};
}

}  // namespace

Pass fuse_reductions() {
  const Pattern total = sole(ReduceSum(x, rest).as(sum));
  std::vector<Rule> rules;
  rules.push_back({.name = "mean",
                   .numerics = Numerics::kRounds,
                   .match = Div(total, n),
                   .when = [](const Match& m) { return is_mean(m, false); },
                   .build = [](Rewriter& b, const Match& m) { return reduce(b, m, "ReduceMean", m[x]); },
                   .opset = 13});
  rules.push_back({.name = "mean_by_factor",
                   .numerics = Numerics::kRounds,
                   .match = Mul(total, constant.as(n)),
                   .when = [](const Match& m) { return is_mean(m, true); },
                   .build = [](Rewriter& b, const Match& m) { return reduce(b, m, "ReduceMean", m[x]); },
                   .opset = 13});
  // Restores the form that the normalization passes look for.
  rules.push_back({.name = "mean_of_squares",
                   .numerics = Numerics::kRounds,
                   .match = Div(sole(ReduceSumSquare(x, rest).as(sum)), n),
                   .when = [](const Match& m) { return is_mean(m, false); },
                   .build = [](Rewriter& b, const Match& m) { return reduce(b, m, "ReduceMean", b.Mul(m[x], m[x])); },
                   .opset = 13});
  rules.push_back(of("sum_of_squares", ReduceSum(squared(x), rest).as(sum), "ReduceSumSquare"));
  rules.push_back(of("sum_of_magnitudes", ReduceSum(Abs(x), rest).as(sum), "ReduceL1"));
  rules.push_back(of("length", Sqrt(ReduceSumSquare(x, rest).as(sum)), "ReduceL2"));
  rules.push_back(
      of("log_sum_exp", Log(any_of(ReduceSum(Exp(x), rest).as(sum), Abs(ReduceSum(Exp(x), rest).as(sum)))), "ReduceLogSumExp"));
  return rules;
}

}  // namespace sardonyx::onnx
