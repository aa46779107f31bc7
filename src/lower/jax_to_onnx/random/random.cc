// random_seed, random_wrap, random_unwrap, random_split, random_fold_in, random_bits, threefry2x32,
// iota_2x32_shape: JAX's default generator, with both settings of jax_threefry_partitionable, recorded when
// the program was traced. After jax/_src/random/threefry2x32.py.
#include <algorithm>

#include "lower/jax_to_onnx/arithmetic/bitwise.h"
#include "lower/jax_to_onnx/random/threefry.h"

namespace sardonyx::jax_to_onnx {
namespace {

using KeyWords = Context::KeyWords;

// The importer records the setting that was active when each equation was traced.
bool partitionable(const Lowering& ctx) { return ctx.bool_param("threefry_partitionable", true); }

Dim size_of(Lowering& ctx, std::span<const Dim> dims) { return ctx.b.dims().product(dims); }

// Appends `count` axes of size 1 to the words, so that a batch of keys broadcasts over the counters of each
// key.
KeyWords with_trailing_axes(Lowering& ctx, KeyWords words, size_t count) {
  if (count == 0 || words.high->type()->rank() == 0) return words;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(static_cast<int64_t>(words.high->type()->rank() + i));
  return {ctx.unsqueeze(words.high, axes), ctx.unsqueeze(words.low, axes)};
}

// 0, 1, 2, ... in row-major order over `dims`. The upper 32 bits are zero: no ONNX tensor has 2^32 elements.
Value* counters(Lowering& ctx, std::span<const Dim> dims) {
  if (dims.empty()) return ctx.b.scalar_int(DType::kU32, 0);
  return ctx.reshape(ctx.iota(DType::kU32, size_of(ctx, dims)), dims);
}

// One word per counter and key in the original (not partitionable) scheme, which hashes the counters 0..n-1
// as pairs, one from each half.
Value* original_words(Lowering& ctx, KeyWords key, Dim n) {
  Dims& dims = ctx.b.dims();
  const Dim half = dims.ceildiv(n, Dim::of(2));
  const Dim padded = dims.mul(half, Dim::of(2));
  key = with_trailing_axes(ctx, key, 1);
  Value* low = ctx.iota(DType::kU32, half);
  Value* high = ctx.b.Add(low, ctx.dim_as(half, DType::kU32));
  if (!(padded == n)) {
    // An odd number of counters is padded with a zero, not with the next number.
    Value* inside = ctx.b.Less(ctx.cast(high, DType::kI64), ctx.dim(n));
    high = ctx.b.Where(inside, high, ctx.b.scalar_int(DType::kU32, 0));
  }
  auto [a, b] = threefry2x32(ctx.b, key.high, key.low, low, high);
  const auto axis = static_cast<int64_t>(key.high->type()->rank() == 0 ? 0 : key.high->type()->rank() - 1);
  Value* words = ctx.b.Concat({a, b}, {.axis = axis});
  return padded == n ? words : ctx.slice(words, axis, Dim::of(0), n);
}

}  // namespace

KeyWords split_into(Lowering& ctx, KeyWords key, std::span<const Dim> shape, bool is_partitionable) {
  if (is_partitionable) {
    key = with_trailing_axes(ctx, key, shape.size());
    auto [high, low] = threefry2x32(ctx.b, key.high, key.low, nullptr, counters(ctx, shape));
    return {high, low};
  }
  std::vector<Dim> dims(key.high->type()->dims().begin(), key.high->type()->dims().end());
  dims.insert(dims.end(), shape.begin(), shape.end());
  dims.push_back(Dim::of(2));
  Value* words = ctx.reshape(original_words(ctx, key, ctx.b.dims().mul(size_of(ctx, shape), Dim::of(2))), dims);
  auto word = [&](int64_t i) { return ctx.b.Gather(words, ctx.b.i64(i), {.axis = -1}); };
  return {word(0), word(1)};
}

std::vector<Value*> lower_random_wrap(Lowering& ctx) { return {wrap_key(ctx.b, ctx.context(), ctx.in(0), ctx.out_dtype())}; }

std::vector<Value*> lower_random_unwrap(Lowering& ctx) {
  return {unwrap_key(ctx.b, ctx.context(), ctx.in(0), ctx.in_dtype(0))};
}

// The upper and lower 32 bits of the seed are the words of the key.
std::vector<Value*> lower_random_seed(Lowering& ctx) {
  Value* seed = ctx.in(0);
  Value* high = nullptr;
  if (bit_width(seed->dtype()) == 64) {
    Value* bits = ctx.cast(seed, DType::kU64);
    high = ctx.cast(ctx.b.BitShift(bits, ctx.b.scalar_int(DType::kU64, 32), {.direction = "RIGHT"}), DType::kU32);
    seed = bitwise(ctx.b, "BitwiseAnd", bits, ctx.b.scalar_int(DType::kU64, 0xffffffff));
  } else {
    high = ctx.zeros(DType::kU32, ctx.in_dims(0));
    // Narrow signed seeds are sign-extended to 32 bits first.
    if (bit_width(seed->dtype()) < 32) seed = ctx.cast(seed, DType::kI32);
  }
  return {pack_key(ctx.b, ctx.context(), {high, ctx.cast(seed, DType::kU32)})};
}

std::vector<Value*> lower_random_fold_in(Lowering& ctx) {
  const KeyWords key = split_key(ctx.b, ctx.context(), ctx.in(0));
  auto [high, low] = threefry2x32(ctx.b, key.high, key.low, nullptr, ctx.cast(ctx.in(1), DType::kU32));
  return {pack_key(ctx.b, ctx.context(), {high, low})};
}

std::vector<Value*> lower_random_split(Lowering& ctx) {
  KeyWords key = split_key(ctx.b, ctx.context(), ctx.in(0));
  return {pack_key(ctx.b, ctx.context(), split_into(ctx, key, ctx.dims_param("shape"), partitionable(ctx)))};
}

std::vector<Value*> lower_random_bits(Lowering& ctx) {
  const std::vector<Dim> shape = ctx.dims_param("shape");
  const int64_t width = ctx.int_param("bit_width");
  const DType dtype = ctx.out_dtype();
  KeyWords key = split_key(ctx.b, ctx.context(), ctx.in(0));
  auto join64 = [&](Value* high, Value* low) {
    Value* upper = ctx.b.BitShift(ctx.cast(high, DType::kU64), ctx.b.scalar_int(DType::kU64, 32), {.direction = "LEFT"});
    return join_bits(ctx.b, upper, ctx.cast(low, DType::kU64));
  };
  if (partitionable(ctx)) {
    key = with_trailing_axes(ctx, key, shape.size());
    auto [high, low] = threefry2x32(ctx.b, key.high, key.low, nullptr, counters(ctx, shape));
    if (width == 64) return {join64(high, low)};
    return {ctx.cast(bitwise(ctx.b, "BitwiseXor", high, low), dtype)};
  }
  Dims& dims = ctx.b.dims();
  const Dim size = size_of(ctx, shape);
  const Dim count = dims.ceildiv(dims.mul(size, Dim::of(width)), Dim::of(32));
  Value* words = original_words(ctx, key, count);
  const auto axis = static_cast<int64_t>(words->type()->rank()) - 1;
  if (width == 64) {
    words = join64(ctx.slice(words, axis, Dim::of(0), size), ctx.slice(words, axis, size, count));
  } else if (width < 32) {
    // The bytes of each word, lowest first.
    const int64_t per_word = 32 / width;
    std::vector<uint32_t> shifts;
    for (int64_t i = 0; i < per_word; ++i) shifts.push_back(static_cast<uint32_t>(width * i));
    Value* by = ctx.b.constant(Tensor::of<uint32_t>(DType::kU32, {per_word}, shifts));
    Value* parts = ctx.b.BitShift(ctx.unsqueeze(words, std::vector<int64_t>{axis + 1}), by, {.direction = "RIGHT"});
    parts = bitwise(ctx.b, "BitwiseAnd", parts, ctx.b.scalar_int(DType::kU32, (int64_t{1} << width) - 1));
    std::vector<Dim> flat(ctx.in_dims(0).begin(), ctx.in_dims(0).end());
    flat.push_back(dims.mul(count, Dim::of(per_word)));
    words = ctx.slice(ctx.reshape(ctx.cast(parts, dtype), flat), axis, Dim::of(0), size);
  }
  return {ctx.reshape(words, ctx.out_dims())};
}

std::vector<Value*> lower_threefry2x32(Lowering& ctx) {
  auto [x0, x1] = threefry2x32(ctx.b, ctx.in(0), ctx.in(1), ctx.in(2), ctx.in(3));
  return {x0, x1};
}

std::vector<Value*> lower_iota_2x32_shape(Lowering& ctx) {
  return {ctx.zeros(DType::kU32, ctx.out_dims()), counters(ctx, ctx.out_dims())};
}

}  // namespace sardonyx::jax_to_onnx
