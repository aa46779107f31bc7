#include "eval/products.h"

#include <fmt/format.h>
#include <Eigen/Core>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "eval/elementwise.h"
#include "support/system/interrupt.h"

namespace sardonyx::eval {
namespace {

// Computes columns [begin, end) of the product. Each element is summed in the order of k, whatever the
// blocking. A strip of b is packed, and each pass over it handles two rows. Returns early when `stop` says
// so.
template <class T, class Sum>
void ordered_strip(const T* a, const T* b, T* out, int64_t m, int64_t k, int64_t n, int64_t begin, int64_t end,
                   const std::atomic<bool>& stop) {
  constexpr int64_t kWide = 8, kRows = 2;
  std::vector<Sum> strip(static_cast<size_t>(k * kWide));
  for (int64_t j = begin; j < end; j += kWide) {
    const int64_t width = std::min(kWide, end - j);
    std::ranges::fill(strip, Sum{0});
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t c = 0; c < width; ++c) strip[static_cast<size_t>(p * kWide + c)] = static_cast<Sum>(b[p * n + j + c]);
    }
    for (int64_t i = 0; i < m; i += kRows) {
      if (i % 64 == 0) {
        check_interrupt();
        if (stop.load(std::memory_order_relaxed)) return;
      }
      const int64_t second = std::min(i + 1, m - 1);  // an odd last row is computed twice
      Sum sums[kRows][kWide] = {};
      const Sum* from = strip.data();
      for (int64_t p = 0; p < k; ++p, from += kWide) {
        const auto x = static_cast<Sum>(a[i * k + p]), y = static_cast<Sum>(a[second * k + p]);
        for (int64_t c = 0; c < kWide; ++c) sums[0][c] += x * from[c];
        for (int64_t c = 0; c < kWide; ++c) sums[1][c] += y * from[c];
      }
      for (int64_t c = 0; c < width; ++c) {
        out[i * n + j + c] = static_cast<T>(sums[0][c]);
        out[second * n + j + c] = static_cast<T>(sums[1][c]);
      }
    }
  }
}

template <class T, class Sum>
void ordered_product(const T* a, const T* b, T* out, int64_t m, int64_t k, int64_t n) {
  if (m == 0 || n == 0) return;
  // Split large products over two threads, half of the columns each.
  const double work = static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  std::atomic<bool> stop = false;
  if (work < 4e6 || n < 32 || std::thread::hardware_concurrency() == 1)
    return ordered_strip<T, Sum>(a, b, out, m, k, n, 0, n, stop);
  const int64_t half = n / 16 * 8;
  std::exception_ptr failed;
  std::thread other([&] {
    try {
      ordered_strip<T, Sum>(a, b, out, m, k, n, 0, half, stop);
    } catch (...) {
      failed = std::current_exception();
    }
  });
  try {
    ordered_strip<T, Sum>(a, b, out, m, k, n, half, n, stop);
  } catch (...) {
    stop = true;
    other.join();
    throw;
  }
  other.join();
  if (failed) std::rethrow_exception(failed);
}

template <class T>
void eigen_product(const T* a, const T* b, T* out, int64_t m, int64_t k, int64_t n) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix>(out, m, n).noalias() = Eigen::Map<const Matrix>(a, m, k) * Eigen::Map<const Matrix>(b, k, n);
}

template <class T>
void any_product(Call& c, const T* a, const T* b, T* out, int64_t m, int64_t k, int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    if (c.run.options.fast_products) return eigen_product(a, b, out, m, k, n);
    return ordered_product<T, double>(a, b, out, m, k, n);
  } else {
    return ordered_product<T, uint64_t>(a, b, out, m, k, n);
  }
}

