// Bitwise operators and shifts, by arithmetic on i32: Core ML has none.
//
//   x >> k       floor(x / 2^k)                       x & (2^k - 1)     x mod 2^k
//   x ^ y        the sum of 2^k over the bits k that differ: each operand becomes a row of bits
//
// Integers of fewer than 32 bits are stored by value, those of 32 bits as i32 with the same bits. Of 64-bit
// integers, the lower 32 bits are stored.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {
namespace {

constexpr int kHeld = 32;

int width_of(Lowering& ctx) {
  const DType d = ctx.out_dtype();
  return d == DType::kBool ? 1 : std::min(bit_width(d), kHeld);
}

// Whether the top bit of the type is the sign of the stored i32.
bool has_sign(Lowering& ctx) { return is_signed(ctx.out_dtype()) || bit_width(ctx.out_dtype()) >= kHeld; }

int64_t power(int k) { return k == 31 ? std::numeric_limits<int32_t>::min() : int64_t{1} << k; }

// The n bits of x below its sign, each 0 or 1, along a new last axis.
Value* bits_of(Lowering& ctx, Value* x, Value* powers) {
  Value* wide = ctx.b.expand_dims(x, {.axes = {-1}});
  return ctx.b.mod(ctx.b.floor_div(wide, powers), 2);
}

// 1 where x is negative, else 0.
Value* is_below(MilBuilder& b, Value* x) { return b.cast(b.less(x, 0), {.dtype = DType::kI32}); }

std::vector<Value*> bitwise(Lowering& ctx, Value* (*join)(MilBuilder& b, Value* x, Value* y)) {
  MilBuilder& b = ctx.b;
  Value *x = ctx.in(0), *y = ctx.in(1);
  constexpr size_t kMostAxes = 4;  // plus one for the bits
  if (ctx.out_type()->rank() > kMostAxes) ctx.unsupported("bits of tensors of more than four axes");
  const bool sign = has_sign(ctx);
  const int n = width_of(ctx) - (sign ? 1 : 0);
  std::vector<int64_t> list;
  for (int k = 0; k < n; ++k) list.push_back(power(k));
  Value* powers = b.i32s(list);
  Value* first = bits_of(ctx, x, powers);
  Value* joined = join(b, first, bits_of(ctx, y, powers));
  Value* sum = b.reduce_sum(b.mul(joined, powers), {.axes = {-1}, .keep_dims = false});
  if (!sign) return {sum};
  Value* below = is_below(b, x);
  Value* top = join(b, below, is_below(b, y));
  return {b.add(sum, b.mul(top, n == 31 ? power(31) : -power(n)))};
}

// k if the number is 2^k.
std::optional<int> exponent_of(int64_t v) {
  for (int k = 0; k < 31; ++k) {
    if (v == power(k)) return k;
  }
  return std::nullopt;
}

// x shifted right by k bits, 1 <= k <= 30. `factor` is 2^k.
Value* shifted_right(Lowering& ctx, Value* x, Value* factor, int k) {
  MilBuilder& b = ctx.b;
  Value* down = b.floor_div(x, factor);
  if (!is_unsigned(ctx.out_dtype()) || width_of(ctx) < kHeld) return down;
  // If the top bit is set, x is negative as i32.
  if (k >= 2) return b.mod(down, power(kHeld - k));
  Value* low = b.mod(down, power(30));
  return b.add(low, b.mul(is_below(b, x), power(30)));
}

Value* power_at(Lowering& ctx, Value* shift, int count) {
  std::vector<int64_t> list;
  for (int k = 0; k < count; ++k) list.push_back(power(k));
  return ctx.b.gather(ctx.b.i32s(list), shift, {.axis = 0});
}

}  // namespace

