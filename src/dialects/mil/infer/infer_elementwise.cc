// Elementwise ops, activations and normalizations.
#include <fmt/format.h>

#include "dialects/mil/infer/rule_util.h"
#include "dialects/mil/infer/rules.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::mil::rules {

void same(InferContext& c) { set_same(c); }

void identity(InferContext& c) {
  set_same(c);
  if (auto v = c.value(0); v && carries_value(c.input(0))) c.set_value(0, std::move(*v));
}

void cast(InferContext& c) {
  const DType to = param_dtype(c, "dtype");
  set_same_shape(c, to);
  const bool integers = (to == DType::kI32 || to == DType::kI64) && carries_value(c.input(0)) && dtype_of(c, 0) != DType::kBool;
  if (!integers) return;
  if (auto v = c.value(0)) c.set_value(0, std::move(*v));
}

// These have ONNX semantics.
void add_op(InferContext& c) { onnx::rules::add_op(c); }
void sub_op(InferContext& c) { onnx::rules::sub_op(c); }
void mul_op(InferContext& c) { onnx::rules::mul_op(c); }
void maximum(InferContext& c) { onnx::rules::max_op(c); }
void minimum(InferContext& c) { onnx::rules::min_op(c); }
void broadcasting(InferContext& c) { onnx::rules::broadcasting(c); }
void broadcasting_bool(InferContext& c) { onnx::rules::broadcasting_bool(c); }
void equal(InferContext& c) { onnx::rules::equal_op(c); }
void less(InferContext& c) { onnx::rules::less_op(c); }
void less_equal(InferContext& c) { onnx::rules::less_or_equal_op(c); }
void greater(InferContext& c) { onnx::rules::greater_op(c); }
void greater_equal(InferContext& c) { onnx::rules::greater_or_equal_op(c); }
void logical_and(InferContext& c) { onnx::rules::and_op(c); }
void logical_or(InferContext& c) { onnx::rules::or_op(c); }
void logical_not(InferContext& c) { onnx::rules::not_op(c); }

namespace {

// Integers of rank 0 or 1, element by element.
template <class F>
void combine(InferContext& c, F&& f) {
  const Type* t = c.node().result(0)->type();
  if (!carries_value(t) || dtype_of(c, 0) == DType::kBool) return;
  const auto x = c.value(0), y = c.value(1);
  if (!x || !y) return;
  const size_t n = std::max(x->elements.size(), y->elements.size());
  if ((x->elements.size() != 1 && x->elements.size() != n) || (y->elements.size() != 1 && y->elements.size() != n)) return;
  SymbolicValue out;
  out.scalar = t->rank() == 0;
  for (size_t i = 0; i < n; ++i) {
    const Dim d = f(x->elements[x->elements.size() == 1 ? 0 : i], y->elements[y->elements.size() == 1 ? 0 : i]);
    out.elements.push_back(d.is_anonymous() ? c.dims().fresh_unknown() : d);
  }
  c.set_value(0, std::move(out));
}

}  // namespace

void floor_div(InferContext& c) {
  broadcasting(c);
  combine(c, [&](Dim x, Dim y) { return y.is(0) ? Dim() : y.is(1) ? x : c.dims().floordiv(x, y); });
}

void mod(InferContext& c) {
  broadcasting(c);
  combine(c, [&](Dim x, Dim y) { return y.is(0) ? Dim() : c.dims().mod(x, y); });
}

// Integer operands give an integer, known only if there is no remainder.
void real_div(InferContext& c) {
  broadcasting(c);
  combine(c, [&](Dim x, Dim y) {
    if (y.is(0)) return Dim();
    const auto exact = c.dims().divide_exactly(x, y);
    return exact ? *exact : Dim();
  });
}

void select(InferContext& c) { onnx::rules::where_op(c); }

// One parameter per channel, the second axis.
void per_channel(InferContext& c) {
  const Type* x = c.ranked(0);
  need_rank_at_least(c, 0, 3);
  for (std::string_view name : {"alpha", "beta"}) {
    const size_t i = operand(c, name);
    const Type* t = i == kNoSlot ? nullptr : c.ranked(i);
    if (t == nullptr) continue;
    need_rank(c, i, 1);
    if (x != nullptr) same_dim(c, x->dim(1), t->dim(0), fmt::format("the number of channels and the size of {}", name));
  }
  set_same(c);
}

void gelu(InferContext& c) {
  const auto mode = param_string(c, "mode");
  if (mode && *mode != "exact" && *mode != "tanh_approximation" && *mode != "sigmoid_approximation")
    c.fail(fmt::format("mode '{}' is not known", *mode));
  set_same(c);
}

void layer_norm(InferContext& c) {
  const Type* x = c.ranked(0);
  if (const auto axes = param_ints(c, "axes"); axes && x != nullptr) (void)normal_axes(c, *axes, x->rank());
  set_same(c);
}

void softmax(InferContext& c) {
  const Type* x = c.ranked(0);
  if (const auto axis = param_int(c, "axis"); axis && x != nullptr && x->rank() > 0) (void)normal_axis(c, *axis, x->rank());
  set_same(c);
}

void quantize(InferContext& c) { set_same_shape(c, param_dtype(c, "output_dtype")); }

void dequantize(InferContext& c) {
  const size_t scale = operand(c, "scale");
  if (scale != kNoSlot) set_same_shape(c, dtype_of(c, scale));
}

}  // namespace sardonyx::mil::rules
