#include "lower/jax_to_onnx/random/threefry.h"

#include <array>

#include "lower/jax_to_onnx/arithmetic/bitwise.h"

namespace sardonyx::jax_to_onnx {
namespace {

Value* cast(OnnxBuilder& b, Value* x, DType to) { return b.Cast(x, {.to = to}); }

Value* shift(OnnxBuilder& b, Value* x, int64_t by, std::string_view direction) {
  return b.BitShift(x, b.scalar_int(x->dtype(), by), {.direction = direction});
}

}  // namespace

Value* pack_key(OnnxBuilder& b, Context& context, Context::KeyWords words) {
  Value* high = shift(b, cast(b, words.high, DType::kU64), 32, "LEFT");
  Value* key = cast(b, join_bits(b, high, cast(b, words.low, DType::kU64)), DType::kI64);
  context.set_key_words(*key, words);
  return key;
}

Context::KeyWords split_key(OnnxBuilder& b, Context& context, Value* key) {
  if (auto words = context.key_words(*key); words.high != nullptr) return words;
  Value* bits = cast(b, key, DType::kU64);
  Value* low = bitwise(b, "BitwiseAnd", bits, b.scalar_int(DType::kU64, 0xffffffff));
  return {cast(b, shift(b, bits, 32, "RIGHT"), DType::kU32), cast(b, low, DType::kU32)};
}

Value* wrap_key(OnnxBuilder& b, Context& context, Value* words, DType dtype) {
  auto word = [&](int64_t i) { return b.Gather(words, b.i64(i), {.axis = -1}); };
  Value* first = pack_key(b, context, {word(0), word(1)});
  if (dtype == DType::kKey) return first;
  const auto axis = static_cast<int64_t>(first->type()->rank());  // never -1, which split() of complex.h looks for
  auto last = [&](Value* x) { return b.Unsqueeze(x, b.i64s({axis})); };
  return b.Concat({last(first), last(pack_key(b, context, {word(2), word(3)}))}, {.axis = axis});
}

Value* unwrap_key(OnnxBuilder& b, Context& context, Value* key, DType dtype) {
  std::vector<Value*> columns;
  auto add = [&](Value* half) {
    const auto words = split_key(b, context, half);
    for (Value* x : {words.high, words.low}) columns.push_back(b.Unsqueeze(x, b.i64s({-1})));
  };
  if (dtype == DType::kKey) {
    add(key);
  } else {
    auto half = [&](int64_t i) { return b.Gather(key, b.i64(i), {.axis = -1}); };
    const auto halves = joined_parts(key);
    add(halves ? halves->first : half(0));
    add(halves ? halves->second : half(1));
  }
  return b.Concat(columns, {.axis = -1});
}

std::pair<Value*, Value*> threefry2x32(OnnxBuilder& b, Value* k0, Value* k1, Value* x0, Value* x1) {
  constexpr std::array<std::array<int64_t, 4>, 2> kRotations{{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  auto add = [&](Value* x, Value* y) { return b.Add(x, y); };
  auto exclusive = [&](Value* x, Value* y) { return bitwise(b, "BitwiseXor", x, y); };
  Value* k2 = exclusive(exclusive(k0, k1), b.scalar_int(DType::kU32, 0x1BD11BDA));
  const std::array<Value*, 3> keys{k0, k1, k2};
  x0 = x0 ? add(x0, k0) : k0;
  x1 = add(x1, k1);
  for (size_t group = 0; group < 5; ++group) {
    for (int64_t r : kRotations[group % 2]) {
      x0 = add(x0, x1);
      Value* rotated = join_bits(b, shift(b, x1, r, "LEFT"), shift(b, x1, 32 - r, "RIGHT"));
      x1 = exclusive(x0, rotated);
    }
    x0 = add(x0, keys[(group + 1) % 3]);
    x1 = add(x1, add(keys[(group + 2) % 3], b.scalar_int(DType::kU32, static_cast<int64_t>(group) + 1)));
  }
  return {x0, x1};
}

}  // namespace sardonyx::jax_to_onnx
