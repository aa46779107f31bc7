// Arithmetic, comparisons, logic and casts.
#include "lower/onnx_to_mil/arithmetic/elementwise.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "dialects/mil/ops.h"
#include "lower/onnx_to_mil/layers/layers.h"

namespace sardonyx::onnx_to_mil {

std::vector<Value*> lower_same(Lowering& ctx, std::string_view op) {
  const Op* found = ctx.b.find(op);
  if (found == nullptr) ctx.unsupported(fmt::format("Core ML's {} needs a later target", op));
  std::vector<Value*> xs = ctx.operands();
  const bool is_bool = !xs.empty() && xs[0]->dtype() == DType::kBool;
  if (!xs.empty() && !ctx.takes(op, xs[0]->dtype())) {
    if (!is_bool || !ctx.takes(op, DType::kI32))
      ctx.unsupported(fmt::format("Core ML's {} takes no {}", op, to_string(xs[0]->dtype())));
    for (Value*& x : xs) x = ctx.cast(x, DType::kI32);
  }
  Value* y = ctx.b.make(*found, xs, 1, {}).result();
  if (ctx.out_dtype() == DType::kBool && y->dtype() != DType::kBool) y = ctx.cast(y, DType::kBool);
  return {y};
}

namespace {

constexpr double kWhole = 4294967296;  // 2^32

std::vector<Value*> compared(Lowering& ctx, std::string_view op) {
  if (!ctx.are_from_u32()) return lower_same(ctx, op);
  Value* x = ctx.flip_sign_bit(ctx.in(0));
  const std::vector<Value*> xs{x, ctx.flip_sign_bit(ctx.in(1))};
  return {ctx.b.make(*ctx.b.find(op), xs, 1, {}).result()};
}

}  // namespace

std::vector<Value*> lower_Greater(Lowering& ctx) { return compared(ctx, "greater"); }
std::vector<Value*> lower_GreaterOrEqual(Lowering& ctx) { return compared(ctx, "greater_equal"); }
std::vector<Value*> lower_Less(Lowering& ctx) { return compared(ctx, "less"); }
std::vector<Value*> lower_LessOrEqual(Lowering& ctx) { return compared(ctx, "less_equal"); }

std::vector<Value*> lower_PassThrough(Lowering& ctx) { return {ctx.in(0)}; }

// Sums and products of integers of fewer than 32 bits are computed in i32 and wrapped around as in ONNX.
std::vector<Value*> lower_Add(Lowering& ctx) { return {ctx.wrapped(lower_same(ctx, "add")[0])}; }
std::vector<Value*> lower_Mul(Lowering& ctx) { return {ctx.wrapped(lower_same(ctx, "mul")[0])}; }
std::vector<Value*> lower_Sub(Lowering& ctx) { return {ctx.wrapped(lower_same(ctx, "sub")[0])}; }

std::vector<Value*> lower_Abs(Lowering& ctx) {
  if (is_unsigned(ctx.in_dtype(0))) return ctx.operands();
  return {ctx.wrapped(lower_same(ctx, "abs")[0])};
}

std::vector<Value*> lower_Sign(Lowering& ctx) {
  if (!ctx.is_from_u32(0)) return lower_same(ctx, "sign");
  return {ctx.cast(ctx.b.not_equal(ctx.in(0), 0), DType::kI32)};
}

// acosh x = log(x + sqrt(x^2 - 1)). asinh x = sign(x) log(|x| + sqrt(x^2 + 1)): for negative x, x + sqrt(x^2
// + 1) would cancel.
std::vector<Value*> lower_Acosh(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  Value* root = b.sqrt(b.sub(b.mul(x, x), ctx.like(x, 1)));
  return {b.log(b.add(x, root), {.epsilon = ctx.like(x, 0)})};
}

std::vector<Value*> lower_Asinh(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  Value* size = b.abs(x);
  Value* root = b.sqrt(b.add(b.mul(x, x), ctx.like(x, 1)));
  Value* y = b.log(b.add(size, root), {.epsilon = ctx.like(x, 0)});
  return {b.mul(b.sign(x), y)};
}

namespace {

// A float as u32: numbers from 2^31 on become negative.
Value* from_float(Lowering& ctx, Value* x) {
  MilBuilder& b = ctx.b;
  if (x->dtype() == DType::kF16) return b.cast(x, {.dtype = DType::kI32});  // at most 65504
  Value* large = b.greater_equal(x, ctx.like(x, kWhole / 2));
  Value* shifted = b.sub(x, ctx.like(x, kWhole));
  return b.cast(b.select(large, shifted, x), {.dtype = DType::kI32});
}

bool holds_all(DType from, DType to) {
  if (from == DType::kBool) return true;
  if (is_unsigned(from)) return bit_width(to) > bit_width(from) || (is_unsigned(to) && bit_width(to) == bit_width(from));
  return is_signed(to) && bit_width(to) >= bit_width(from);
}

// Whether a Clip keeps v within the range of an integer type. Rounding after the Clip does not leave the
// range.
bool is_clipped_to(const Value* v, DType to) {
  const Node* n = v->def();
  while (n != nullptr && (n->is("Floor") || n->is("Ceil") || n->is("Round") || n->is("Cast"))) n = n->input(0)->def();
  if (n == nullptr || !n->is("Clip") || n->num_inputs() != 3 || n->input(1) == nullptr || n->input(2) == nullptr) return false;
  const TensorPtr &low = n->input(1)->constant(), &high = n->input(2)->constant();
  if (low == nullptr || high == nullptr || low->size() != 1 || high->size() != 1) return false;
  const int bits = is_unsigned(to) ? bit_width(to) : bit_width(to) - 1;
  const double least = is_unsigned(to) ? 0 : -std::ldexp(1, bits);
  return low->as_double(0) >= least && high->as_double(0) <= std::ldexp(1, bits) - 1;
}

}  // namespace

std::vector<Value*> lower_Cast(Lowering& ctx) {
  Value* x = ctx.in(0);
  const DType from = ctx.in_dtype(0), to = ctx.out_dtype();
  if (from == DType::kString || to == DType::kString || stored_dtype(to) == DType::kUndefined ||
      stored_dtype(from) == DType::kUndefined)
    ctx.unsupported(fmt::format("Core ML has no cast from {} to {}", to_string(from), to_string(to)));
  if (to == DType::kBool) return {from == DType::kBool ? x : ctx.b.not_equal(x, ctx.like(x, 0))};
  Value* y = ctx.cast(x, stored_dtype(to));
  if (ctx.is_from_u32(0) && is_float(to)) {
    Value* top = ctx.cast(ctx.b.less(x, 0), y->dtype());
    y = ctx.b.add(y, ctx.b.mul(top, ctx.like(y, kWhole)));
  }
  if (to == DType::kU32 && is_float(from)) y = from_float(ctx, x);
  // ONNX does not define casts of floats outside the range of the type. onnxruntime keeps the lower bits.
  const bool fits = is_float(from) ? is_clipped_to(ctx.node.input(0), to) : holds_all(from, to);
  return {is_integer(to) && !fits ? ctx.wrapped(y) : y};
}

namespace {

// The quotient of u32 numbers, for divisors below 2^31: twice the quotient of half the dividend, plus one if
// the remainder, which may exceed i32, is at least the divisor.
Value* unsigned_quotient(Lowering& ctx, Value* x, Value* y) {
  MilBuilder& b = ctx.b;
  constexpr int64_t kQuarter = 1 << 30;
  Value* low = b.mod(b.floor_div(x, 2), kQuarter);
  Value* half = b.add(low, b.mul(b.cast(b.less(x, 0), {.dtype = DType::kI32}), kQuarter));
  Value* twice = b.mul(b.floor_div(half, y), 2);
  Value* rest = b.sub(x, b.mul(twice, y));
  return b.add(twice, b.cast(b.greater_equal(ctx.flip_sign_bit(rest), ctx.flip_sign_bit(y)), {.dtype = DType::kI32}));
}

}  // namespace

// ONNX divides integers towards zero; Core ML rounds down.
std::vector<Value*> lower_Div(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value *x = ctx.in(0), *y = ctx.in(1);
  if (x->dtype() != DType::kI32) return {b.real_div(x, y)};
  if (ctx.are_from_u32()) return {unsigned_quotient(ctx, x, y)};
  const bool x_is_size = ctx.is_never_negative(0), y_is_size = ctx.is_never_negative(1);
  if (x_is_size && y_is_size) return {b.floor_div(x, y)};
  Value* sign = x_is_size ? b.sign(y) : b.sign(x);
  if (!x_is_size && !y_is_size) sign = b.mul(sign, b.sign(y));
  Value* above = x_is_size ? x : b.abs(x);
  Value* below = y_is_size ? y : b.abs(y);
  return {ctx.wrapped(b.mul(sign, b.floor_div(above, below)))};
}

std::vector<Value*> lower_Equal(Lowering& ctx) {
  if (ctx.in_dtype(0) == DType::kString) ctx.unsupported("Core ML compares no strings");
  if (ctx.in_dtype(0) != DType::kBool) return lower_same(ctx, "equal");
  Value *x = ctx.in(0), *y = ctx.in(1);
  return {ctx.b.logical_not(ctx.b.logical_xor(x, y))};
}

std::vector<Value*> lower_IsInf(Lowering& ctx) {
  Value* x = ctx.in(0);
  const bool above = ctx.int_attr("detect_positive", 1) != 0, below = ctx.int_attr("detect_negative", 1) != 0;
  const double infinity = std::numeric_limits<double>::infinity();
  if (!above && !below) return {ctx.b.not_equal(ctx.b.mul(x, ctx.like(x, 0)), ctx.b.mul(x, ctx.like(x, 0)))};
  if (above && below) return {ctx.b.equal(ctx.b.abs(x), ctx.like(x, infinity))};
  return {ctx.b.equal(x, ctx.like(x, above ? infinity : -infinity))};
}

std::vector<Value*> lower_IsNaN(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.b.not_equal(x, x)};
}

