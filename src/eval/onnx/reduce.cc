// Reductions, arg-extrema, running sums, TopK and the softmax family.
//
// Sums run in element order, floats in f64, integers modulo their width.
#include "eval/onnx/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "eval/elementwise.h"

namespace sardonyx::eval {

Grouped group(Call& c, const Array& x, const std::vector<bool>& reduced) {
  Grouped g;
  std::vector<int64_t> perm;
  g.count = g.width = 1;
  for (size_t d = 0; d < x.rank(); ++d) {
    g.kept_shape.push_back(reduced[d] ? 1 : x.dim(d));
    if (reduced[d]) continue;
    perm.push_back(static_cast<int64_t>(d));
    g.shape.push_back(x.dim(d));
    g.count *= x.dim(d);
  }
  for (size_t d = 0; d < x.rank(); ++d) {
    if (!reduced[d]) continue;
    perm.push_back(static_cast<int64_t>(d));
    g.width *= x.dim(d);
  }
  g.rows = c.reshaped(x.transposed(perm), {g.count, g.width});
  return g;
}

namespace {

// Which axes are reduced; nullopt when the operator does nothing.
std::optional<std::vector<bool>> reduced_axes(const Call& c, size_t rank, int axes_operand_since) {
  std::vector<int64_t> list;
  if (c.version() >= axes_operand_since) {
    if (c.has(1)) list = c.ints(1);
  } else if (c.attr("axes")) {
    list = *c.ints_attr("axes");
  }
  if (list.empty() && c.version() >= axes_operand_since && c.int_attr("noop_with_empty_axes", 0) != 0) return std::nullopt;
  std::vector<bool> reduced(rank, list.empty());
  for (size_t d : c.axes(list, rank)) reduced[d] = true;
  return reduced;
}

// result = finish(fold over row), with an accumulator of type T.
template <class T, class Row>
void reduce(Call& c, int since, Row row) {
  const Array& x = c.in(0);
  const auto reduced = reduced_axes(c, x.rank(), since);
  std::vector<bool> none(x.rank(), false);
  const Grouped g = group(c, x, reduced ? *reduced : none);
  const bool keep = c.int_attr("keepdims", 1) != 0;
  Array out = c.make(x.dtype(), keep ? g.kept_shape : g.shape);
  std::vector<T> buffer(static_cast<size_t>(g.width));
  for (int64_t i = 0; i < g.count; ++i) {
    const T* from = load<T>(g.rows, i * g.width, 1, g.width, buffer.data());
    const T v = row(std::span<const T>(from, static_cast<size_t>(g.width)));
    store<T>(out, i, 1, &v);
  }
  c.set(0, out);
}

// Floats are summed in f64, integers in 64 bits.
template <class Row>
void reduce_any(Call& c, int since, Row row) {
  switch (compute_class(c.dtype())) {
    case Compute::kF32:
    case Compute::kF64: return reduce<double>(c, since, row);
    case Compute::kI64: return reduce<int64_t>(c, since, row);
    case Compute::kU64: return reduce<uint64_t>(c, since, row);
    default: c.fail("expected numbers, found elements of " + std::string(to_string(c.dtype())));
  }
}

template <class T>
using Sum = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;

template <class T, class F>
T sum_of(std::span<const T> row, F f) {
  Sum<T> sum = 0;
  for (T v : row) sum += static_cast<Sum<T>>(f(v));
  return static_cast<T>(sum);
}

template <class T>
T extreme(DType t, std::span<const T> row, bool largest) {
  if (row.empty()) {  // the neutral element
    if constexpr (std::is_floating_point_v<T>) {
      return largest ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
    } else {
      const int bits = t == DType::kBool ? 1 : bit_width(t);
      if (std::is_signed_v<T> && t != DType::kBool) {
        const int64_t low = bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1));
        return static_cast<T>(largest ? low : ~low);
      }
      return static_cast<T>(largest ? 0 : bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
    }
  }
  T best = row[0];
  for (T v : row) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(v)) return v;
    }
    if (largest ? best < v : v < best) best = v;
  }
  return best;
}

