#include "ir/tensor/half.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "sardonyx/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace sardonyx {
namespace {

constexpr size_t kLanes = 4;
using Bits [[gnu::vector_size(16)]] = uint32_t;
using Order [[gnu::vector_size(16)]] = int32_t;
using Floats [[gnu::vector_size(16)]] = float;
using Halves [[gnu::vector_size(8)]] = uint16_t;

constexpr uint32_t kSign = 0x80000000;
constexpr int32_t kLeastNormal = 113 << 23;  // 2^-14
constexpr int32_t kInfinite = 143 << 23;     // 2^16: from here on everything overflows
constexpr int32_t kNan = 255 << 23;          // above infinity's bits
constexpr uint32_t kOneHalf = 126 << 23;     // 0.5, whose last bit is that of subnormal halves

// `chosen` where `choose` is all ones, else `otherwise`.
Bits pick(Order choose, Bits chosen, Bits otherwise) {
  const auto mask = reinterpret_cast<Bits>(choose);
  return (chosen & mask) | (otherwise & ~mask);
}

Halves round(Bits x) {
  const Bits magnitude = x & ~kSign;
  const auto order = reinterpret_cast<Order>(magnitude);  // signed, because old processors only compare signed integers
  // Round away 13 bits: add half of the last remaining bit, minus one unless that bit is odd. A carry into
  // the exponent is correct.
  const Bits odd = magnitude >> 13 & 1;
  const Bits normal = (magnitude - (112U << 23) + 0xfff + odd) >> 13;
  // For subnormals, adding 0.5 shifts the bits into place and rounds them.
  const Bits half = Bits{} + kOneHalf;
  const auto sum = reinterpret_cast<Floats>(magnitude) + reinterpret_cast<Floats>(half);
  const Bits small = reinterpret_cast<Bits>(sum) - kOneHalf;
  Bits made = pick(order < kLeastNormal, small, normal);
  made = pick(order >= kInfinite, Bits{} + 0x7c00, made);
  made = pick(order > kNan, Bits{} + 0x7e00, made);
  return __builtin_convertvector(made | (x >> 16 & 0x8000), Halves);
}

Bits widened(Halves h) {
  constexpr uint32_t kRebias = 112U << 23, kExponent = 31U << 23;
  const Bits code = __builtin_convertvector(h, Bits);
  const Bits moved = (code & 0x7fff) << 13;
  const Bits exponent = moved & kExponent;
  const Bits normal = moved + kRebias;
  // Subnormal halves are normal f32: subtract the implicit leading one.
  const Bits one_up = normal + (1U << 23), one = Bits{} + (113U << 23);
  const auto rest = reinterpret_cast<Floats>(one_up) - reinterpret_cast<Floats>(one);
  Bits made = pick(exponent == Bits{}, reinterpret_cast<Bits>(rest), normal);
  made = pick(exponent == Bits{} + kExponent, normal + kRebias, made);
  return made | (code & 0x8000) << 16;
}

// A deleter that keeps the cast's source alive: see cast_source().
struct CastDeleter {
  TensorPtr source;
  void operator()(const Tensor* t) const { delete t; }
};

// Calls f(from, to, count) on chunks of t, whose elements have `width` bytes, writing to `out`, whose
// elements have `out_width`.
template <class F>
Tensor::Fill in_pieces(TensorPtr t, size_t width, size_t out_width, F f) {
  return [t = std::move(t), width, out_width, f](int64_t first, std::span<std::byte> out) {
    const size_t count = out.size() / out_width;
    if (!t->is_deferred()) return f(t->stored_bytes().data() + static_cast<size_t>(first) * width, out.data(), count);
    constexpr size_t kPiece = 1 << 18;  // a few rows of a weight that is transposed on the fly
    const size_t most = std::min(count, kPiece);
    const std::unique_ptr<std::byte[]> piece(new std::byte[most * width]);  // uninitialized
    for (size_t done = 0; done < count;) {
      const size_t n = std::min(most, count - done);
      t->read(first + static_cast<int64_t>(done), {piece.get(), n * width});
      f(piece.get(), out.data() + done * out_width, n);
      done += n;
    }
  };
}

// Applies f to four elements at a time, then to the remainder.
template <class To, class From>
void convert(const std::byte* from, std::byte* to, size_t count, To (*f)(From)) {
  constexpr size_t kFrom = sizeof(From) / kLanes, kTo = sizeof(To) / kLanes;
  for (size_t i = 0; i < count; i += kLanes) {
    const size_t n = std::min(kLanes, count - i);
    From x{};
    std::memcpy(&x, from + i * kFrom, n * kFrom);
    const To y = f(x);
    std::memcpy(to + i * kTo, &y, n * kTo);
  }
}

// t with each element converted to `to` by f. See as_half().
TensorPtr converted(const TensorPtr& t, DType to, void (*f)(const std::byte*, std::byte*, size_t)) {
  std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  const auto width = static_cast<size_t>(bit_width(t->dtype())) / 8, out_width = static_cast<size_t>(bit_width(to)) / 8;
  if (t->is_splat()) {
    std::byte one[4];
    f(t->stored_bytes().data(), one, 1);
    return Tensor::splat(to, std::move(shape), std::span(one, out_width));
  }
  if (t->is_promise() || !t->reads_in_pieces()) return nullptr;
  return Tensor::defer(to, std::move(shape), in_pieces(t, width, out_width, f));
}

// A deferred tensor that tells its source.
TensorPtr with_source(const TensorPtr& made, const TensorPtr& t) {
  return made == nullptr || !made->is_deferred() ? made : TensorPtr(new Tensor(*made), CastDeleter{t});
}

}  // namespace

