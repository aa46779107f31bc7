// Normalizations. Means and variances are computed in f64, and results are rounded once.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "eval/elementwise.h"

namespace sardonyx::eval {
namespace {

// A list of numbers, one for each channel.
std::vector<double> per_channel(const Call& c, size_t operand, int64_t channels) {
  std::vector<double> v = c.doubles(operand);
  if (static_cast<int64_t>(v.size()) != channels) {
    c.fail(fmt::format("operand {} has {} elements for {} channels", operand, v.size(), channels));
  }
  return v;
}

struct Moments {
  double mean = 0, variance = 0;
};
Moments moments(const double* x, int64_t n) {
  Moments m;
  for (int64_t i = 0; i < n; ++i) m.mean += x[i];
  m.mean /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) m.variance += (x[i] - m.mean) * (x[i] - m.mean);
  m.variance /= static_cast<double>(n);
  return m;
}

// Broadcasts operand i from the last axis to the shape that it scales.
std::vector<double> spread(const Call& c, size_t i, const std::vector<int64_t>& shape) {
  return load_all<double>(c.in(i).broadcast_to(shape));
}

}  // namespace

namespace kernels {

void BatchNormalization(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() >= 1, "expected an operand with a batch axis");
  const int64_t n = x.dim(0), channels = x.rank() > 1 ? x.dim(1) : 1;
  const int64_t inner = x.rank() > 2 ? product(std::span(x.shape()).subspan(2)) : 1;
  const double epsilon = c.float_attr("epsilon", 1e-5), momentum = c.float_attr("momentum", 0.9);
  const std::vector<double> scale = per_channel(c, 1, channels), bias = per_channel(c, 2, channels);
  std::vector<double> mean = per_channel(c, 3, channels), variance = per_channel(c, 4, channels);
  const bool training = c.version() >= 14 ? c.int_attr("training_mode", 0) != 0
                        : c.version() < 7 ? c.int_attr("is_test", 0) == 0
                                          : c.wants(1);
  std::vector<double> all = c.doubles(0);
  if (training) {
    std::vector<double> running_mean(mean), running_variance(variance);
    for (int64_t k = 0; k < channels; ++k) {
      std::vector<double> values;
      for (int64_t b = 0; b < n; ++b) {
        const double* from = all.data() + (b * channels + k) * inner;
        values.insert(values.end(), from, from + inner);
      }
      const Moments m = moments(values.data(), static_cast<int64_t>(values.size()));
      const auto i = static_cast<size_t>(k);
      running_mean[i] = mean[i] * momentum + m.mean * (1 - momentum);
      running_variance[i] = variance[i] * momentum + m.variance * (1 - momentum);
      mean[i] = m.mean;
      variance[i] = m.variance;
    }
    const DType t = c.dtype(3);
    c.set(1, c.of<double>(t, {channels}, running_mean));
    c.set(2, c.of<double>(t, {channels}, running_variance));
    if (c.version() < 14) {
      c.set(3, c.of<double>(t, {channels}, mean));
      c.set(4, c.of<double>(t, {channels}, variance));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto k = static_cast<size_t>(static_cast<int64_t>(i) / inner % channels);
    all[i] = scale[k] * (all[i] - mean[k]) / std::sqrt(variance[k] + epsilon) + bias[k];
  }
  c.set(0, c.of<double>(x.dtype(), x.shape(), all));
}

void InstanceNormalization(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() >= 3, "expected an operand of rank 3 or more");
  const int64_t channels = x.dim(1), inner = product(std::span(x.shape()).subspan(2));
  const double epsilon = c.float_attr("epsilon", 1e-5);
  const std::vector<double> scale = per_channel(c, 1, channels), bias = per_channel(c, 2, channels);
  std::vector<double> all = c.doubles(0);
  for (int64_t i = 0; i < x.dim(0) * channels; ++i) {
    double* values = all.data() + i * inner;
    const Moments m = moments(values, inner);
    const auto k = static_cast<size_t>(i % channels);
    for (int64_t j = 0; j < inner; ++j) values[j] = scale[k] * (values[j] - m.mean) / std::sqrt(m.variance + epsilon) + bias[k];
  }
  c.set(0, c.of<double>(x.dtype(), x.shape(), all));
}

