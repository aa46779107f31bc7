// Losses, and two operators over whole matrices and sets: Det and Unique.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "eval/elementwise.h"

namespace sardonyx::eval {
namespace {

// Takes scores of shape [N, C, D...] and one class per [N, D...]. Gives the weighted negative scores of those
// classes and their reduction.
void likelihood(Call& c, const Array& shaped_as, std::span<const double> scores) {
  const Array& x = shaped_as;
  const Array& target = c.in(1);
  c.require(x.rank() >= 2, "scores need a batch axis and a class axis");
  const int64_t n = x.dim(0), classes = x.dim(1), inner = product(std::span(x.shape()).subspan(2));
  c.require(target.size() == n * inner, "expected one class per position");
  const std::vector<int64_t> labels = load_all<int64_t>(target);
  std::vector<double> weights;
  if (c.has(2)) weights = c.doubles(2);
  c.require(weights.empty() || static_cast<int64_t>(weights.size()) == classes, "expected one weight per class");
  const bool ignores = c.attr("ignore_index") != nullptr;
  const int64_t ignored = ignores ? c.int_attr("ignore_index") : 0;
  std::vector<double> loss(labels.size());
  double total = 0, weight_sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t k = labels[i];
    if (ignores && k == ignored) continue;
    if (k < 0 || k >= classes) c.fail(fmt::format("class {} is out of range: there are {}", k, classes));
    const auto at = static_cast<int64_t>(i);
    const double w = weights.empty() ? 1 : weights[static_cast<size_t>(k)];
    loss[i] = -w * scores[static_cast<size_t>((at / inner * classes + k) * inner + at % inner)];
    total += loss[i];
    weight_sum += w;
  }
  const std::string reduction = c.string_attr("reduction", "mean");
  if (reduction == "none") return c.set(0, c.of<double>(x.dtype(), target.shape(), loss));
  const double v = reduction == "mean" ? total / weight_sum : total;
  c.set(0, c.of<double>(x.dtype(), {}, {&v, 1}));
}

}  // namespace

namespace kernels {

void NegativeLogLikelihoodLoss(Call& c) { likelihood(c, c.in(0), c.doubles(0)); }

void SoftmaxCrossEntropyLoss(Call& c) {
  if (c.run.folding && c.dtype() == DType::kF64) c.unsupported("f64 functions differ in their last bits between machines");
  const Array& x = c.in(0);
  c.require(x.rank() >= 2, "scores need a batch axis and a class axis");
  std::vector<double> s = c.doubles(0);
  const int64_t n = x.dim(0), classes = x.dim(1), inner = product(std::span(x.shape()).subspan(2));
  for (int64_t i = 0; i < n * inner; ++i) {
    double* first = s.data() + i / inner * classes * inner + i % inner;
    double high = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t k = 0; k < classes; ++k) high = std::fmax(high, first[k * inner]);
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(first[k * inner] - high);
    for (int64_t k = 0; k < classes; ++k) first[k * inner] -= high + std::log(sum);
  }
  likelihood(c, x, s);
  if (c.wants(1)) c.set(1, c.of<double>(x.dtype(), x.shape(), s));
}

void Det(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() >= 2 && x.dim(x.rank() - 1) == x.dim(x.rank() - 2), "expected square matrices");
  const int64_t n = x.dim(x.rank() - 1);
  Array out = c.make(x.dtype(), {x.shape().begin(), x.shape().end() - 2});
  std::vector<double> all = c.doubles(0);
  for (int64_t m = 0; m < out.size(); ++m) {  // elimination with the largest pivot in each column
    double* a = all.data() + m * n * n;
    double det = 1;
    for (int64_t k = 0; k < n; ++k) {
      int64_t pivot = k;
      for (int64_t i = k + 1; i < n; ++i) {
        if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
      }
      if (pivot != k) {
        std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
        det = -det;
      }
      det *= a[k * n + k];
      if (a[k * n + k] == 0) break;
      for (int64_t i = k + 1; i < n; ++i) {
        const double f = a[i * n + k] / a[k * n + k];
        for (int64_t j = k; j < n; ++j) a[i * n + j] -= f * a[k * n + j];
      }
    }
    store<double>(out, m, 1, &det);
  }
  c.set(0, out);
}

