//   x: f8 ── Exp ── y: f8     =>     x ── Cast<f32> ── Exp ── Cast<f8, saturate = 0> ── y
//   x: i4 ── Add ── y: i4     =>     x ── Cast<i32> ── Add ── Cast<i4> ── y
//
// The integer Cast keeps the low bits, as XLA wraps. Lowerings that only move elements use f16 or bytes.
// Integer products take bytes as operands.
//
// onnxruntime (up to 1.31) violates the standard for some numbers beyond the greatest float: 480 to 512
// become 448 in f8e4m3fn instead of NaN, and 61440 to 65536 become NaN in f8e5m2 instead of infinity.
// to_small_float() moves such numbers out of these ranges first.
#include "lower/jax_to_onnx/lib/narrow.h"

#include <algorithm>
#include <limits>

#include "lower/jax_to_onnx/arrays/movements.h"
#include "lower/jax_to_onnx/context.h"
#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/lib/float_bits.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr std::string_view kKeeps[] = {"all_gather",
                                       "all_gather_invariant",
                                       "all_to_all",
                                       "bitcast_convert_type",
                                       "checkpoint",
                                       "closed_call",
                                       "composite",
                                       "cond",
                                       "convert_element_type",
                                       "copy",
                                       "copy_p",
                                       "core_call",
                                       "custom_jvp_call",
                                       "custom_lin",
                                       "custom_linear_solve",
                                       "custom_vjp_call",
                                       "custom_vjp_call_jaxpr",
                                       "custom_vmap_call",
                                       "debug_callback",
                                       "debug_print",
                                       "device_put",
                                       "jit",
                                       "layout_constraint",
                                       "linear_call",
                                       "name",
                                       "nextafter",
                                       "nonbatchable",
                                       "optimization_barrier",
                                       "pbroadcast",
                                       "pjit",
                                       "platform_index",
                                       "ppermute",
                                       "psum_invariant",
                                       "pvary",
                                       "reduce_scatter",
                                       "remat2",
                                       "reshard",
                                       "scaled_matmul",
                                       "scaled_matmul_wrapper",
                                       "scan",
                                       "select_if_vmap",
                                       "shard_map",
                                       "sharding_constraint",
                                       "stop_gradient",
                                       "while",
                                       "with_memory_space_constraint"};

// Besides primitives that move elements: their results fit the type if the operands do.
constexpr std::string_view kStaysInside[] = {"abs",
                                             "argmax",
                                             "argmin",
                                             "ceil",
                                             "clamp",
                                             "cos",
                                             "cummax",
                                             "cummin",
                                             "erf",
                                             "erf_inv",
                                             "erfc",
                                             "floor",
                                             "logistic",
                                             "max",
                                             "min",
                                             "neg",
                                             "rem",
                                             "reduce_max",
                                             "reduce_min",
                                             "reduce_window_max",
                                             "reduce_window_min",
                                             "round",
                                             "scatter-max",
                                             "scatter-min",
                                             "scatter_max",
                                             "scatter_min",
                                             "sign",
                                             "sin",
                                             "sort",
                                             "sqrt",
                                             "tanh",
                                             "top_k"};

constexpr std::string_view kProducts[] = {"conv_general_dilated", "dot_general", "ragged_dot", "ragged_dot_general"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

DType computed_as(DType t) {
  if (!is_narrow(t)) return t;
  return is_float(t) ? DType::kF32 : DType::kI32;
}

// f16 does not have the range of f8e8m0.
DType moved_as(DType t) {
  if (!is_narrow(t)) return t;
  if (is_float(t)) return t == DType::kF8E8M0 ? DType::kF32 : DType::kF16;
  return is_unsigned(t) ? DType::kU8 : DType::kI8;
}

DType multiplied_as(DType t) { return is_float(t) ? computed_as(t) : moved_as(t); }

DType with_sign(DType t, bool sign) {
  if (bit_width(t) == 4) return sign ? DType::kI4 : DType::kU4;
  return bit_width(t) == 2 ? (sign ? DType::kI2 : DType::kU2) : t;
}

// Reductions over no elements return the end of the wider type: limit it to t.
Value* within(Lowering& ctx, Value* x, std::string_view primitive, DType t) {
  const bool is_max = primitive.ends_with("max");
  double end = 0;
  if (is_float(t)) {
    const FloatFormat f = FloatFormat::of(t);
    if (f.has_infinity) return x;
    end = f.greatest_number() * (is_max ? -1 : 1);
  } else {
    const int value_bits = bit_width(t) - (is_signed(t) ? 1 : 0);
    end = is_max ? (is_signed(t) ? -(1 << value_bits) : 0) : (1 << value_bits) - 1;
  }
  return ctx.via(is_max ? "Max" : "Min", {x, ctx.like(x, end)});
}

bool may_reduce_nothing(const Lowering& ctx, std::string_view primitive) {
  if (primitive.starts_with("reduce_window_")) return true;
  if (primitive != "reduce_max" && primitive != "reduce_min") return false;
  return std::ranges::any_of(ctx.ints_param("axes"), [&](int64_t axis) {
    return ctx.context().model().dims().range(ctx.in_dims(0)[static_cast<size_t>(axis)]).min.value_or(0) < 1;
  });
}

}  // namespace

