// Random operators. Numbers depend only on the seed and on how many random nodes ran before, so every machine
// draws the same.
//
// A node's own seed wins over the run's. Streams are counters through SplitMix64's finalizer (Steele, Lea,
// Flood 2014).
#include <bit>
#include <cmath>
#include <numbers>

#include "eval/elementwise.h"

namespace sardonyx::eval {
namespace {

class Stream {
 public:
  explicit Stream(Call& c) {
    const uint64_t order = ++c.run.random_nodes;
    const Attr* own = c.attr("seed");
    uint64_t seed = c.run.options.seed;
    if (own != nullptr) {
      if (const auto* f = own->get<double>()) seed = std::bit_cast<uint64_t>(*f);
      if (const auto* i = own->get<int64_t>()) seed = static_cast<uint64_t>(*i);
    }
    state_ = mix(seed) ^ mix(own != nullptr ? 0 : order);
  }
  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() {                                                         // the Box-Muller transform
    const double r = std::sqrt(-2 * std::log(1 - uniform()));
    return r * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

template <class F>
void draw(Call& c, DType t, std::vector<int64_t> shape, F f) {
  Array out = c.make(t, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) {
    const double v = f(i);
    store<double>(out, i, 1, &v);
  }
  c.set(0, out);
}

DType dtype_or(const Call& c, DType otherwise) {
  return c.attr("dtype") != nullptr ? static_cast<DType>(c.int_attr("dtype")) : otherwise;
}

void normal(Call& c, DType t, std::vector<int64_t> shape) {
  const double mean = c.float_attr("mean", 0), scale = c.float_attr("scale", 1);
  Stream s(c);
  draw(c, t, std::move(shape), [&](int64_t) { return mean + scale * s.normal(); });
}

void uniform(Call& c, DType t, std::vector<int64_t> shape) {
  const double low = c.float_attr("low", 0), high = c.float_attr("high", 1);
  Stream s(c);
  draw(c, t, std::move(shape), [&](int64_t) { return low + (high - low) * s.uniform(); });
}

}  // namespace

namespace kernels {

void RandomNormal(Call& c) { normal(c, dtype_or(c, DType::kF32), c.ints_attr("shape").value_or(std::vector<int64_t>{})); }
void RandomUniform(Call& c) { uniform(c, dtype_or(c, DType::kF32), c.ints_attr("shape").value_or(std::vector<int64_t>{})); }
void RandomNormalLike(Call& c) { normal(c, dtype_or(c, c.dtype()), c.in(0).shape()); }
void RandomUniformLike(Call& c) { uniform(c, dtype_or(c, c.dtype()), c.in(0).shape()); }

void Bernoulli(Call& c) {
  const std::vector<double> p = c.doubles(0);
  Stream s(c);
  draw(c, dtype_or(c, c.dtype()), c.in(0).shape(),
       [&](int64_t i) { return s.uniform() < p[static_cast<size_t>(i)] ? 1.0 : 0.0; });
}

// The operand holds unnormalized log-probabilities of the outcomes.
void Multinomial(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() == 2 && x.dim(1) > 0, "expected a matrix with a row of logarithms per draw");
  const std::vector<double> logs = c.doubles(0);
  const int64_t samples = c.int_attr("sample_size", 1), classes = x.dim(1);
  Stream s(c);
  draw(c, dtype_or(c, DType::kI32), {x.dim(0), samples}, [&](int64_t i) {
    const double* row = logs.data() + i / samples * classes;
    double high = row[0], total = 0;
    for (int64_t k = 1; k < classes; ++k) high = std::fmax(high, row[k]);
    for (int64_t k = 0; k < classes; ++k) total += std::exp(row[k] - high);
    double left = s.uniform() * total;
    for (int64_t k = 0; k < classes; ++k) {
      left -= std::exp(row[k] - high);
      if (left < 0) return static_cast<double>(k);
    }
    return static_cast<double>(classes - 1);
  });
}

// Drops nothing outside training mode.
void Dropout(Call& c) {
  const Array& x = c.in(0);
  double ratio = 0.5;
  bool training = false;
  if (c.version() >= 12) {
    if (c.has(1)) ratio = c.scalar(1);
    training = c.has(2) && c.int_scalar(2) != 0;
  } else {
    ratio = c.float_attr("ratio", 0.5);
    training = c.version() < 7 && c.int_attr("is_test", 0) == 0;
  }
  const DType mask_type = c.version() < 10 ? x.dtype() : DType::kBool;
  if (!training || ratio == 0) {
    c.set(0, x);
    if (c.wants(1)) c.set(1, c.full(mask_type, x.shape(), 1));
    return;
  }
  c.require(ratio > 0 && ratio < 1, "the ratio must be at least 0 and less than 1");
  Stream s(c);
  Array mask = c.make(DType::kBool, x.shape());
  for (int64_t i = 0; i < mask.size(); ++i) mask.as<uint8_t>()[i] = s.uniform() >= ratio;
  const double scale = 1 / (1 - ratio);
  c.set(0,
        map2_as<double, double>(c, x, mask, x.dtype(), [scale](double v, double keep) { return keep != 0 ? v * scale : 0; }));
  if (c.wants(1)) c.set(1, cast(c, mask, mask_type));
}

}  // namespace kernels
}  // namespace sardonyx::eval