// Lists equal elements (or slices along the axis) once, sorted or in order of first occurrence. Each NaN is
// distinct.
void Unique(Call& c) {
  Array x = c.in(0);
  size_t axis = 0;
  if (c.attr("axis") != nullptr) {
    axis = c.axis(c.int_attr("axis"), x.rank());
  } else {
    x = c.reshaped(x, {x.size()});
  }
  std::vector<int64_t> perm(x.rank());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[0], perm[axis]);
  const Array rows = c.dense(x.transposed(perm));  // one slice per row
  const int64_t n = x.dim(axis), width = n == 0 ? 0 : x.size() / n;
  std::vector<int64_t> order(static_cast<size_t>(n)), group_of(static_cast<size_t>(n)), first, counts;
  std::iota(order.begin(), order.end(), 0);
  auto find_groups = [&](auto less) {  // less(i, j) compares slices
    std::ranges::stable_sort(order, less);
    for (size_t k = 0; k < order.size(); ++k) {
      if (k == 0 || less(order[k - 1], order[k])) {
        first.push_back(order[k]);
        counts.push_back(0);
      }
      group_of[static_cast<size_t>(order[k])] = static_cast<int64_t>(first.size()) - 1;
      ++counts.back();
    }
  };
  auto compare = [&](const auto* data) {
    find_groups([=](int64_t i, int64_t j) {
      return std::lexicographical_compare(data + i * width, data + (i + 1) * width, data + j * width, data + (j + 1) * width);
    });
  };
  if (x.dtype() == DType::kString) {
    compare(rows.as<std::string>());
  } else if (compute_class(x.dtype()) == Compute::kU64) {
    const std::vector<uint64_t> all = load_all<uint64_t>(rows);
    compare(all.data());
  } else if (compute_class(x.dtype()) == Compute::kI64) {
    const std::vector<int64_t> all = load_all<int64_t>(rows);
    compare(all.data());
  } else {  // NaN sorts last
    const std::vector<double> all = load_all<double>(rows);
    find_groups([&](int64_t i, int64_t j) {
      for (int64_t k = 0; k < width; ++k) {
        const double a = all[static_cast<size_t>(i * width + k)], b = all[static_cast<size_t>(j * width + k)];
        if (std::isnan(a) != std::isnan(b)) return std::isnan(b);
        if (std::isnan(a)) continue;
        if (a != b) return a < b;
      }
      return false;
    });
  }
  if (c.int_attr("sorted", 1) == 0) {
    std::vector<int64_t> by_first(first.size()), place(first.size());
    std::iota(by_first.begin(), by_first.end(), 0);
    std::ranges::sort(by_first, {}, [&](int64_t g) { return first[static_cast<size_t>(g)]; });
    std::vector<int64_t> new_first, new_counts;
    for (size_t k = 0; k < by_first.size(); ++k) {
      const auto g = static_cast<size_t>(by_first[k]);
      place[g] = static_cast<int64_t>(k);
      new_first.push_back(first[g]);
      new_counts.push_back(counts[g]);
    }
    for (int64_t& g : group_of) g = place[static_cast<size_t>(g)];
    first = std::move(new_first);
    counts = std::move(new_counts);
  }
  std::vector<int64_t> shape(x.shape());
  shape[axis] = static_cast<int64_t>(first.size());
  Array out = c.make(x.dtype(), shape);
  shape[axis] = 1;
  for (size_t k = 0; k < first.size(); ++k) {
    Array to = out.view(shape, out.strides(), static_cast<int64_t>(k) * out.strides()[axis]);
    copy_elements(x.view(shape, x.strides(), first[k] * x.strides()[axis]), to);
  }
  c.set(0, out);
  c.set(1, c.of_ints(first));
  c.set(2, c.of_ints(group_of));
  c.set(3, c.of_ints(counts));
}

}  // namespace kernels
}  // namespace sardonyx::eval