template <class T>
Array matmul_as(Call& c, const Array& x, const Array& y, DType dtype) {
  // View vectors as matrices with a size of 1, which the result drops again.
  Array a = x, b = y;
  if (x.rank() == 1) a = x.view({1, x.dim(0)}, {0, x.strides()[0]});
  if (y.rank() == 1) b = y.view({y.dim(0), 1}, {y.strides()[0], 0});
  const int64_t m = a.dim(a.rank() - 2), k = a.dim(a.rank() - 1), n = b.dim(b.rank() - 1);
  if (b.dim(b.rank() - 2) != k) c.fail(fmt::format("{} and {} cannot be multiplied", describe(x), describe(y)));
  const auto batch_a = std::span(a.shape()).first(a.rank() - 2), batch_b = std::span(b.shape()).first(b.rank() - 2);
  std::vector<int64_t> batch = broadcast_shapes(batch_a, batch_b);
  auto whole = [&](const Array& z, int64_t rows, int64_t columns) {
    std::vector<int64_t> shape(batch);
    shape.insert(shape.end(), {rows, columns});
    return z.broadcast_to(shape);
  };
  const Array p = whole(a, m, k), q = whole(b, k, n);
  std::vector<int64_t> shape(batch);
  if (x.rank() > 1) shape.push_back(m);
  if (y.rank() > 1) shape.push_back(n);
  Array out = c.make(dtype, std::move(shape));
  if (out.size() == 0) return out;
  std::vector<T> left(static_cast<size_t>(m * k)), right(static_cast<size_t>(k * n)), result(static_cast<size_t>(m * n));
  std::optional<int64_t> left_at, right_at;  // offsets of the loaded matrices: a broadcast operand is loaded once
  int64_t done = 0;
  const auto strides_a = std::span(p.strides()).first(batch.size()), strides_b = std::span(q.strides()).first(batch.size());
  auto matrix = [](const Array& z, int64_t at, int64_t rows, int64_t columns, std::vector<T>& to) {
    const size_t r = z.rank();
    for (int64_t i = 0; i < rows; ++i) {
      T* target = to.data() + i * columns;
      const T* from = load<T>(z, at + i * z.strides()[r - 2], z.strides()[r - 1], columns, target);
      if (from != target) std::copy(from, from + columns, target);
    }
  };
  walk<2>(batch, {strides_a, strides_b}, [&](int64_t count, std::array<int64_t, 2> at, std::array<int64_t, 2> step) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from_a = at[0] + i * step[0], from_b = at[1] + i * step[1];
      if (left_at != from_a) matrix(p, from_a, m, k, left);
      if (right_at != from_b) matrix(q, from_b, k, n, right);
      left_at = from_a;
      right_at = from_b;
      any_product<T>(c, left.data(), right.data(), result.data(), m, k, n);
      store<T>(out, done, m * n, result.data());
      done += m * n;
    }
  });
  return out;
}

}  // namespace

void product_of(Call& c, const double* a, const double* b, double* out, int64_t m, int64_t k, int64_t n) {
  any_product(c, a, b, out, m, k, n);
}
void product_of(Call& c, const float* a, const float* b, float* out, int64_t m, int64_t k, int64_t n) {
  any_product(c, a, b, out, m, k, n);
}

Array matmul(Call& c, const Array& a, const Array& b, DType out) {
  c.require(a.rank() > 0 && b.rank() > 0, "a scalar cannot be multiplied as a matrix");
  switch (compute_class(a.dtype())) {
    case Compute::kF32: return matmul_as<float>(c, a, b, out);
    case Compute::kF64: return matmul_as<double>(c, a, b, out);
    case Compute::kI64: return matmul_as<int64_t>(c, a, b, out);
    case Compute::kU64: return matmul_as<uint64_t>(c, a, b, out);
    default: c.fail("expected numbers, found elements of " + std::string(to_string(a.dtype())));
  }
}

namespace kernels {

void MatMul(Call& c) {
  require_same_dtype(c, 0, 1);
  c.set(0, matmul(c, c.in(0), c.in(1), c.dtype()));
}

void Gemm(Call& c) {
  require_same_dtype(c, 0, 1);
  Array a = c.in(0), b = c.in(1);
  if (a.rank() > 2) a = c.reshaped(a, {a.dim(0), a.size() / std::max<int64_t>(a.dim(0), 1)});
  c.require(a.rank() == 2 && b.rank() == 2, "expected matrices");
  const std::vector<int64_t> swap{1, 0};
  if (c.int_attr("transA", 0) != 0) a = a.transposed(swap);
  if (c.int_attr("transB", 0) != 0) b = b.transposed(swap);
  const double alpha = c.float_attr("alpha", 1), beta = c.float_attr("beta", 1);
  const DType t = c.dtype();
  if (!is_float(t)) {
    Array y = matmul(c, a, b, t);
    auto scaled = [&](const Array& z, double f) {
      return f == 1 ? z : map_as<double>(c, z, t, [f](double v) { return v * f; });
    };
    y = scaled(y, alpha);
    if (c.has(2)) y = map2(c, y, scaled(c.in(2), beta), []<class T>(T p, T q) { return static_cast<T>(p + q); });
    return c.set(0, y);
  }
  // Round only the final sum, not the product.
  const DType wide = t == DType::kF64 ? DType::kF64 : DType::kF32;
  Array y = matmul(c, a, b, wide);
  if (c.has(2)) {
    y = map2_as<double, double>(c, y, c.in(2).broadcast_to(y.shape()), t,
                                [=](double p, double q) { return alpha * p + beta * q; });
  } else {
    y = map_as<double>(c, y, t, [=](double p) { return alpha * p; });
  }
  c.set(0, y);
}

}  // namespace kernels
}  // namespace sardonyx::eval
