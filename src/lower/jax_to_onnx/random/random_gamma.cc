// random_gamma[log_space] key alpha   =>   a gamma-distributed sample for each alpha, or its logarithm
//
// G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables" (2000), step by step as in
// JAX (jax/_src/random/core.py), so that the same key gives the same sample. All elements run through the
// rejection loop together, and each keeps its value once accepted. For alpha < 1: gamma(alpha + 1) U^(1 /
// alpha). JAX rounds every step of 16-bit floats. So the graph computes in f32 and rounds each result,
// constants included; otherwise it would accept other candidates.
#include <cmath>

#include "lower/jax_to_onnx/arithmetic/bitwise.h"
#include "lower/jax_to_onnx/random/threefry.h"
#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

// v rounded to a mantissa of `bits` bits.
double round_to_bits(double v, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(v, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

// One key per element, as u32.
struct Keys {
  Num high, low;
};

class Generator {
 public:
  Generator(bool partitionable, DType t)
      : partitionable_(partitionable), own_(t), dtype_(t == DType::kF64 ? DType::kF64 : DType::kF32) {}

  // Rounds the result of a step to the samples' own type.
  Num rounded(const Num& x) const { return own_ == dtype_ ? x : cast(cast(x, own_), dtype_); }
  double rounded(double v) const {
    return own_ == dtype_ ? v : own_ == DType::kF16 ? round_to_bits(v, 11) : round_to_bits(v, 8);
  }

  // Key i of split(key, n).
  Keys split(const Keys& key, int n, int i) const {
    if (partitionable_) return hash(key, 0, i);
    // 2 n counters are hashed as pairs (c, c + n); all first words precede all second ones.
    auto word = [&](int k) { return k < n ? hash(key, k, k + n).high : hash(key, k - n, k).low; };
    return {word(2 * i), word(2 * i + 1)};
  }

  // A uniform number in [0, 1), with as many random bits as the mantissa.
  Num uniform(const Keys& key) const {
    bool is_f64 = dtype_ == DType::kF64;
    Keys words = partitionable_ ? hash(key, 0, 0) : hash(key, 0, is_f64 ? 1 : 0);
    if (is_f64) {
      // The upper 52 bits of 64: 32 of the first word and 20 of the second.
      Num low = shifted(words.low, 12);
      return cast(words.high, dtype_) * std::ldexp(1, -32) + cast(low, dtype_) * std::ldexp(1, -52);
    }
    Num bits = partitionable_ ? apply("BitwiseXor", {words.high, words.low}) : words.high;
    // As many random bits as the type has, or 8 if that fills the mantissa: the low bits of the word.
    if (own_ == DType::kF16) return cast(masked(shifted(bits, 6), 0x3FF), dtype_) * std::ldexp(1, -10);
    if (own_ == DType::kBF16) return cast(masked(shifted(bits, 1), 0x7F), dtype_) * std::ldexp(1, -7);
    return cast(shifted(bits, 9), dtype_) * std::ldexp(1, -23);
  }

  Num normal(const Keys& key) const {
    double low = own_ == DType::kF16    ? std::ldexp(1, -11) - 1
                 : own_ == DType::kBF16 ? std::ldexp(1, -8) - 1
                 : own_ == DType::kF64  ? std::nextafter(-1.0, 0.0)
                                        : std::nextafter(-1.0F, 0.0F);
    // 1 - low is a tie, which rounds to even.
    Num u = max(rounded(uniform(key) * 2 + low), low);
    return rounded(rounded(u.with(erf_inv(u.ctx(), u.value()))) * rounded(std::sqrt(2.0)));
  }

 private:
  static Num shifted(const Num& x, int by) {
    return x.with(x.ctx().b.BitShift(x.value(), x.ctx().b.scalar_int(DType::kU32, by), {.direction = "RIGHT"}));
  }

  static Num masked(const Num& x, uint32_t mask) {
    return x.with(bitwise(x.ctx().b, "BitwiseAnd", x.value(), x.ctx().b.scalar_int(DType::kU32, mask)));
  }

  static Keys hash(const Keys& key, int x0, int x1) {
    OnnxBuilder& b = key.high.ctx().b;
    auto counter = [&](int x) { return b.scalar_int(DType::kU32, x); };
    auto [high, low] = threefry2x32(b, key.high.value(), key.low.value(), x0 == 0 ? nullptr : counter(x0), counter(x1));
    return {key.high.with(high), key.low.with(low)};
  }

  bool partitionable_;
  DType own_;    // type of the samples
  DType dtype_;  // type to compute in
};

// x, v = (1 + c x)^3 > 0 for the next normal x.
std::pair<Num, Num> next_candidate(const Generator& g, const Keys& key, const Num& c) {
  Num zero = full_like(c, 0), minus_one = full_like(c, -1);
  std::vector<Num> s{key.high, key.low, zero, minus_one};
  s = loop(key.high.scope(), nullptr, {}, std::move(s), [&](const Num&, std::vector<Num>& state) {
    Num going = state[3] <= 0;
    Keys now{state[0], state[1]};
    Keys rest = g.split(now, 2, 0);
    Num x = g.normal(g.split(now, 2, 1));
    state[0] = where(going, rest.high, now.high);
    state[1] = where(going, rest.low, now.low);
    state[2] = where(going, x, state[2]);
    state[3] = where(going, g.rounded(g.rounded(x * c) + 1), state[3]);
    return any(state[3] <= 0);
  });
  return {s[2], g.rounded(g.rounded(s[3] * s[3]) * s[3])};
}

}  // namespace

std::vector<Value*> lower_random_gamma(Lowering& ctx) {
  DType own = ctx.out_dtype();
  Dims& dims = ctx.b.dims();
  const bool is_partitionable = ctx.bool_param("threefry_partitionable", true);
  Generator g(is_partitionable, own);
  auto r = [&](const auto& x) { return g.rounded(x); };
  bool log_space = ctx.bool_param("log_space");

  // Each key serves the elements of the axes after its own.
  size_t key_rank = ctx.in_rank(0);
  auto shape = ctx.out_dims();
  const Dim keys = dims.product(shape.first(key_rank)), each = dims.product(shape.subspan(key_rank));
  const Dim flat[] = {dims.mul(keys, each)};
  auto words = split_key(ctx.b, ctx.context(), ctx.in(0));
  words =
      split_into(ctx, {ctx.reshape(words.high, {&keys, 1}), ctx.reshape(words.low, {&keys, 1})}, {&each, 1}, is_partitionable);
  Keys key{Num(ctx, ctx.reshape(words.high, flat)), Num(ctx, ctx.reshape(words.low, flat))};

  Num given(ctx, ctx.cast(ctx.reshape(ctx.expand(ctx.in(1), shape), flat), own == DType::kF64 ? own : DType::kF32));
  Num is_large = given >= 1;
  Num alpha = where(is_large, given, r(given + 1));
  Num d = r(alpha - r(1.0 / 3));
  Num c = r(r(1.0 / 3) / r(sqrt(d)));

  Keys rest = g.split(key, 2, 0), last = g.split(key, 2, 1);
  auto rejected = [&](const Num& x, const Num& v, const Num& u) {
    Num squeezed = r(1 - r(r(x * x) * r(0.0331)));
    return (u >= squeezed) & (r(log(u)) >= r(r(x * 0.5) + r(d * r(r(1 - v) + r(log(v))))));
  };
  Num one = full_like(given, 1);
  Num start = rejected(full_like(given, 0), one, full_like(given, 2));
  std::vector<Num> s{rest.high, rest.low, one, start};
  s = loop({&ctx}, nullptr, any(start), std::move(s), [&](const Num&, std::vector<Num>& state) {
    Num going = state[3];
    Keys now{state[0], state[1]};
    auto [x, v] = next_candidate(g, g.split(now, 3, 1), c);
    Num square = r(x * x);
    Num again = rejected(square, v, g.uniform(g.split(now, 3, 2)));
    Keys next = g.split(now, 3, 0);
    state[0] = where(going, next.high, now.high);
    state[1] = where(going, next.low, now.low);
    state[2] = where(going, v, state[2]);
    state[3] = going & again;
    return any(state[3]);
  });
  Num v = s[2], u = g.uniform(last);
  Num result = v;
  if (log_space) {
    Num log_sample = r(log1p(-u));
    Num boost = where(is_large | eq(log_sample, 0), 0, r(log_sample * r(1.0 / given)));
    result = r(r(log(d)) + r(log(v))) + boost;
  } else {
    Num boost = where(is_large, 1, r(pow(r(1 - u), r(1.0 / given))));
    result = r(d * v) * boost;
  }
  return {ctx.cast(ctx.reshape(result.value(), shape), own)};
}

}  // namespace sardonyx::jax_to_onnx