// By default, Core ML's log adds 1e-45 to the operand, and log(0) would be -103.
std::vector<Value*> lower_Log(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.b.log(x, {.epsilon = ctx.like(x, 0)})};
}

namespace {

using Binary = Value* (MilBuilder::*)(const MilBuilder::Numbers&, const MilBuilder::Numbers&);

Value* chain(Lowering& ctx, Binary op) {
  std::vector<Value*> xs = ctx.operands();
  Value* y = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) y = (ctx.b.*op)(y, xs[i]);
  return y;
}

Value* extreme(Lowering& ctx, Binary op) {
  if (!ctx.are_from_u32()) return chain(ctx, op);
  std::vector<Value*> xs = ctx.operands();
  Value* y = ctx.flip_sign_bit(xs[0]);
  for (size_t i = 1; i < xs.size(); ++i) y = (ctx.b.*op)(y, ctx.flip_sign_bit(xs[i]));
  return ctx.flip_sign_bit(y);
}

}  // namespace

std::vector<Value*> lower_Max(Lowering& ctx) { return {extreme(ctx, &MilBuilder::maximum)}; }
std::vector<Value*> lower_Min(Lowering& ctx) { return {extreme(ctx, &MilBuilder::minimum)}; }
std::vector<Value*> lower_Sum(Lowering& ctx) { return {chain(ctx, &MilBuilder::add)}; }