// Scale and bias: one per group up to version 18, one per channel from 21.
void GroupNormalization(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() >= 2, "expected an operand of rank 2 or more");
  const int64_t groups = c.int_attr("num_groups"), channels = x.dim(1), inner = product(std::span(x.shape()).subspan(2));
  c.require(groups > 0 && channels % groups == 0, "the channels do not divide into groups");
  const double epsilon = c.float_attr("epsilon", 1e-5);
  const int64_t each = channels / groups;
  const bool by_group = c.version() < 21;
  const std::vector<double> scale = per_channel(c, 1, by_group ? groups : channels),
                            bias = per_channel(c, 2, by_group ? groups : channels);
  std::vector<double> all = c.doubles(0);
  for (int64_t g = 0; g < x.dim(0) * groups; ++g) {
    double* values = all.data() + g * each * inner;
    const Moments m = moments(values, each * inner);
    for (int64_t j = 0; j < each * inner; ++j) {
      const auto k = static_cast<size_t>(by_group ? g % groups : g % groups * each + j / inner);
      values[j] = scale[k] * (values[j] - m.mean) / std::sqrt(m.variance + epsilon) + bias[k];
    }
  }
  c.set(0, c.of<double>(x.dtype(), x.shape(), all));
}

void LayerNormalization(Call& c) {
  const Array& x = c.in(0);
  const size_t axis = c.axis(c.int_attr("axis", -1), x.rank());
  const int64_t rows = product(std::span(x.shape()).first(axis)), width = product(std::span(x.shape()).subspan(axis));
  const double epsilon = c.float_attr("epsilon", 1e-5);
  const std::vector<double> scale = spread(c, 1, x.shape());
  std::vector<double> bias;
  if (c.has(2)) bias = spread(c, 2, x.shape());
  std::vector<double> all = c.doubles(0), means, inverses;
  for (int64_t r = 0; r < rows; ++r) {
    const Moments m = moments(all.data() + r * width, width);
    const double inverse = 1 / std::sqrt(m.variance + epsilon);
    means.push_back(m.mean);
    inverses.push_back(inverse);
    for (int64_t j = r * width; j < (r + 1) * width; ++j) {
      const auto i = static_cast<size_t>(j);
      all[i] = (all[i] - m.mean) * inverse * scale[i] + (bias.empty() ? 0 : bias[i]);
    }
  }
  c.set(0, c.of<double>(x.dtype(), x.shape(), all));
  std::vector<int64_t> shape(x.shape());
  for (size_t d = axis; d < shape.size(); ++d) shape[d] = 1;
  const auto stash = static_cast<DType>(c.int_attr("stash_type", 1));
  c.set(1, c.of<double>(stash, shape, means));
  c.set(2, c.of<double>(stash, shape, inverses));
}

void RMSNormalization(Call& c) {
  const Array& x = c.in(0);
  const size_t axis = c.axis(c.int_attr("axis", -1), x.rank());
  const int64_t rows = product(std::span(x.shape()).first(axis)), width = product(std::span(x.shape()).subspan(axis));
  const double epsilon = c.float_attr("epsilon", 1e-5);
  const std::vector<double> scale = spread(c, 1, x.shape());
  std::vector<double> all = c.doubles(0);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t j = r * width; j < (r + 1) * width; ++j) sum += all[static_cast<size_t>(j)] * all[static_cast<size_t>(j)];
    const double inverse = 1 / std::sqrt(sum / static_cast<double>(width) + epsilon);
    for (int64_t j = r * width; j < (r + 1) * width; ++j) {
      const auto i = static_cast<size_t>(j);
      all[i] = all[i] * inverse * scale[i];
    }
  }
  c.set(0, c.of<double>(c.dtype(1), x.shape(), all));
}