std::vector<Value*> lower_BitShift(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const bool left = ctx.string_attr("direction", "LEFT") == "LEFT", is_plain = is_unsigned(ctx.out_dtype());
  const int n = width_of(ctx);
  if (bit_width(ctx.out_dtype()) > kHeld && !left && is_plain)
    ctx.unsupported("shifts of 64-bit integers to the right, whose upper bits are not held");
  Value* x = ctx.in(0);
  if (const auto by = ctx.splat_value(1)) {
    x = ctx.expand(x, ctx.out_dims());
    const int k = *by < 0 ? n : static_cast<int>(std::min<double>(*by, n));
    if (k == 0) return {x};
    if (left) return {k == n ? b.mul(x, 0) : ctx.wrapped(b.mul(x, power(k)))};
    if (!is_plain && k >= std::min(n, 31)) return {b.mul(is_below(b, x), -1)};
    if (k == n) return {b.mul(x, 0)};
    if (k == 31) return {is_below(b, x)};
    return {shifted_right(ctx, x, b.i32(static_cast<int32_t>(power(k))), k)};
  }
  Value* shift = ctx.in(1);
  Value* inside = b.logical_and(b.greater_equal(shift, 0), b.less(shift, n));
  Value* kept = b.cast(inside, {.dtype = DType::kI32});
  if (left) {
    Value* factor = power_at(ctx, b.select(inside, shift, 0), n);
    return {b.mul(ctx.wrapped(b.mul(x, factor)), kept)};
  }
  shift = b.select(inside, shift, n - 1);
  Value* shifted = nullptr;
  if (n < kHeld) {
    shifted = b.floor_div(x, power_at(ctx, shift, n));
  } else {
    // Shifts by one bit first: 2^31 does not fit i32, and after one shift an unsigned number is not negative.
    Value* some = b.greater(shift, 0);
    Value* once = shifted_right(ctx, x, b.i32(2), 1);
    Value* rest = b.maximum(b.sub(shift, 1), 0);
    shifted = b.select(some, b.floor_div(once, power_at(ctx, rest, n - 1)), ctx.expand(x, ctx.out_dims()));
  }
  return {is_plain ? b.mul(shifted, kept) : shifted};
}

std::vector<Value*> lower_BitwiseAnd(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  // x & (2^k - 1) is the remainder by 2^k; with the complement of that mask, x minus the remainder.
  for (size_t i : {0, 1}) {
    const auto mask = ctx.splat_value(i);
    if (!mask || std::abs(*mask) > 1LL << 53 || ctx.node.input(i)->is_constant() == ctx.node.input(1 - i)->is_constant())
      continue;
    Value* x = ctx.expand(ctx.in(1 - i), ctx.out_dims());
    const auto bits = static_cast<int64_t>(*mask);
    if (const auto k = exponent_of(bits + 1)) return {b.mod(x, power(*k))};
    const int64_t high = bits < 0 ? -bits : (int64_t{1} << bit_width(ctx.out_dtype())) - bits;
    const bool is_high = bit_width(ctx.out_dtype()) <= kHeld || bits < 0;
    if (const auto k = exponent_of(high); k && is_high) return {b.sub(x, b.mod(x, power(*k)))};
  }
  return bitwise(ctx, [](MilBuilder& m, Value* x, Value* y) { return m.mul(x, y); });
}

std::vector<Value*> lower_BitwiseOr(Lowering& ctx) {
  return bitwise(ctx, [](MilBuilder& b, Value* x, Value* y) { return b.maximum(x, y); });
}

std::vector<Value*> lower_BitwiseXor(Lowering& ctx) {
  return bitwise(ctx, [](MilBuilder& b, Value* x, Value* y) {
    Value* difference = b.sub(x, y);
    return b.mul(difference, difference);
  });
}

std::vector<Value*> lower_BitwiseNot(Lowering& ctx) {
  const bool narrow = is_unsigned(ctx.out_dtype()) && bit_width(ctx.out_dtype()) < kHeld;
  const int64_t all = narrow ? power(bit_width(ctx.out_dtype())) - 1 : -1;
  return {ctx.b.sub(ctx.b.i32(static_cast<int32_t>(all)), ctx.in(0))};
}

}  // namespace sardonyx::onnx_to_mil