bool is_narrow(DType t) { return (is_float(t) && bit_width(t) <= 8) || (is_integer(t) && bit_width(t) < 8); }

bool keeps_narrow(std::string_view primitive) { return is_one_of(kKeeps, primitive); }

Value* to_small_float(Lowering& ctx, Value* x, DType t, bool may_overflow) {
  OnnxBuilder& b = ctx.b;
  if (is_narrow(x->dtype()) || !is_float(x->dtype()) || (may_overflow && bit_width(x->dtype()) == 16))
    x = ctx.cast(x, DType::kF32);
  if (may_overflow && t == DType::kF8E4M3FN) x = b.Clip(x, ctx.like(x, -470), ctx.like(x, 470));
  if (may_overflow && t == DType::kF8E5M2) x = b.Where(b.Less(b.Abs(x), ctx.like(x, 61440)), x, b.Mul(x, ctx.like(x, 2)));
  // f8e8m0 has no sign and no zero. The standard drops the sign and maps zero to the least number.
  if (may_overflow && t == DType::kF8E8M0)
    x = b.Where(b.Greater(x, ctx.like(x, 0)), x, ctx.like(x, std::numeric_limits<double>::quiet_NaN()));
  // An opset without the type also lacks these attributes; leaving them out makes the error name the type.
  return b.Cast(x, {.round_mode = t == DType::kF8E8M0 && b.opset() >= 24 ? "nearest" : "up",
                    .saturate = t == DType::kF4E2M1 || b.opset() < 19,
                    .to = t});
}

std::vector<Value*> in_wider_types(Lowering& ctx, std::string_view primitive, const LowerFn& lower) {
  const bool moves = is_one_of(kMovements, primitive);
  const auto wide = moves ? moved_as : is_one_of(kProducts, primitive) ? multiplied_as : computed_as;
  const bool without_sign = primitive == "shift_right_logical" || primitive == "population_count" || primitive == "clz";
  std::vector<Value*> xs;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) {
    Value* x = ctx.in(i);
    if (x != nullptr && is_integer(x->dtype()) && (without_sign || primitive == "shift_right_arithmetic"))
      x = ctx.cast(x, with_sign(x->dtype(), !without_sign));
    xs.push_back(x == nullptr ? x : ctx.cast(x, wide(x->dtype())));
  }
  if (primitive == "reduce_precision") {
    const FloatFormat own = FloatFormat::of(ctx.out_dtype());
    if (ctx.int_param("exponent_bits") >= own.exponent && ctx.int_param("mantissa_bits") >= own.mantissa) return {ctx.in(0)};
  }
  const bool is_extreme = may_reduce_nothing(ctx, primitive);
  Lowering inside(ctx.context(), ctx.node, ctx.b, std::move(xs));
  std::vector<Value*> results;
  {
    const Context::InTypes here(ctx.context(), wide);
    results = lower(inside);
  }
  const bool may_overflow = !moves && !is_one_of(kStaysInside, primitive);
  for (size_t i = 0; i < results.size(); ++i) {
    const DType t = ctx.out_dtype(i);
    if (results[i] == nullptr || !is_narrow(t) || results[i]->dtype() == t) continue;
    if (is_extreme) results[i] = within(inside, results[i], primitive, t);
    if (primitive == "clz") results[i] = inside.via("Sub", {results[i], inside.like(results[i], 32 - bit_width(t))});
    results[i] =
        is_float(t) && !results[i]->is_constant() ? to_small_float(ctx, results[i], t, may_overflow) : ctx.cast(results[i], t);
  }
  return results;
}

}  // namespace sardonyx::jax_to_onnx
