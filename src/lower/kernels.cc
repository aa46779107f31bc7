#include "lower/kernels.h"

#include <algorithm>

#include "dialects/onnx/runtimes.h"
#include "lower/bitwise.h"
#include "lower/context.h"
#include "lower/reduction.h"
#include "lower/wide_integers.h"

namespace sardonyx {
namespace {

[[noreturn]] void no_kernel(Lowering& at, std::string_view op, DType t) {
  at.unsupported("ONNX has no way to compute " + std::string(op) + " in " + std::string(to_string(t)));
}

// Whether exact_op() has another way to compute it.
bool is_watched(std::string_view op, DType t) {
  return is_integer(t) && (op == "Max" || op == "Min" || op == "Clip" || op == "Sign");
}

}  // namespace

bool has_kernel(const Lowering& at, std::string_view name, DType t) {
  if (static_cast<unsigned>(t) >= 64) return false;
  // Composed where the opset lacks them (lower/bitwise.h).
  if (name.starts_with("Bitwise") && at.b.opset() < 18) return is_integer(t);
  const Op& op = at.b.model().op("", name);
  if (op.inputs.empty()) return false;
  const std::string_view variable = op.inputs[name == "Where" ? 1 : 0].type_var;
  const uint64_t bit = uint64_t{1} << static_cast<unsigned>(t);
  if ((onnx::types_in_standard(op, variable) & bit) == 0) return false;
  if (onnx::is_composed(name, t)) return true;
  const auto kernels = onnx::kernels(at.context().runtime(), op);
  return std::ranges::any_of(kernels, [&](const onnx::Kernel* k) { return (k->of(variable) & bit) != 0; });
}

DType kernel_dtype(const Lowering& at, std::initializer_list<std::string_view> ops, DType t) {
  for (DType wide : onnx::holders(t)) {
    const bool all = std::ranges::all_of(ops, [&](std::string_view op) {
      const bool loses_order = t == DType::kU64 && wide == DType::kI64 && !onnx::is_modular(op);
      return has_kernel(at, op, wide) && !loses_order;
    });
    if (all) return wide;
  }
  return DType::kUndefined;
}

Value* via(Lowering& at, std::string_view op, std::span<Value* const> xs, AttrInit attrs) {
  DType own = xs[0]->dtype();
  DType wide = kernel_dtype(at, {op}, own);
  if (wide == DType::kUndefined) no_kernel(at, op, own);
  std::vector<Value*> widened(xs.begin(), xs.end());
  for (Value*& x : widened) x = at.cast(x, wide);
  Value* result = op.starts_with("Bitwise") ? bitwise(at.b, op, widened[0], widened.size() > 1 ? widened[1] : nullptr)
                  : is_watched(op, wide)    ? exact_op(at, op, widened)
                                            : at.b.op(op, widened, std::move(attrs));
  return result->dtype() == wide ? at.cast(result, own) : result;
}

Value* via(Lowering& at, std::initializer_list<std::string_view> ops, Value* x, const std::function<Value*(Value*)>& formula,
           bool widen_f16) {
  DType own = x->dtype();
  DType wide = own == DType::kF16 && widen_f16 ? DType::kF32 : kernel_dtype(at, ops, own);
  if (wide == DType::kUndefined) no_kernel(at, *ops.begin(), own);
  Value* result = formula(at.cast(x, wide));
  return result->dtype() == wide ? at.cast(result, own) : result;
}

Value* select(Lowering& at, Value* condition, Value* if_true, Value* if_false) {
  if (if_true == if_false) return if_true;
  DType own = if_true->dtype();
  if (own == DType::kBool) {
    auto t = splat_value(if_true), f = splat_value(if_false);
    // Rank 0 constants cannot enlarge the result; others go the long way.
    if (t && if_true->type()->rank() == 0)
      return *t != 0 ? at.b.Or(condition, if_false) : at.b.And(at.b.Not(condition), if_false);
    if (f && if_false->type()->rank() == 0)
      return *f != 0 ? at.b.Or(at.b.Not(condition), if_true) : at.b.And(condition, if_true);
  }
  DType wide = kernel_dtype(at, {"Where"}, own);
  if (wide == DType::kUndefined) no_kernel(at, "Where", own);
  return at.cast(at.b.Where(condition, at.cast(if_true, wide), at.cast(if_false, wide)), own);
}

namespace {

bool may_be_empty(Lowering& at, const Value* x, std::span<const int64_t> axes) {
  return std::ranges::any_of(axes, [&](int64_t axis) {
    return at.context().model().dims().range(x->type()->dim(static_cast<size_t>(axis))).min.value_or(0) < 1;
  });
}

}  // namespace

// Of no element, onnxruntime refuses the largest of booleans, and takes the least number of the type that it computes in.
Value* reduce(Lowering& at, std::string_view op, Value* x, std::span<const int64_t> axes, bool keepdims) {
  if (axes.empty()) return x;
  DType own = x->dtype();
  const std::vector<int64_t> reduced(axes.begin(), axes.end());
  const bool is_max = op == "ReduceMax", is_empty = (is_max || op == "ReduceMin") && may_be_empty(at, x, axes);
  if (is_empty && own == DType::kBool) {
    Value* found = is_max ? x : at.b.Not(x);
    found = at.cast(at.b.reduce("ReduceSum", at.cast(found, DType::kI32), reduced, keepdims), DType::kBool);
    return is_max ? found : at.b.Not(found);
  }
  if (Value* exact = exact_reduce(at, op, x, axes, keepdims)) return exact;
  DType wide = kernel_dtype(at, {op}, own);
  if (wide == DType::kUndefined) no_kernel(at, op, own);
  Value* result = at.b.reduce(op, at.cast(x, wide), reduced, keepdims);
  if (is_empty && wide != own && is_integer(own)) {
    Value* end = identity_element(at, *find_reduction(is_max ? "max" : "min"), own);
    result = via(at, is_max ? "Max" : "Min", {result, at.cast(end, wide)});
  }
  return at.cast(result, own);
}

Value* like(Lowering& at, Value* x, double v) { return at.b.scalar(x->dtype(), v); }

std::optional<double> splat_value(const Value* v) {
  const TensorPtr& payload = v->constant();
  if (!payload || payload->size() == 0 || payload->is_deferred() || payload->dtype() == DType::kString ||
      is_complex(payload->dtype()))
    return {};
  double first = payload->as_double(0);
  if (payload->is_splat() || payload->size() == 1) return first;
  if (payload->size() > 4096) return {};
  for (int64_t i = 1; i < payload->size(); ++i)
    if (payload->as_double(i) != first) return {};
  return first;
}

std::optional<double> known_value(const Lowering& at, size_t i) {
  const Value* v = at.eqn.input(i);
  while (v->def() != nullptr && v->def()->is("broadcast_in_dim")) v = v->def()->input(0);
  if (auto known = splat_value(v)) return known;
  // In the body of a call the program's broadcast stands outside; the graph has it as Expand.
  v = at.in(i);
  while (v->def() != nullptr && (v->def()->is("Expand") || v->def()->is("Unsqueeze"))) v = v->def()->input(0);
  return splat_value(v);
}

std::vector<Value*> operands(Lowering& at) {
  std::vector<Value*> xs;
  for (size_t i = 0; i < at.num_inputs(); ++i) {
    if (is_complex(at.in_dtype(i))) at.unsupported("no complex arithmetic");
    xs.push_back(at.in(i));
  }
  return xs;
}

std::vector<int64_t> stored_axes(Lowering& at, std::vector<int64_t> perm) {
  if (is_complex(at.in_dtype(0))) perm.push_back(static_cast<int64_t>(perm.size()));
  return perm;
}

}  // namespace sardonyx
