// div a b     floats: a / b;  integers: rounded to zero, a / 0 = -1 (all bits set), least / -1 = least
//             a sum over n elements, divided by n: ReduceMean
// rem a b     the sign of a;  integers: a rem 0 = a, least rem -1 = 0
//
// The integer results are those of XLA.
//
// onnxruntime aborts the run at an integer division by zero, and least / -1 ends the process on x86. Divisors
// that are constants, or sizes known to be positive, need no guard; others get one.
#include <algorithm>

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {
namespace {

// Whether y can never be 0 or -1.
bool is_safe_divisor(Lowering& ctx, Value* y) {
  auto safe = [&](int64_t v) { return v != 0 && v != -1; };
  if (const TensorPtr& payload = y->constant()) {
    auto values = payload->to_ints();
    return values && std::ranges::all_of(*values, safe);
  }
  const SymbolicValue* known = ctx.b.facts().find(*y);
  if (known == nullptr) return false;
  return std::ranges::all_of(known->elements, [&](Dim d) {
    if (d.is_int()) return safe(d.value());
    auto least = ctx.b.dims().range(d).min;
    return least && *least >= 1;
  });
}

Value* integer_div(Lowering& ctx, Value* x, Value* y) {
  if (is_safe_divisor(ctx, y)) return ctx.via("Div", {x, y});
  DType t = x->dtype();
  Value* one = ctx.b.scalar_int(t, 1);
  Value* zero = ctx.via("Equal", {y, ctx.b.scalar_int(t, 0)});
  if (is_unsigned(t)) {
    Value* all_bits = ctx.b.scalar_int(t, -1);
    return ctx.select(zero, all_bits, ctx.via("Div", {x, ctx.select(zero, one, y)}));
  }
  Value* minus_one = ctx.b.scalar_int(t, -1);
  Value* negates = ctx.via("Equal", {y, minus_one});
  Value* quotient = ctx.via("Div", {x, ctx.select(ctx.b.Or(zero, negates), one, y)});
  return ctx.select(negates, ctx.via("Neg", {x}), ctx.select(zero, minus_one, quotient));
}

// The lowering of a sum over windows multiplies their average by their size (reduce_window.cc): dividing by
// the size undoes that.
Value* as_average(Lowering& ctx, Value* sum, double size) {
  const Node* eqn = ctx.node.input(0)->def();
  if (eqn == nullptr || !eqn->is("reduce_window_sum") || sum->def() == nullptr || !sum->def()->is("Mul")) return nullptr;
  auto factor = splat_value(sum->def()->input(1));
  return factor && *factor == size ? sum->def()->input(0) : nullptr;
}

// The equation that computes v, seen through broadcasts that only repeat axes of size 1.
const Node* before_broadcasts(const Value* v) {
  const Node* eqn = v->def();
  while (eqn != nullptr && eqn->is("broadcast_in_dim") && eqn->input(0) != nullptr &&
         eqn->input(0)->type()->rank() == eqn->result()->type()->rank() && eqn->input(0)->def() != nullptr)
    eqn = eqn->input(0)->def();
  return eqn;
}

// The AveragePool that a sum over windows became (reduce_window.cc).
Node* average_below(Value* sum) {
  Node* n = sum->def();
  if (n == nullptr || !n->is("Mul")) return nullptr;
  for (n = n->input(0)->def(); n != nullptr && !n->is("AveragePool"); n = n->input(0)->def()) {
    if (!n->is("Transpose") && !n->is("Reshape") && !n->is("Squeeze") && !n->is("Unsqueeze") && !n->is("Cast")) return nullptr;
  }
  return n;
}

// A sum over windows divided by the same sum of ones is the average without the padding.
Value* as_average_of_present(Lowering& ctx, Value* sum) {
  const Value* dividend = ctx.node.input(0);
  const Node *over = dividend->def(), *by = before_broadcasts(ctx.node.input(1));
  if (over == nullptr || by == nullptr || over == by || !over->is("reduce_window_sum") || !by->is("reduce_window_sum"))
    return nullptr;
  const Node* ones = by->input(0)->def();
  if (ones == nullptr || !ones->is("broadcast_in_dim") || splat_value(ones->input(0)) != 1.0) return nullptr;
  for (std::string_view name : {"window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"}) {
    const Attr *a = over->attr(name), *b = by->attr(name);
    if (a == nullptr || b == nullptr || !(*a == *b)) return nullptr;
  }
  Node* average = average_below(sum);
  if (average == nullptr || !dividend->has_one_use()) return nullptr;
  average->set_attrs(ctx.b.graph().model().without_attr(average->attrs(), "count_include_pad"));
  return sum->def()->input(0);
}

}  // namespace

std::vector<Value*> lower_div(Lowering& ctx) {
  auto xs = ctx.operands();
  if (!is_integer(ctx.out_dtype())) {
    if (auto divisor = splat_value(xs[1]); divisor && xs[0]->type() == ctx.out_type()) {
      if (Value* mean = as_mean(ctx, xs[0], *divisor)) return {mean};
      if (Value* average = as_average(ctx, xs[0], *divisor)) return {average};
    }
    if (Value* average = xs[0]->type() == ctx.out_type() ? as_average_of_present(ctx, xs[0]) : nullptr) return {average};
    return {ctx.via("Div", xs)};
  }
  return {integer_div(ctx, xs[0], xs[1])};
}

std::vector<Value*> lower_rem(Lowering& ctx) {
  auto xs = ctx.operands();
  Value *x = xs[0], *y = xs[1];
  DType t = ctx.out_dtype();
  if (!is_integer(t)) return {ctx.via("Mod", xs, {attr("fmod", 1)})};
  // onnxruntime computes fmod of 64-bit integers in double.
  if (t == DType::kI64) return {ctx.b.Sub(x, ctx.b.Mul(y, integer_div(ctx, x, y)))};
  AttrInit fmod = {attr("fmod", is_signed(t) ? 1 : 0)};
  if (is_safe_divisor(ctx, y)) return {ctx.via("Mod", xs, fmod)};
  Value* zero = ctx.via("Equal", {y, ctx.b.scalar_int(t, 0)});
  return {ctx.select(zero, x, ctx.via("Mod", {x, ctx.select(zero, ctx.b.scalar_int(t, 1), y)}, fmod))};
}

}  // namespace sardonyx::jax_to_onnx