template <class T>
double log_sum_exp(std::span<const T> row) {
  double high = -std::numeric_limits<double>::infinity();
  for (T v : row) {
    if (std::isnan(static_cast<double>(v))) return static_cast<double>(v);
    high = std::max(high, static_cast<double>(v));
  }
  if (std::isinf(high)) return high;
  double sum = 0;
  for (T v : row) sum += std::exp(static_cast<double>(v) - high);
  return high + std::log(sum);
}

// f64 functions of sums differ between machines as other f64 functions do.
void refuse_f64_folding(const Call& c) {
  if (c.run.folding && c.dtype() == DType::kF64) c.unsupported("f64 functions differ in their last bits between machines");
}

}  // namespace

namespace kernels {

void ReduceSum(Call& c) {
  reduce_any(c, 13, []<class T>(std::span<const T> row) { return sum_of(row, [](T v) { return v; }); });
}
void ReduceMean(Call& c) {
  reduce_any(c, 18, []<class T>(std::span<const T> row) {
    const T sum = sum_of(row, [](T v) { return v; });
    if constexpr (std::is_floating_point_v<T>)
      return sum / static_cast<T>(row.size());
    else
      return row.empty() ? T{0} : static_cast<T>(sum / static_cast<T>(row.size()));
  });
}
void ReduceProd(Call& c) {
  reduce_any(c, 18, []<class T>(std::span<const T> row) {
    eval::Sum<T> p = 1;
    for (T v : row) p *= static_cast<eval::Sum<T>>(v);
    return static_cast<T>(p);
  });
}
void ReduceMax(Call& c) {
  const DType t = c.dtype();
  reduce_any(c, 18, [t]<class T>(std::span<const T> row) { return extreme(t, row, true); });
}
void ReduceMin(Call& c) {
  const DType t = c.dtype();
  reduce_any(c, 18, [t]<class T>(std::span<const T> row) { return extreme(t, row, false); });
}
void ReduceL1(Call& c) {
  reduce_any(c, 18, []<class T>(std::span<const T> row) {
    return sum_of(row, [](T v) { return v < 0 ? static_cast<T>(eval::Sum<T>{0} - static_cast<eval::Sum<T>>(v)) : v; });
  });
}
void ReduceL2(Call& c) {
  reduce_any(c, 18, []<class T>(std::span<const T> row) {
    const T sum = sum_of(row, [](T v) { return static_cast<T>(static_cast<eval::Sum<T>>(v) * static_cast<eval::Sum<T>>(v)); });
    return convert<T>(std::sqrt(static_cast<double>(sum)));
  });
}
void ReduceSumSquare(Call& c) {
  reduce_any(c, 18, []<class T>(std::span<const T> row) {
    return sum_of(row, [](T v) { return static_cast<T>(static_cast<eval::Sum<T>>(v) * static_cast<eval::Sum<T>>(v)); });
  });
}
void ReduceLogSum(Call& c) {
  refuse_f64_folding(c);
  reduce_any(c, 18, []<class T>(std::span<const T> row) {
    return convert<T>(std::log(static_cast<double>(sum_of(row, [](T v) { return v; }))));
  });
}
void ReduceLogSumExp(Call& c) {
  refuse_f64_folding(c);
  reduce_any(c, 18, []<class T>(std::span<const T> row) { return convert<T>(log_sum_exp(row)); });
}

}  // namespace kernels

