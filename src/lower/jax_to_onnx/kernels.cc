#include "lower/jax_to_onnx/kernels.h"

#include <algorithm>

#include "dialects/onnx/refusals.h"
#include "lower/jax_to_onnx/arithmetic/bitwise.h"
#include "lower/jax_to_onnx/context.h"
#include "lower/jax_to_onnx/lib/wide_integers.h"
#include "lower/jax_to_onnx/reductions/reduction.h"

namespace sardonyx::jax_to_onnx {
namespace {

[[noreturn]] void no_kernel(Lowering& ctx, std::string_view op, DType t) {
  ctx.unsupported("ONNX has no way to compute " + std::string(op) + " in " + std::string(to_string(t)));
}

// Whether exact_op() computes `op` exactly where a kernel may not.
bool has_exact_op(std::string_view op, DType t) {
  return is_integer(t) && (op == "Max" || op == "Min" || op == "Clip" || op == "Sign");
}

}  // namespace

bool has_kernel(const Lowering& ctx, std::string_view name, DType t) {
  if (static_cast<unsigned>(t) >= 64) return false;
  // bitwise() composes these if the opset lacks them (lower/jax_to_onnx/arithmetic/bitwise.h).
  if (name.starts_with("Bitwise") && ctx.b.opset() < 18) return is_integer(t);
  const Op& op = ctx.b.model().op("", name);
  if (op.inputs.empty()) return false;
  const std::string_view variable = op.inputs[name == "Where" ? 1 : 0].type_var;
  const uint64_t bit = uint64_t{1} << static_cast<unsigned>(t);
  if ((onnx::types_in_standard(op, variable) & bit) == 0) return false;
  if (onnx::is_composed(name, t)) return true;
  if (ctx.context().options().target.empty()) return onnx::has_kernel(ctx.b.model(), name, t);
  const auto kernels = onnx::kernels(ctx.context().runtime(), op);
  return std::ranges::any_of(kernels, [&](const onnx::Kernel* k) { return (k->of(variable) & bit) != 0; });
}

DType kernel_dtype(const Lowering& ctx, std::initializer_list<std::string_view> ops, DType t) {
  for (DType wide : onnx::holders(t)) {
    const bool all = std::ranges::all_of(ops, [&](std::string_view op) {
      const bool loses_order = t == DType::kU64 && wide == DType::kI64 && !onnx::is_modular(op);
      return has_kernel(ctx, op, wide) && !loses_order;
    });
    if (all) return wide;
  }
  return DType::kUndefined;
}

Value* Lowering::via(std::string_view op, std::span<Value* const> xs, AttrInit attrs) {
  DType own = xs[0]->dtype();
  DType wide = kernel_dtype(*this, {op}, own);
  if (wide == DType::kUndefined) no_kernel(*this, op, own);
  std::vector<Value*> widened(xs.begin(), xs.end());
  for (Value*& x : widened) x = cast(x, wide);
  Value* result = op.starts_with("Bitwise") ? bitwise(b, op, widened[0], widened.size() > 1 ? widened[1] : nullptr)
                  : has_exact_op(op, wide)  ? exact_op(*this, op, widened)
                                            : b.op(op, widened, std::move(attrs));
  return result->dtype() == wide ? cast(result, own) : result;
}

Value* Lowering::via(std::initializer_list<std::string_view> ops, Value* x, const std::function<Value*(Value*)>& formula,
                     bool widen_f16) {
  DType own = x->dtype();
  DType wide = own == DType::kF16 && widen_f16 ? DType::kF32 : kernel_dtype(*this, ops, own);
  if (wide == DType::kUndefined) no_kernel(*this, *ops.begin(), own);
  Value* result = formula(cast(x, wide));
  return result->dtype() == wide ? cast(result, own) : result;
}

Value* Lowering::select(Value* condition, Value* if_true, Value* if_false) {
  if (if_true == if_false) return if_true;
  DType own = if_true->dtype();
  if (own == DType::kBool) {
    auto t = jax_to_onnx::splat_value(if_true), f = jax_to_onnx::splat_value(if_false);
    // Rank 0 constants cannot enlarge the result; other operands take the general path.
    if (t && if_true->type()->rank() == 0) return *t != 0 ? b.Or(condition, if_false) : b.And(b.Not(condition), if_false);
    if (f && if_false->type()->rank() == 0) return *f != 0 ? b.Or(b.Not(condition), if_true) : b.And(condition, if_true);
  }
  DType wide = kernel_dtype(*this, {"Where"}, own);
  if (wide == DType::kUndefined) no_kernel(*this, "Where", own);
  return cast(b.Where(condition, cast(if_true, wide), cast(if_false, wide)), own);
}

namespace {

bool may_be_empty(Lowering& ctx, const Value* x, std::span<const int64_t> axes) {
  return std::ranges::any_of(axes, [&](int64_t axis) {
    return ctx.context().model().dims().range(x->type()->dim(static_cast<size_t>(axis))).min.value_or(0) < 1;
  });
}

}  // namespace

// For empty operands, onnxruntime refuses the maximum of bools, and otherwise returns the least number of the
// type in which it computes.
Value* reduce(Lowering& ctx, std::string_view op, Value* x, std::span<const int64_t> axes, bool keepdims) {
  if (axes.empty()) return x;
  DType own = x->dtype();
  const std::vector<int64_t> reduced(axes.begin(), axes.end());
  const bool is_max = op == "ReduceMax", is_empty = (is_max || op == "ReduceMin") && may_be_empty(ctx, x, axes);
  if (is_empty && own == DType::kBool) {
    Value* found = is_max ? x : ctx.b.Not(x);
    found = ctx.cast(ctx.b.reduce("ReduceSum", ctx.cast(found, DType::kI32), reduced, keepdims), DType::kBool);
    return is_max ? found : ctx.b.Not(found);
  }
  if (Value* exact = exact_reduce(ctx, op, x, axes, keepdims)) return exact;
  DType wide = kernel_dtype(ctx, {op}, own);
  if (wide == DType::kUndefined) no_kernel(ctx, op, own);
  Value* result = ctx.b.reduce(op, ctx.cast(x, wide), reduced, keepdims);
  if (is_empty && wide != own && is_integer(own)) {
    Value* end = identity_element(ctx, *find_reduction(is_max ? "max" : "min"), own);
    result = ctx.via(is_max ? "Max" : "Min", {result, ctx.cast(end, wide)});
  }
  return ctx.cast(result, own);
}

std::optional<double> splat_value(const Value* v) {
  const TensorPtr& payload = v->constant();
  return payload == nullptr || payload->is_deferred() ? std::nullopt : lower::splat_value(payload, 4096);
}

std::optional<double> Lowering::splat_value(size_t i) const {
  const Value* v = node.input(i);
  while (v->def() != nullptr && v->def()->is("broadcast_in_dim")) v = v->def()->input(0);
  if (auto known = jax_to_onnx::splat_value(v)) return known;
  // Inside the body of a call, the program's broadcast is outside of the jaxpr; in the graph it is an Expand.
  v = in(i);
  while (v->def() != nullptr && (v->def()->is("Expand") || v->def()->is("Unsqueeze"))) v = v->def()->input(0);
  return jax_to_onnx::splat_value(v);
}

std::vector<Value*> Lowering::operands() const {
  for (size_t i = 0; i < num_inputs(); ++i) {
    if (is_complex(in_dtype(i))) unsupported("no complex arithmetic");
  }
  return operands_;
}

std::vector<int64_t> stored_axes(Lowering& ctx, std::vector<int64_t> perm) {
  if (is_complex(ctx.in_dtype(0))) perm.push_back(static_cast<int64_t>(perm.size()));
  return perm;
}

}  // namespace sardonyx::jax_to_onnx