std::vector<Value*> lower_Mean(Lowering& ctx) {
  Value* sum = chain(ctx, &MilBuilder::add);
  return {ctx.b.mul(sum, ctx.like(sum, 1.0 / static_cast<double>(ctx.node.num_inputs())))};
}

// The result has the sign of the divisor, as in Core ML; with fmod, that of the dividend.
std::vector<Value*> lower_Mod(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value *x = ctx.in(0), *y = ctx.in(1);
  if (ctx.are_from_u32()) return {b.sub(x, b.mul(unsigned_quotient(ctx, x, y), y))};
  const bool is_fmod = ctx.int_attr("fmod", 0) != 0;
  const auto divisor = ctx.splat_value(1);
  // With an infinite divisor the result is the dividend, or the divisor if their signs differ. Core ML's mod
  // returns NaN.
  const bool may_be_infinite = is_float(x->dtype()) && !(divisor && std::isfinite(*divisor));
  Value* rest = nullptr;
  if (is_fmod) {
    Value* above = b.abs(x);
    rest = b.mul(b.mod(above, b.abs(y)), b.sign(x));
  } else {
    rest = b.mod(x, y);
  }
  if (!may_be_infinite) return {rest};
  const double infinity = std::numeric_limits<double>::infinity();
  Value* whole = x;
  if (!is_fmod) whole = ctx.select(b.less(b.mul(b.sign(x), b.sign(y)), 0.0), y, x);
  Value* is_infinite = b.equal(b.abs(y), ctx.like(y, infinity));
  Value* is_finite = b.less(b.abs(x), ctx.like(x, infinity));
  return {ctx.select(b.logical_and(is_infinite, is_finite), whole, rest)};
}

std::vector<Value*> lower_Neg(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.wrapped(ctx.b.mul(x, ctx.like(x, -1)))};
}

std::vector<Value*> lower_Pow(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value *x = ctx.in(0), *y = ctx.in(1);
  const auto exponent = ctx.splat_value(1);
  if (x->dtype() != y->dtype()) {
    const bool whole = exponent && std::floor(*exponent) == *exponent && std::abs(*exponent) < 1 << 30;
    if (x->dtype() == DType::kI32 && !whole && is_float(y->dtype()))
      return {ctx.cast(b.pow(ctx.cast(x, y->dtype()), y), DType::kI32)};  // exact up to 2^24
    y = y->is_constant() && exponent ? ctx.expand(ctx.like(x, *exponent), y->type()->dims()) : ctx.cast(y, x->dtype());
  }
  return {b.pow(x, y)};
}

std::vector<Value*> lower_Reciprocal(Lowering& ctx) {
  Value* x = ctx.in(0);
  return {ctx.b.real_div(ctx.like(x, 1), x)};
}

std::vector<Value*> lower_Sin(Lowering& ctx) { return {ctx.b.sin(ctx.in(0))}; }
std::vector<Value*> lower_Cos(Lowering& ctx) { return {ctx.b.cos(ctx.in(0))}; }
std::vector<Value*> lower_Tan(Lowering& ctx) { return {ctx.b.tan(ctx.in(0))}; }

std::vector<Value*> lower_Where(Lowering& ctx) {
  Value *condition = ctx.in(0), *a = ctx.in(1), *other = ctx.in(2);
  if (!ctx.takes("select", DType::kBool) || a->dtype() == DType::kString) ctx.unsupported("Core ML selects no such elements");
  return {ctx.select(condition, a, other)};
}

}  // namespace sardonyx::onnx_to_mil