namespace {

void arg_extreme(Call& c, bool largest) {
  const Array& x = c.in(0);
  const size_t axis = c.axis(c.int_attr("axis", 0), x.rank());
  const bool last = c.int_attr("select_last_index", 0) != 0;
  std::vector<bool> reduced(x.rank(), false);
  reduced[axis] = true;
  const Grouped g = group(c, x, reduced);
  if (g.width == 0) c.fail("the axis is empty");
  Array out = c.make(DType::kI64, c.int_attr("keepdims", 1) != 0 ? g.kept_shape : g.shape);
  auto go = [&]<class T>(T) {
    std::vector<T> buffer(static_cast<size_t>(g.width));
    for (int64_t i = 0; i < g.count; ++i) {
      const T* row = load<T>(g.rows, i * g.width, 1, g.width, buffer.data());
      int64_t best = 0;
      for (int64_t k = 1; k < g.width; ++k) {
        const T a = row[best], v = row[k];
        bool better = largest ? a < v : v < a;
        bool same = a == v;
        if constexpr (std::is_floating_point_v<T>) {  // the first NaN wins, as in NumPy
          if (std::isnan(a))
            better = false, same = std::isnan(v);
          else if (std::isnan(v))
            better = true;
        }
        if (better || (last && same)) best = k;
      }
      out.as<int64_t>()[i] = best;
    }
  };
  switch (compute_class(x.dtype())) {
    case Compute::kI64: go(int64_t{}); break;
    case Compute::kU64: go(uint64_t{}); break;
    default: go(double{});
  }
  c.set(0, out);
}

// The array as dense [rows][n] with the axis last, and back.
struct Lines {
  Array rows;
  int64_t count = 0, width = 0;
  std::vector<int64_t> perm, inverse;
  std::vector<int64_t> shape;  // transposed
};
Lines lines(Call& c, const Array& x, size_t axis) {
  Lines l;
  for (size_t d = 0; d < x.rank(); ++d) {
    if (d != axis) l.perm.push_back(static_cast<int64_t>(d));
  }
  l.perm.push_back(static_cast<int64_t>(axis));
  l.inverse.resize(x.rank());
  for (size_t d = 0; d < x.rank(); ++d) l.inverse[static_cast<size_t>(l.perm[d])] = static_cast<int64_t>(d);
  const Array t = x.transposed(l.perm);
  l.shape = t.shape();
  l.width = x.dim(axis);
  l.count = product(std::span(l.shape).first(l.shape.size() - 1));
  l.rows = c.dense(t);
  return l;
}

void cumulative(Call& c, bool sum) {
  const Array& x = c.in(0);
  const size_t axis = c.axis(c.int_scalar(1), x.rank());
  const bool exclusive = c.int_attr("exclusive", 0) != 0, reverse = c.int_attr("reverse", 0) != 0;
  const Lines l = lines(c, x, axis);
  Array out = c.make(x.dtype(), l.shape);
  auto go = [&]<class T>(T) {
    using U = Sum<T>;
    std::vector<T> buffer(static_cast<size_t>(l.width)), result(static_cast<size_t>(l.width));
    for (int64_t i = 0; i < l.count; ++i) {
      const T* row = load<T>(l.rows, i * l.width, 1, l.width, buffer.data());
      U total = sum ? U{0} : U{1};
      for (int64_t k = 0; k < l.width; ++k) {
        const auto j = static_cast<size_t>(reverse ? l.width - 1 - k : k);
        if (exclusive) result[j] = static_cast<T>(total);
        total = sum ? total + static_cast<U>(row[j]) : total * static_cast<U>(row[j]);
        if (!exclusive) result[j] = static_cast<T>(total);
      }
      store<T>(out, i * l.width, l.width, result.data());
    }
  };
  switch (compute_class(x.dtype())) {
    case Compute::kI64: go(int64_t{}); break;
    case Compute::kU64: go(uint64_t{}); break;
    default: go(double{});
  }
  c.set(0, out.transposed(l.inverse));
}

// Applies f to each line: Softmax and its relatives. Before opset 13, everything from the axis on was one
// line.
template <class F>
void per_line(Call& c, F f) {
  const Array& x = c.in(0);
  refuse_f64_folding(c);
  const bool flat = c.version() < 13;
  const size_t axis = x.rank() == 0 ? 0 : c.axis(c.int_attr("axis", flat ? 1 : -1), x.rank());
  Lines l;
  if (flat || x.rank() == 0) {
    l.rows = c.dense(x);
    l.shape = x.shape();
    l.count = product(std::span(x.shape()).first(axis));
    l.width = product(std::span(x.shape()).subspan(axis));
    l.inverse.resize(x.rank());
    std::iota(l.inverse.begin(), l.inverse.end(), 0);
  } else {
    l = lines(c, x, axis);
  }
  Array out = c.make(x.dtype(), l.shape);
  std::vector<double> buffer(static_cast<size_t>(l.width)), result(static_cast<size_t>(l.width));
  for (int64_t i = 0; i < l.count; ++i) {
    const double* row = load<double>(l.rows, i * l.width, 1, l.width, buffer.data());
    f(std::span<const double>(row, result.size()), std::span<double>(result));
    store<double>(out, i * l.width, l.width, result.data());
  }
  c.set(0, out.transposed(l.inverse));
}

double largest_of(std::span<const double> row) {
  double high = -std::numeric_limits<double>::infinity();
  for (double v : row) high = std::isnan(v) ? v : std::max(high, v);
  return high;
}

}  // namespace

