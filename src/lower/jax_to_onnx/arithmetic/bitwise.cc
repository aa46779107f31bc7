// BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot   from opset 18 on; before that
//
//     x ── nibbles [..., n] ── × 16 ──┐
//     y ── nibbles [..., n] ──────── Add ── Gather(table of 256) ── × 16^i ── ReduceSum ── result
//
// 64-bit integers are split into two halves.
#include "lower/jax_to_onnx/arithmetic/bitwise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

namespace sardonyx::jax_to_onnx {
namespace {

Value* cast(OnnxBuilder& b, Value* x, DType to) { return x->dtype() == to ? x : b.Cast(x, {.to = to}); }

DType word_of(DType t) { return bit_width(t) == 64 ? DType::kU64 : DType::kU32; }

// Zero-extends x to u32 or u64.
Value* word(OnnxBuilder& b, Value* x) {
  const DType t = x->dtype();
  if (t == DType::kI8) x = cast(b, x, DType::kU8);
  if (t == DType::kI16) x = cast(b, x, DType::kU16);
  return cast(b, x, word_of(t));
}

// i64[..., width / 4], lowest nibble first. 64-bit integers give i64[..., 2, 8].
Value* nibbles(OnnxBuilder& b, Value* x) {
  const int64_t count = bit_width(x->dtype()) / 4;
  const DType t = word_of(x->dtype());
  const bool two_halves = count == 16;
  Value* bits = b.Unsqueeze(word(b, x), two_halves ? b.i64s({-2, -1}) : b.i64s({-1}));
  std::vector<std::byte> shifts(byte_size(t, static_cast<uint64_t>(count)));
  for (int64_t i = 0; i < count; ++i) encode_element(t, shifts.data(), i, static_cast<double>(4 * i));
  std::vector<int64_t> shape = two_halves ? std::vector<int64_t>{2, 8} : std::vector<int64_t>{count};
  Value* by = b.constant(Tensor::own(t, std::move(shape), std::move(shifts)));
  Value* shifted = b.BitShift(bits, by, {.direction = "RIGHT"});
  return cast(b, b.Mod(shifted, b.scalar_int(t, 16)), DType::kI64);
}

int64_t table_entry(std::string_view op, int64_t x, int64_t y) {
  if (op == "BitwiseAnd") return x & y;
  return op == "BitwiseOr" ? x | y : x ^ y;
}

Value* by_table(OnnxBuilder& b, std::string_view op, Value* x, Value* y) {
  const DType own = x->dtype();
  std::array<int64_t, 256> table;
  for (int64_t i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = table_entry(op, i / 16, i % 16);
  std::vector<int64_t> weights;
  for (int i = 0; i < std::min(bit_width(own) / 4, 8); ++i) weights.push_back(int64_t{1} << (4 * i));
  Value* index = b.Add(b.Mul(nibbles(b, x), b.i64(16)), nibbles(b, y));
  Value* digits = b.Gather(b.i64s(table), index);
  // onnxruntime adds in doubles: the sums stay below 2^32 and are exact.
  Value* sum = b.ReduceSum(b.Mul(digits, b.i64s(weights)), b.i64s({-1}), {.keepdims = false});
  if (bit_width(own) == 64) {
    auto half = [&](int64_t i) { return b.Gather(sum, b.i64(i), {.axis = -1}); };
    sum = b.Add(b.Mul(half(1), b.i64(int64_t{1} << 32)), half(0));
  }
  // Casting a number outside of a signed type's range is undefined: cast to the unsigned type first.
  if (own == DType::kI8) sum = cast(b, sum, DType::kU8);
  if (own == DType::kI16) sum = cast(b, sum, DType::kU16);
  if (own == DType::kI32) sum = cast(b, sum, DType::kU32);
  return cast(b, sum, own);
}

std::optional<uint64_t> known_bits(const Value* v) {
  if (v->constant() == nullptr || !v->type()->ranked() || v->type()->rank() != 0) return {};
  const auto ints = v->constant()->to_ints();
  if (!ints) return {};
  const int width = bit_width(v->dtype());
  const auto bits = static_cast<uint64_t>(ints->front());
  return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

Value* complement(OnnxBuilder& b, Value* x) {
  const DType own = x->dtype();
  Value* minus_one = b.i64(-1);
  Value* result = b.Sub(minus_one, cast(b, x, DType::kI64));
  if (own == DType::kU64 || own == DType::kI64 || !is_unsigned(own)) return cast(b, result, own);
  return cast(b, b.Add(result, b.i64(int64_t{1} << bit_width(own))), own);
}

// `op` with a constant operand, if it can be written as arithmetic; else null.
Value* by_arithmetic(OnnxBuilder& b, std::string_view op, Value* x, uint64_t known) {
  const DType own = x->dtype();
  const int width = bit_width(own);
  const uint64_t all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  if (op == "BitwiseAnd" && known == all) return x;
  if (op != "BitwiseAnd" && known == 0) return x;
  if (op == "BitwiseXor" && known == all) return complement(b, x);
  if (op == "BitwiseAnd" && is_unsigned(own) && known != 0 && std::has_single_bit(known + 1))
    return b.Mod(x, b.scalar_int(own, static_cast<int64_t>(known + 1)));
  // Flipping the highest bit equals adding it: the carry is lost.
  if (op == "BitwiseXor" && width == 64 && known == uint64_t{1} << 63)
    return b.Add(x, b.scalar_int(own, std::bit_cast<int64_t>(known)));
  return nullptr;
}

}  // namespace

Value* bitwise(OnnxBuilder& b, std::string_view op, Value* x, Value* y) {
  if (b.opset() >= 18) return y == nullptr ? b.op(op, {x}) : b.op(op, {x, y});
  if (y == nullptr) return complement(b, x);
  for (auto [value, other] : {std::pair{x, y}, std::pair{y, x}}) {
    const auto known = known_bits(other);
    if (Value* result = known ? by_arithmetic(b, op, value, *known) : nullptr) return result;
  }
  return by_table(b, op, x, y);
}

Value* join_bits(OnnxBuilder& b, Value* x, Value* y) { return b.opset() >= 18 ? b.BitwiseOr(x, y) : b.Add(x, y); }

}  // namespace sardonyx::jax_to_onnx