// Normalizes across neighboring channels.
void LRN(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() >= 2, "expected an operand of rank 2 or more");
  if (c.run.folding && x.dtype() == DType::kF64) c.unsupported("f64 functions differ in their last bits between machines");
  const int64_t size = c.int_attr("size"), channels = x.dim(1), inner = product(std::span(x.shape()).subspan(2));
  c.require(size > 0, "size must be positive");
  const double alpha = c.float_attr("alpha", 0.0001), beta = c.float_attr("beta", 0.75), bias = c.float_attr("bias", 1);
  const int64_t below = (size - 1) / 2, above = size - 1 - below;
  const std::vector<double> all = c.doubles(0);
  std::vector<double> out(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t k = at / inner % channels;
    double sum = 0;
    for (int64_t j = std::max<int64_t>(0, k - below); j <= std::min(channels - 1, k + above); ++j) {
      const double v = all[static_cast<size_t>(at + (j - k) * inner)];
      sum += v * v;
    }
    out[i] = all[i] / std::pow(bias + alpha / static_cast<double>(size) * sum, beta);
  }
  c.set(0, c.of<double>(x.dtype(), x.shape(), out));
}

// A line of zeros stays zero.
void LpNormalization(Call& c) {
  const Array& x = c.in(0);
  const size_t axis = c.axis(c.int_attr("axis", -1), x.rank());
  const int64_t p = c.int_attr("p", 2), n = x.dim(axis), inner = product(std::span(x.shape()).subspan(axis + 1));
  if (p != 1 && p != 2) c.fail(fmt::format("p is {}, expected 1 or 2", p));
  std::vector<double> all = c.doubles(0);
  for (int64_t i = 0; n > 0 && i < x.size() / n; ++i) {
    double* first = all.data() + i / inner * n * inner + i % inner;
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += p == 1 ? std::fabs(first[k * inner]) : first[k * inner] * first[k * inner];
    const double norm = p == 1 ? sum : std::sqrt(sum);
    for (int64_t k = 0; k < n; ++k) first[k * inner] = norm == 0 ? 0 : first[k * inner] / norm;
  }
  c.set(0, c.of<double>(x.dtype(), x.shape(), all));
}

// (x - mean) / (deviation + 1e-9) over the axes.
void MeanVarianceNormalization(Call& c) {
  const Array& x = c.in(0);
  std::vector<bool> over(x.rank(), false);
  for (size_t d : c.axes(c.ints_attr("axes").value_or(std::vector<int64_t>{0, 2, 3}), x.rank())) over[d] = true;
  std::vector<int64_t> kept_strides(x.rank(), 0), groups;
  int64_t count = 1;
  for (size_t d = x.rank(); d-- > 0;) {
    if (over[d]) continue;
    kept_strides[d] = count;
    count *= x.dim(d);
  }
  std::vector<double> all = c.doubles(0), mean(static_cast<size_t>(count), 0.0), square(mean);
  std::vector<size_t> group_of(all.size());
  const std::vector<int64_t> strides = dense_strides(x.shape());
  for (size_t i = 0; i < all.size(); ++i) {
    int64_t g = 0;
    for (size_t d = 0; d < x.rank(); ++d) g += static_cast<int64_t>(i) / strides[d] % x.dim(d) * kept_strides[d];
    group_of[i] = static_cast<size_t>(g);
    mean[group_of[i]] += all[i];
  }
  const double n = static_cast<double>(x.size()) / static_cast<double>(std::max<int64_t>(count, 1));
  for (double& m : mean) m /= n;
  for (size_t i = 0; i < all.size(); ++i) square[group_of[i]] += (all[i] - mean[group_of[i]]) * (all[i] - mean[group_of[i]]);
  for (size_t i = 0; i < all.size(); ++i) all[i] = (all[i] - mean[group_of[i]]) / (std::sqrt(square[group_of[i]] / n) + 1e-9);
  c.set(0, c.of<double>(x.dtype(), x.shape(), all));
}

void SwiGLU(Call& c) {
  require_same_dtype(c, 0, 1);
  c.require(c.in(0).shape() == c.in(1).shape(), "gate and value differ in shape");
  if (c.run.folding && c.dtype() == DType::kF64) c.unsupported("f64 functions differ in their last bits between machines");
  const double alpha = c.float_attr("alpha", 1);
  c.set(0, map2_as<double, double>(c, c.in(0), c.in(1), c.dtype(),
                                   [=](double a, double b) { return a / (1 + std::exp(-alpha * a)) * b; }));
}

}  // namespace kernels
}  // namespace sardonyx::eval
