// random_seed, random_wrap, random_unwrap, random_split, random_fold_in, random_bits, threefry2x32, iota_2x32_shape:
// JAX's default generator. Both settings of jax_threefry_partitionable, recorded when the program was traced.
// After jax/_src/random/threefry2x32.py.
#include <algorithm>

#include "lower/bitwise.h"
#include "lower/threefry.h"

namespace sardonyx {
namespace {

using KeyWords = LoweringContext::KeyWords;

// The importer records the setting in force where each equation was traced.
bool partitionable(const Lowering& at) { return at.bool_param("threefry_partitionable", true); }

Dim size_of(Lowering& at, std::span<const Dim> dims) { return at.b.dims().product(dims); }

// The words with `count` axes of size 1 behind: to broadcast a batch of keys over the counters of each.
KeyWords with_trailing_axes(Lowering& at, KeyWords words, size_t count) {
  if (count == 0 || words.high->type()->rank() == 0) return words;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(static_cast<int64_t>(words.high->type()->rank() + i));
  return {at.unsqueeze(words.high, axes), at.unsqueeze(words.low, axes)};
}

// 0, 1, 2, ... in row-major order over `dims`. Its upper 32 bits are zero: no ONNX tensor has 2^32 elements.
Value* counters(Lowering& at, std::span<const Dim> dims) {
  if (dims.empty()) return at.b.scalar_int(DType::kU32, 0);
  return at.reshape(at.iota(DType::kU32, size_of(at, dims)), dims);
}

// One word per counter and key, in the original (not partitionable) order: the counters 0..n-1 are hashed as pairs of halves.
Value* original_words(Lowering& at, KeyWords key, Dim n) {
  Dims& dims = at.b.dims();
  const Dim half = dims.ceildiv(n, Dim::of(2));
  const Dim padded = dims.mul(half, Dim::of(2));
  key = with_trailing_axes(at, key, 1);
  Value* low = at.iota(DType::kU32, half);
  Value* high = at.b.Add(low, at.dim_as(half, DType::kU32));
  if (!(padded == n)) {
    // An odd number of counters is padded with a zero, not with the next number.
    Value* inside = at.b.Less(at.cast(high, DType::kI64), at.dim(n));
    high = at.b.Where(inside, high, at.b.scalar_int(DType::kU32, 0));
  }
  auto [a, b] = threefry2x32(at.b, key.high, key.low, low, high);
  const auto axis = static_cast<int64_t>(key.high->type()->rank() == 0 ? 0 : key.high->type()->rank() - 1);
  Value* words = at.b.Concat({a, b}, {.axis = axis});
  return padded == n ? words : at.slice(words, axis, Dim::of(0), n);
}

}  // namespace

KeyWords split_into(Lowering& at, KeyWords key, std::span<const Dim> shape, bool is_partitionable) {
  if (is_partitionable) {
    key = with_trailing_axes(at, key, shape.size());
    auto [high, low] = threefry2x32(at.b, key.high, key.low, nullptr, counters(at, shape));
    return {high, low};
  }
  std::vector<Dim> dims(key.high->type()->dims().begin(), key.high->type()->dims().end());
  dims.insert(dims.end(), shape.begin(), shape.end());
  dims.push_back(Dim::of(2));
  Value* words = at.reshape(original_words(at, key, at.b.dims().mul(size_of(at, shape), Dim::of(2))), dims);
  auto word = [&](int64_t i) { return at.b.Gather(words, at.b.i64(i), {.axis = -1}); };
  return {word(0), word(1)};
}

std::vector<Value*> lower_random_wrap(Lowering& at) { return {wrap_key(at.b, at.context(), at.in(0), at.out_dtype())}; }

std::vector<Value*> lower_random_unwrap(Lowering& at) { return {unwrap_key(at.b, at.context(), at.in(0), at.in_dtype(0))}; }

// The seed's upper and lower 32 bits are the key's words.
std::vector<Value*> lower_random_seed(Lowering& at) {
  Value* seed = at.in(0);
  Value* high = nullptr;
  if (bit_width(seed->dtype()) == 64) {
    Value* bits = at.cast(seed, DType::kU64);
    high = at.cast(at.b.BitShift(bits, at.b.scalar_int(DType::kU64, 32), {.direction = "RIGHT"}), DType::kU32);
    seed = bitwise(at.b, "BitwiseAnd", bits, at.b.scalar_int(DType::kU64, 0xffffffff));
  } else {
    high = at.zeros(DType::kU32, at.in_dims(0));
    // Narrow signed seeds are sign-extended to 32 bits first.
    if (bit_width(seed->dtype()) < 32) seed = at.cast(seed, DType::kI32);
  }
  return {pack_key(at.b, at.context(), {high, at.cast(seed, DType::kU32)})};
}

std::vector<Value*> lower_random_fold_in(Lowering& at) {
  const KeyWords key = split_key(at.b, at.context(), at.in(0));
  auto [high, low] = threefry2x32(at.b, key.high, key.low, nullptr, at.cast(at.in(1), DType::kU32));
  return {pack_key(at.b, at.context(), {high, low})};
}

std::vector<Value*> lower_random_split(Lowering& at) {
  KeyWords key = split_key(at.b, at.context(), at.in(0));
  return {pack_key(at.b, at.context(), split_into(at, key, at.dims_param("shape"), partitionable(at)))};
}

std::vector<Value*> lower_random_bits(Lowering& at) {
  const std::vector<Dim> shape = at.dims_param("shape");
  const int64_t width = at.int_param("bit_width");
  const DType dtype = at.out_dtype();
  KeyWords key = split_key(at.b, at.context(), at.in(0));
  auto join64 = [&](Value* high, Value* low) {
    Value* upper = at.b.BitShift(at.cast(high, DType::kU64), at.b.scalar_int(DType::kU64, 32), {.direction = "LEFT"});
    return join_bits(at.b, upper, at.cast(low, DType::kU64));
  };
  if (partitionable(at)) {
    key = with_trailing_axes(at, key, shape.size());
    auto [high, low] = threefry2x32(at.b, key.high, key.low, nullptr, counters(at, shape));
    if (width == 64) return {join64(high, low)};
    return {at.cast(bitwise(at.b, "BitwiseXor", high, low), dtype)};
  }
  Dims& dims = at.b.dims();
  const Dim size = size_of(at, shape);
  const Dim count = dims.ceildiv(dims.mul(size, Dim::of(width)), Dim::of(32));
  Value* words = original_words(at, key, count);
  const auto axis = static_cast<int64_t>(words->type()->rank()) - 1;
  if (width == 64) {
    words = join64(at.slice(words, axis, Dim::of(0), size), at.slice(words, axis, size, count));
  } else if (width < 32) {
    // The bytes of each word, lowest first.
    const int64_t per_word = 32 / width;
    std::vector<uint32_t> shifts;
    for (int64_t i = 0; i < per_word; ++i) shifts.push_back(static_cast<uint32_t>(width * i));
    Value* by = at.b.constant(Tensor::of<uint32_t>(DType::kU32, {per_word}, shifts));
    Value* parts = at.b.BitShift(at.unsqueeze(words, std::vector<int64_t>{axis + 1}), by, {.direction = "RIGHT"});
    parts = bitwise(at.b, "BitwiseAnd", parts, at.b.scalar_int(DType::kU32, (int64_t{1} << width) - 1));
    std::vector<Dim> flat(at.in_dims(0).begin(), at.in_dims(0).end());
    flat.push_back(dims.mul(count, Dim::of(per_word)));
    words = at.slice(at.reshape(at.cast(parts, dtype), flat), axis, Dim::of(0), size);
  }
  return {at.reshape(words, at.out_dims())};
}

std::vector<Value*> lower_threefry2x32(Lowering& at) {
  auto [x0, x1] = threefry2x32(at.b, at.in(0), at.in(1), at.in(2), at.in(3));
  return {x0, x1};
}

std::vector<Value*> lower_iota_2x32_shape(Lowering& at) {
  return {at.zeros(DType::kU32, at.out_dims()), counters(at, at.out_dims())};
}

}  // namespace sardonyx