#if defined(__x86_64__)

namespace {

// Whether the processor converts by itself, and the system keeps its wide registers.
bool converts_halves() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t kNeeded = 1U << 27 | 1U << 28 | 1U << 29;  // OSXSAVE, AVX, F16C
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kNeeded) != kNeeded) return false;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6) == 6;
}

// Converts the first elements, a multiple of eight, and returns how many. NaN are left to round(), which
// drops their payload.
[[gnu::target("avx,f16c")]] size_t halves_by_processor(const std::byte* from, std::byte* to, size_t count) {
  constexpr size_t kEight = 8;
  size_t i = 0;
  for (; i + kEight <= count; i += kEight) {
    const __m256 x = _mm256_loadu_ps(reinterpret_cast<const float*>(from + i * 4));
    if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0) {
      convert(from + i * 4, to + i * 2, kEight, round);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * 2), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
  }
  return i;
}

}  // namespace

void floats_to_halves(const std::byte* from, std::byte* to, size_t count) {
  static const bool by_processor = converts_halves();
  const size_t done = by_processor ? halves_by_processor(from, to, count) : 0;
  convert(from + done * 4, to + done * 2, count - done, round);
}

#else

void floats_to_halves(const std::byte* from, std::byte* to, size_t count) { convert(from, to, count, round); }

#endif

void halves_to_floats(const std::byte* from, std::byte* to, size_t count) { convert(from, to, count, widened); }

void floats_to_bf16(const std::byte* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, from + 4 * i, sizeof bits);
    const auto upper = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    std::memcpy(to + 2 * i, &upper, sizeof upper);
  }
}

TensorPtr as_half(const TensorPtr& t) {
  SX_CHECK(t->dtype() == DType::kF32);
  // What was rounded before stays the same. Not so for halves of unknown origin: their NaN may have other
  // bits.
  if (const TensorPtr half = cast_source(t); half != nullptr && cast_source(half) != nullptr) return half;
  return with_source(converted(t, DType::kF16, floats_to_halves), t);
}

TensorPtr as_single(const TensorPtr& t) {
  SX_CHECK(t->dtype() == DType::kF16);
  return with_source(converted(t, DType::kF32, halves_to_floats), t);
}

TensorPtr as_bf16(const TensorPtr& t) {
  SX_CHECK(t->dtype() == DType::kF32);
  return converted(t, DType::kBF16, floats_to_bf16);
}

TensorPtr cast_source(const TensorPtr& t) {
  const auto* found = std::get_deleter<CastDeleter>(t);
  return found != nullptr ? found->source : nullptr;
}

}  // namespace sardonyx
