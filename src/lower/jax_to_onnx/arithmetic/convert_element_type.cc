// convert_element_type[new_dtype] x   =>   Cast<to>(x)
//
// Integers wrap and floats round in both. In XLA, a float beyond an integer's range becomes the nearest end
// and NaN becomes 0; ONNX leaves both open. So a Clip precedes casts to 8 and 16 bits. Casts to 32 and 64
// bits are followed by a Where, since f32 cannot represent the upper end. A complex operand gives its real
// part, as in JAX.
#include <cmath>

#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/lib/narrow.h"

namespace sardonyx::jax_to_onnx {
namespace {

// The ends of an integer type's range; the upper end plus 1 is a power of two.
double lowest(DType t) { return is_unsigned(t) ? 0 : -std::ldexp(1.0, bit_width(t) - 1); }
double beyond(DType t) { return std::ldexp(1.0, bit_width(t) - (is_unsigned(t) ? 0 : 1)); }

// Whether the equations that compute v show that it lies in t's range: they clamp or convert, then round or
// move.
bool is_within(const Value* v, DType t) {
  for (;;) {
    if (auto c = splat_value(v)) return *c >= lowest(t) && *c < beyond(t);
    const Node* n = v->def();
    if (n == nullptr) return false;
    std::string_view op = n->op().name;
    if (op == "floor" || op == "ceil" || op == "round" || op == "reshape" || op == "transpose" || op == "broadcast_in_dim" ||
        op == "squeeze" || op == "stop_gradient" || op == "copy") {
      v = n->input(0);
      continue;
    }
    if (op == "iota" || op == "sign" || op == "is_finite" || op == "logistic") return op != "sign" || !is_unsigned(t);
    if (op == "clamp") return is_within(n->input(0), t) && is_within(n->input(2), t);
    if (op == "convert_element_type") {
      DType from = n->input(0)->dtype();
      return from == DType::kBool || (is_integer(from) && lowest(from) >= lowest(t) && beyond(from) <= beyond(t));
    }
    return false;
  }
}

Value* saturating_cast(Lowering& ctx, Value* x, DType to) {
  OnnxBuilder& b = ctx.b;
  if (bit_width(x->dtype()) <= 16) x = ctx.cast(x, DType::kF32);
  if (bit_width(to) <= 16) {
    Value* clipped = b.Clip(x, ctx.like(x, lowest(to)), ctx.like(x, beyond(to) - 1));
    // onnxruntime (1.31) rounds when casting to 4-bit integers; it should truncate.
    return ctx.cast(is_narrow(to) ? ctx.cast(clipped, DType::kI32) : clipped, to);
  }
  Value* number = b.Where(b.IsNaN(x), ctx.like(x, 0), x);
  if (is_unsigned(to)) number = b.Max({number, ctx.like(x, 0)});
  Value* is_large = b.GreaterOrEqual(number, ctx.like(x, beyond(to)));
  Value* largest = to == DType::kU64 ? b.scalar_int(to, -1) : b.scalar_int(to, static_cast<int64_t>(beyond(to) - 1));
  if (to == DType::kI64) largest = b.scalar_int(to, INT64_MAX);
  return ctx.select(is_large, largest, ctx.cast(number, to));
}

}  // namespace

std::vector<Value*> lower_convert_element_type(Lowering& ctx) {
  DType from = ctx.in_dtype(0), to = ctx.out_dtype();
  if (from == to) return {ctx.in(0)};
  if (is_complex(from) && is_complex(to)) return {ctx.cast(ctx.in(0), ctx.stored_out_type()->dtype())};
  if (is_complex(to)) ctx.unsupported("no conversion to complex");
  Value* x = is_complex(from) ? ctx.b.Gather(ctx.in(0), ctx.b.i64(0), {.axis = -1}) : ctx.in(0);
  if (is_narrow(from) && is_float(from) && !is_float(to)) x = ctx.cast(x, DType::kF32);
  bool may_overflow = is_float(x->dtype()) && is_integer(to) && !is_within(ctx.node.input(0), to);
  if (!may_overflow && is_float(x->dtype()) && is_integer(to) && is_narrow(to)) x = ctx.cast(x, DType::kI32);
  return {may_overflow ? saturating_cast(ctx, x, to) : ctx.cast(x, to)};
}

}  // namespace sardonyx::jax_to_onnx
