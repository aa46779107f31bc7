//   Pow(x, 2)      =>   Mul(x, x)
//   Pow(x, 0.5)    =>   Sqrt(x)             if x is never negative: Pow(-inf, 0.5) is inf, Sqrt(-inf) is NaN
//   Pow(x, -1)     =>   Reciprocal(x)
//   Div(x, 2^k)    =>   Mul(x, 2^-k)        exact: both round the same number
//
//   ReduceMean over all positions, channels first   =>   GlobalAveragePool(x)     keeps blocked layouts of Conv
//   Transpose that only moves axes of size 1        =>   Reshape(x)               moves no bytes
//   LayerNormalization by large ones                =>   ... by ConstantOfShape   takes no space in the file
//
// Replaces operators by cheaper ones, with the same number of nodes. Rounds: the rewritten powers round once,
// Pow may round differently.
// What stops it: a mean that a normalization subtracts (other passes look for it); integers; a divisor that
// is not a power of two, or whose reciprocal is not a normal number.
#include <cmath>
#include <limits>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/shapes/shape_target.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, c{"c"};
constexpr size_t kLargeOnes = 4096;  // bytes

bool is_real(const Match& m) { return is_float(m[x]->dtype()); }

// Whether the node is the mean of each channel over its positions.
bool is_global_average(const Match& m) {
  const Value* v = m[x];
  const Node& n = m.root();
  if (v->dtype() != DType::kF32 || !v->ranked() || v->type()->rank() < 4 || v->type()->rank() > 5 ||
      int_attr(n, "keepdims") != 1)
    return false;
  // The driver checks the axes: it compares the result's type with the pool's.
  for (size_t i = 2; i < v->type()->rank(); ++i) {
    if (m.dims().range(v->type()->dim(i)).min.value_or(0) < 1) return false;
  }
  // Such a mean is a statistic of a normalization.
  const Node* from = v->def();
  if (from != nullptr && ((from->is("Mul") && from->input(0) == from->input(1)) || from->is("Pow"))) return false;
  for (const Use& u : n.result()->uses()) {
    if (u.owner->is("Sub") || u.owner->is("Mul")) return false;
  }
  return true;
}

// Whether the transpose only moves axes of size 1 and a constant can express the result's shape.
bool moves_nothing(const Match& m) {
  const Value *from = m[x], *to = m.root().result();
  const auto perm = ints_attr(m.root(), "perm");
  if (!perm || !from->ranked() || !to->ranked()) return false;
  int64_t last = 0;
  bool moves = false;
  for (size_t i = 0; i < perm->size(); ++i) {
    moves |= (*perm)[i] != static_cast<int64_t>(i);
    if (from->type()->dim(static_cast<size_t>((*perm)[i])).is(1)) continue;
    if ((*perm)[i] < last) return false;
    last = (*perm)[i];
  }
  return moves && constant_target(*from, *to->type(), m.dims());
}

// The reciprocal of a power of two if it is a normal number; else 0.
double reciprocal(double v, DType t) {
  const int greatest = t == DType::kF64 ? 1021 : t == DType::kF16 ? 13 : 125, exponent = std::ilogb(v);
  return exponent >= -greatest && exponent <= greatest && std::abs(v) == std::exp2(exponent) ? 1 / v : 0;
}

}  // namespace

Pass reduce_strength() {
  return std::vector<Rule>{
      {.name = "square", .numerics = Numerics::kRounds, .match = Pow(x, splat(2)), .when = is_real, .replace = Mul(x, x)},
      {.name = "root",
       .numerics = Numerics::kRounds,
       .match = Pow(x, splat(0.5)),
       .when = [](const Match& m) { return is_real(m) && is_nonnegative(m.context(), m[x]); },
       .replace = Sqrt(x)},
      {.name = "reciprocal",
       .numerics = Numerics::kRounds,
       .match = Pow(x, splat(-1)),
       .when = is_real,
       .replace = Reciprocal(x)},
      {.name = "sum_of_two",
       .match = Sum(x, c).since(8),
       .when = [](const Match& m) { return !keeps_sum(m.root()); },
       .replace = Add(x, c)},  // which other rules know
      {.name = "made_ones",    // a fusion needed them; by now no scale has been folded in
       .match = any_of(LayerNormalization(x, splat(1).as(c), rest), RMSNormalization(x, splat(1).as(c), rest)),
       .when = [](const Match& m) { return m[c]->constant()->is_splat() && m[c]->constant()->byte_size() > kLargeOnes; },
       .build =
           [](Rewriter& b, const Match& m) {
             const auto one = Tensor::full(m[c]->dtype(), {1}, 1);
             std::vector<Value*> operands = operands_of(m.root());
             operands[1] = b.op("ConstantOfShape", {b.i64s(m[c]->constant()->shape())}, {attr("value", one)});
             return b.like(m.root(), operands);
           },
       .same_type = true},
      {.name = "global_average",
       .numerics = Numerics::kRounds,
       .match = ReduceMean(x, rest),
       .when = is_global_average,
       .replace = GlobalAveragePool(x)},
      {.name = "moves_nothing",
       .match = Transpose(x),
       .when = moves_nothing,
       .build =
           [](Rewriter& b, const Match& m) {
             return b.Reshape(m[x], b.i64s(*constant_target(*m[x], *m.root().result()->type(), m.dims())));
           },
       .opset = 13,
       .same_type = true},
      {.name = "by_power_of_two",
       .match = Div(x, constant.as(c)),
       .when =
           [](const Match& m) {
             const auto v = is_real(m) ? m.splat(c) : std::nullopt;
             return v && *v != 1 && *v != -1 && reciprocal(*v, m[x]->dtype()) != 0;
           },
       .build =
           [](Rewriter& b, const Match& m) {
             const auto shape = m[c]->constant()->shape();
             const DType t = m[x]->dtype();
             return b.Mul(m[x], b.constant(Tensor::full(t, {shape.begin(), shape.end()}, reciprocal(*m.splat(c), t))));
           }},
  };
}

}  // namespace sardonyx::onnx