namespace kernels {

void ArgMax(Call& c) { arg_extreme(c, true); }
void ArgMin(Call& c) { arg_extreme(c, false); }
void CumSum(Call& c) { cumulative(c, true); }
void CumProd(Call& c) { cumulative(c, false); }

void Softmax(Call& c) {
  per_line(c, [](std::span<const double> row, std::span<double> out) {
    const double high = largest_of(row);
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i) sum += out[i] = std::exp(row[i] - high);
    for (double& v : out) v /= sum;
  });
}
void LogSoftmax(Call& c) {
  per_line(c, [](std::span<const double> row, std::span<double> out) {
    const double high = largest_of(row);
    double sum = 0;
    for (double v : row) sum += std::exp(v - high);
    const double log_sum = std::log(sum);
    for (size_t i = 0; i < row.size(); ++i) out[i] = row[i] - high - log_sum;
  });
}
void Hardmax(Call& c) {
  per_line(c, [](std::span<const double> row, std::span<double> out) {
    std::ranges::fill(out, 0.0);
    if (!row.empty()) out[static_cast<size_t>(std::ranges::max_element(row) - row.begin())] = 1;
  });
}

void TopK(Call& c) {
  const Array& x = c.in(0);
  const size_t axis = c.axis(c.int_attr("axis", -1), x.rank());
  const int64_t k = c.version() < 10 ? c.int_attr("k") : c.int_scalar(1);
  const bool largest = c.int_attr("largest", 1) != 0;
  if (k < 0 || k > x.dim(axis)) c.fail(fmt::format("{} elements cannot be picked from {}", k, x.dim(axis)));
  const Lines l = lines(c, x, axis);
  std::vector<int64_t> shape(l.shape);
  shape.back() = k;
  Array values = c.make(x.dtype(), shape), indices = c.make(DType::kI64, shape);
  auto go = [&]<class T>(T) {
    std::vector<T> buffer(static_cast<size_t>(l.width)), picked(static_cast<size_t>(k));
    std::vector<int64_t> order(static_cast<size_t>(l.width));
    for (int64_t i = 0; i < l.count; ++i) {
      const T* row = load<T>(l.rows, i * l.width, 1, l.width, buffer.data());
      std::iota(order.begin(), order.end(), 0);
      // NaN compares greater than everything; equal elements keep their order.
      std::ranges::stable_sort(order, [&](int64_t p, int64_t q) {
        const T a = row[p], b = row[q];
        if constexpr (std::is_floating_point_v<T>) {
          if (std::isnan(a) || std::isnan(b))
            return largest ? std::isnan(a) && !std::isnan(b) : std::isnan(b) && !std::isnan(a);
        }
        return largest ? b < a : a < b;
      });
      for (int64_t j = 0; j < k; ++j) picked[static_cast<size_t>(j)] = row[order[static_cast<size_t>(j)]];
      store<T>(values, i * k, k, picked.data());
      std::copy_n(order.begin(), k, indices.as<int64_t>() + i * k);
    }
  };
  switch (compute_class(x.dtype())) {
    case Compute::kI64: go(int64_t{}); break;
    case Compute::kU64: go(uint64_t{}); break;
    default: go(double{});
  }
  c.set(0, values.transposed(l.inverse));
  c.set(1, indices.transposed(l.inverse));
}

}  // namespace kernels
}  // namespace sardonyx::eval
