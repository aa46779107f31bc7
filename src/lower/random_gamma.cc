// random_gamma[log_space] key alpha   =>   a sample of the gamma distribution for each alpha, or its logarithm
//
// G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables" (2000), step by step as JAX does it
// (jax/_src/random/core.py), so that the same key gives the same sample: all elements go through the rejection loop together, and each keeps
// what it had when it was accepted. For alpha < 1, gamma(alpha + 1) U^(1 / alpha).
#include <cmath>

#include "lower/special.h"
#include "lower/threefry.h"

namespace sardonyx {
namespace {

// One key per element, as u32.
struct Keys {
  Num high, low;
};

class Generator {
 public:
  Generator(bool partitionable, DType t) : partitionable_(partitionable), dtype_(t) {}

  // Key i of those that split(key, n) gives.
  Keys split(const Keys& key, int n, int i) const {
    if (partitionable_) return hash(key, 0, i);
    // 2 n counters are hashed as pairs (c, c + n); the first words stand before all second ones.
    auto word = [&](int k) { return k < n ? hash(key, k, k + n).high : hash(key, k - n, k).low; };
    return {word(2 * i), word(2 * i + 1)};
  }

  // In [0, 1), of as many bits as the mantissa has.
  Num uniform(const Keys& key) const {
    bool is_f64 = dtype_ == DType::kF64;
    Keys words = partitionable_ ? hash(key, 0, 0) : hash(key, 0, is_f64 ? 1 : 0);
    if (is_f64) {
      // The upper 52 bits of 64: 32 of the first word and 20 of the second.
      Num low = shifted(words.low, 12);
      return cast(words.high, dtype_) * std::ldexp(1, -32) + cast(low, dtype_) * std::ldexp(1, -52);
    }
    Num bits = partitionable_ ? apply("BitwiseXor", {words.high, words.low}) : words.high;
    return cast(shifted(bits, 9), dtype_) * std::ldexp(1, -23);
  }

  Num normal(const Keys& key) const {
    double low = dtype_ == DType::kF64 ? std::nextafter(-1.0, 0.0) : std::nextafter(-1.0F, 0.0F);
    double width = dtype_ == DType::kF64 ? 1 - low : 1 - static_cast<float>(low);
    Num u = max(uniform(key) * width + low, low);
    return u.with(erf_inv(u.at(), u.value())) * std::sqrt(2.0);
  }

 private:
  static Num shifted(const Num& x, int by) {
    return x.with(x.at().b.BitShift(x.value(), x.at().b.scalar_int(DType::kU32, by), {.direction = "RIGHT"}));
  }

  static Keys hash(const Keys& key, int x0, int x1) {
    OnnxBuilder& b = key.high.at().b;
    auto counter = [&](int x) { return b.scalar_int(DType::kU32, x); };
    auto [high, low] = threefry2x32(b, key.high.value(), key.low.value(), x0 == 0 ? nullptr : counter(x0), counter(x1));
    return {key.high.with(high), key.low.with(low)};
  }

  bool partitionable_;
  DType dtype_;
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
    state[3] = where(going, x * c + 1, state[3]);
    return any(state[3] <= 0);
  });
  return {s[2], s[3] * s[3] * s[3]};
}

}  // namespace

std::vector<Value*> lower_random_gamma(Lowering& at) {
  DType own = at.out_dtype();
  if (own != DType::kF32 && own != DType::kF64)
    at.unsupported("only f32 and f64: smaller floats would round every step of the rejection");
  Dims& dims = at.b.dims();
  const bool is_partitionable = at.bool_param("threefry_partitionable", true);
  Generator g(is_partitionable, own);
  bool log_space = at.bool_param("log_space");

  // Each key serves the elements of the axes behind its own.
  size_t key_rank = at.in_rank(0);
  auto shape = at.out_dims();
  const Dim keys = dims.product(shape.first(key_rank)), each = dims.product(shape.subspan(key_rank));
  const Dim flat[] = {dims.mul(keys, each)};
  auto words = split_key(at.b, at.context(), at.in(0));
  words = split_into(at, {at.reshape(words.high, {&keys, 1}), at.reshape(words.low, {&keys, 1})}, {&each, 1}, is_partitionable);
  Keys key{Num(at, at.reshape(words.high, flat)), Num(at, at.reshape(words.low, flat))};

  Num given(at, at.reshape(at.expand(at.in(1), shape), flat));
  Num is_large = given >= 1;
  Num alpha = where(is_large, given, given + 1);
  Num d = alpha - 1.0 / 3;
  Num c = 1.0 / 3 / sqrt(d);

  Keys rest = g.split(key, 2, 0), last = g.split(key, 2, 1);
  auto rejected = [&](const Num& x, const Num& v, const Num& u) {
    return (u >= 1 - x * x * 0.0331) & (log(u) >= x * 0.5 + d * ((1 - v) + log(v)));
  };
  Num one = full_like(given, 1);
  Num start = rejected(full_like(given, 0), one, full_like(given, 2));
  std::vector<Num> s{rest.high, rest.low, one, start};
  s = loop({&at}, nullptr, any(start), std::move(s), [&](const Num&, std::vector<Num>& state) {
    Num going = state[3];
    Keys now{state[0], state[1]};
    auto [x, v] = next_candidate(g, g.split(now, 3, 1), c);
    Num square = x * x;
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
    Num log_sample = log1p(-u);
    Num boost = where(is_large | eq(log_sample, 0), 0, log_sample * (1.0 / given));
    result = log(d) + log(v) + boost;
  } else {
    Num boost = where(is_large, 1, pow(1 - u, 1.0 / given));
    result = d * v * boost;
  }
  return {at.reshape(result.value(), shape)};
}

}  // namespace sardonyx
