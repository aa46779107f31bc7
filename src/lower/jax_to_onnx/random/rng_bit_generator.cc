// rng_bit_generator[algorithm, dtype, shape] key   =>   the new key, and the bits of XLA on CPUs
// rng_uniform[shape] a b                           =>   RandomUniform<shape>() * (b - a) + a
//
// Philox4x32-10 or Threefry2x32-20: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11. A key
// is two u64: the key proper and a counter. Philox counts in 128 bits, with the key as the upper half, and
// gives four words per count. Threefry gives a pair per count, side by side along one axis. The choice of
// that axis and the final counter follow XLA (xla/hlo/builder/lib/prng.cc). The default algorithm on CPUs is
// Philox.
//
// rng_uniform has no key: XLA uses a generator of the process, and so does ONNX.
#include <algorithm>
#include <array>
#include <optional>

#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/lib/word.h"
#include "lower/jax_to_onnx/random/threefry.h"

namespace sardonyx::jax_to_onnx {
namespace {

// The halves of u64 values, as u32.
struct Halves {
  Value *low, *high;
};

Halves halves(Lowering& ctx, Value* x) {
  return {ctx.cast((Word(ctx, x) & 0xFFFFFFFF).value(), DType::kU32), ctx.cast((Word(ctx, x) >> 32).value(), DType::kU32)};
}

Value* join(Lowering& ctx, Value* low, Value* high) {
  Value* upper = ctx.b.BitShift(ctx.cast(high, DType::kU64), ctx.b.scalar_int(DType::kU64, 32), {.direction = "LEFT"});
  return join_bits(ctx.b, upper, ctx.cast(low, DType::kU64));
}

Halves product(Lowering& ctx, Value* x, uint64_t factor) {
  return halves(ctx, (Word(ctx, ctx.cast(x, DType::kU64)) * factor).value());
}

std::array<Value*, 4> philox(Lowering& ctx, std::array<Value*, 4> x, Value* k0, Value* k1) {
  OnnxBuilder& b = ctx.b;
  auto exclusive = [&](Value* p, Value* q) { return bitwise(b, "BitwiseXor", p, q); };
  for (int round = 0; round < 10; ++round) {
    Halves first = product(ctx, x[0], 0xD2511F53), second = product(ctx, x[2], 0xCD9E8D57);
    x = {exclusive(exclusive(second.high, x[1]), k0), second.low, exclusive(exclusive(first.high, x[3]), k1), first.low};
    k0 = b.Add(k0, b.scalar_int(DType::kU32, 0x9E3779B9));
    k1 = b.Add(k1, b.scalar_int(DType::kU32, 0xBB67AE85));
  }
  return x;
}

struct Bits {
  Value* words;    // flat, at least as many as needed
  Value* counter;  // u64[]
};

Bits philox_bits(Lowering& ctx, Value* key, Value* counter, Dim count, bool is_u64) {
  OnnxBuilder& b = ctx.b;
  Dims& dims = b.dims();
  Dim blocks = dims.ceildiv(count, Dim::of(is_u64 ? 2 : 4));
  Value* low = b.Add(ctx.iota(DType::kU64, blocks), counter);
  Value* carry = ctx.cast(b.Less(low, counter), DType::kU64);
  Halves k = halves(ctx, key), c0 = halves(ctx, low), c1 = halves(ctx, b.Add(carry, key));
  auto words = philox(ctx, {c0.low, c0.high, c1.low, c1.high}, k.low, k.high);
  std::vector<Value*> columns;
  auto add = [&](Value* x) { columns.push_back(ctx.unsqueeze(x, std::vector<int64_t>{1})); };
  for (size_t i = 0; i < 4; i += is_u64 ? 2 : 1) add(is_u64 ? join(ctx, words[i], words[i + 1]) : words[i]);
  Dim all = dims.mul(blocks, Dim::of(is_u64 ? 2 : 4));
  return {ctx.reshape(ctx.concat(columns, 1), {&all, 1}), b.Add(counter, ctx.dim_as(blocks, DType::kU64))};
}

// The axis along which adjacent elements share a count: the first of even size, else the first of the largest
// size. Nullopt if that depends on symbolic sizes.
std::optional<size_t> paired_axis(std::span<const Dim> shape) {
  std::vector<int64_t> sizes;
  for (Dim d : shape) {
    if (!d.is_int()) return {};
    sizes.push_back(d.value());
    if (d.value() % 2 == 0) return sizes.size() - 1;
  }
  return static_cast<size_t>(std::ranges::max_element(sizes) - sizes.begin());
}

// For an axis known only at run time: computes the count of each element and its word of the pair from the
// element's number. Hashes each count twice.
Bits threefry_bits_of_any_axis(Lowering& ctx, const Halves& k, Value* counter, std::span<const Dim> shape) {
  OnnxBuilder& b = ctx.b;
  Dims& dims = b.dims();
  Value *one = b.i64(1), *two = b.i64(2), *zero = b.i64(0);
  Value *size = zero, *behind = one,
        *is_even = b.scalar_int(DType::kBool, 0);  // of the chosen axis: its size, the elements that one step skips
  for (size_t i = 0; i < shape.size(); ++i) {
    Value* n = ctx.dim(shape[i]);
    Value* even = b.Equal(b.Mod(n, two), zero);
    Value* better = b.And(b.Not(is_even), b.Or(even, b.Greater(n, size)));
    size = b.Where(better, n, size);
    behind = b.Where(better, ctx.dim(dims.product(shape.subspan(i + 1))), behind);
    is_even = b.Or(is_even, even);
  }
  Value* pairs = b.Div(b.Add(size, one), two);
  Dim all = dims.product(shape);
  Value* element = ctx.iota(DType::kI64, all);
  Value *inner = b.Mod(element, behind), *rest = b.Div(element, behind);
  Value *place = b.Mod(rest, size), *outer = b.Div(rest, size);
  Value* number = b.Add(b.Mul(b.Add(b.Mul(outer, pairs), b.Div(place, two)), behind), inner);
  Halves c = halves(ctx, b.Add(ctx.cast(number, DType::kU64), counter));
  auto [first, second] = threefry2x32(b, k.low, k.high, c.low, c.high);
  Value* words = ctx.select(b.Equal(b.Mod(place, two), zero), first, second);
  Value* counts = b.Mul(b.Div(ctx.dim(all), size), pairs);
  return {ctx.reshape(words, shape), b.Add(counter, ctx.cast(counts, DType::kU64))};
}

Bits threefry_bits(Lowering& ctx, Value* key, Value* counter, std::span<const Dim> shape, bool is_u64) {
  OnnxBuilder& b = ctx.b;
  Dims& dims = b.dims();
  std::vector<Dim> counted(shape.begin(), shape.end());
  const std::optional<size_t> paired = is_u64 || shape.empty() ? 0 : paired_axis(shape);
  if (!paired) return threefry_bits_of_any_axis(ctx, halves(ctx, key), counter, shape);
  const size_t axis = *paired;
  if (!is_u64 && !shape.empty()) counted[axis] = dims.ceildiv(shape[axis], Dim::of(2));
  Dim size = dims.product(counted);
  Halves k = halves(ctx, key), c = halves(ctx, b.Add(ctx.iota(DType::kU64, size), counter));
  auto [first, second] = threefry2x32(b, k.low, k.high, c.low, c.high);
  Value* next = b.Add(counter, ctx.dim_as(size, DType::kU64));
  if (is_u64) return {ctx.reshape(join(ctx, first, second), shape), next};
  if (shape.empty()) return {ctx.reshape(first, shape), next};
  std::vector<int64_t> behind{static_cast<int64_t>(axis) + 1};
  Value* pieces[] = {ctx.unsqueeze(ctx.reshape(first, counted), behind), ctx.unsqueeze(ctx.reshape(second, counted), behind)};
  counted[axis] = dims.mul(counted[axis], Dim::of(2));
  Value* words = ctx.reshape(ctx.concat(pieces, behind[0]), counted);
  return {ctx.slice(words, static_cast<int64_t>(axis), Dim::of(0), shape[axis]), next};
}

}  // namespace

std::vector<Value*> lower_rng_bit_generator(Lowering& ctx) {
  OnnxBuilder& b = ctx.b;
  Value* state = ctx.in(0);
  auto word = [&](int64_t i) { return b.Gather(state, b.i64(i), {.axis = 0}); };
  bool is_u32 = state->dtype() == DType::kU32;
  const std::span<const Dim> key_dims = ctx.in_dims(0);
  if (key_dims.size() != 1 || !key_dims[0].is(is_u32 ? 4 : 2))
    ctx.unsupported("the key must be u32[4] or u64[2], as XLA has it");
  Value* key = is_u32 ? join(ctx, word(0), word(1)) : word(0);
  Value* counter = is_u32 ? join(ctx, word(2), word(3)) : word(1);
  auto shape = ctx.dims_param("shape");
  DType own = ctx.out_dtype(1);
  bool is_u64 = own == DType::kU64;
  bool is_threefry = ctx.string_param("algorithm").find("THREE_FRY") != std::string::npos;
  Dim count = b.dims().product(shape);
  Bits bits = is_threefry ? threefry_bits(ctx, key, counter, shape, is_u64) : philox_bits(ctx, key, counter, count, is_u64);
  if (!is_threefry) bits.words = ctx.reshape(ctx.slice(bits.words, 0, Dim::of(0), count), shape);

  std::vector<Value*> parts;
  auto add = [&](Value* x) { parts.push_back(ctx.unsqueeze(x, std::vector<int64_t>{0})); };
  if (is_u32) {
    Halves next = halves(ctx, bits.counter);
    for (Value* x : {word(0), word(1), next.low, next.high}) add(x);
  } else {
    add(key);
    add(bits.counter);
  }
  return {ctx.concat(parts, 0), ctx.cast(bits.words, own)};
}

std::vector<Value*> lower_rng_uniform(Lowering& ctx) {
  OnnxBuilder& b = ctx.b;
  DType own = ctx.out_dtype();
  if (!is_float(own)) ctx.unsupported("only floats");
  DType wide = own == DType::kF64 ? own : DType::kF32;
  Value* seed_shape = ctx.full(wide, ctx.dims_param("shape"), 0);
  Value* unit = b.RandomUniformLike(seed_shape, {.dtype = wide});
  Value *low = ctx.cast(ctx.in(0), wide), *high = ctx.cast(ctx.in(1), wide);
  return {ctx.cast(b.Add(b.Mul(unit, b.Sub(high, low)), low), own)};
}

}  // namespace sardonyx::jax_to_onnx
