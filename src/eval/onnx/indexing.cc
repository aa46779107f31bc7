// Operators that read or write at indices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "eval/elementwise.h"
#include "eval/kernel.h"

namespace sardonyx::eval {
namespace {

// Normalizes an index that counts from the end when negative. Throws when it is outside the size.
int64_t place_in(const Call& c, int64_t index, int64_t size) {
  if (index < -size || index >= size) c.fail(fmt::format("index {} is out of range for an axis of size {}", index, size));
  return index < 0 ? index + size : index;
}

std::vector<int64_t> concat(std::initializer_list<std::span<const int64_t>> parts) {
  std::vector<int64_t> out;
  for (auto p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

enum class Combine { kReplace, kAdd, kMul, kMax, kMin };

Combine combine_of(const Call& c) {
  const std::string name = c.version() >= 16 ? c.string_attr("reduction", "none") : "none";
  if (name == "none") return Combine::kReplace;
  if (name == "add") return Combine::kAdd;
  if (name == "mul") return Combine::kMul;
  if (name == "max") return Combine::kMax;
  if (name == "min") return Combine::kMin;
  c.fail(fmt::format("unknown reduction \"{}\"", name));
}

template <class T>
T combined(Combine how, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (how == Combine::kMax || how == Combine::kMin) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
    }
  }
  using U = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;
  switch (how) {
    case Combine::kReplace: return b;
    case Combine::kAdd: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case Combine::kMul: return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case Combine::kMax: return a < b ? b : a;
    case Combine::kMin: return b < a ? b : a;
  }
  return b;
}

// Combines values[from] into out[to]. Both are dense and of one dtype.
void put(Combine how, Array& out, int64_t to, const Array& values, int64_t from) {
  if (how == Combine::kReplace) {
    with_element(out.dtype(), [&]<class E>(E) { out.as<E>()[to] = values.as<E>()[from]; });
    return;
  }
  auto go = [&]<class T>(T) {
    T a{}, b{};
    const T r = combined(how, *load<T>(out, to, 1, 1, &a), *load<T>(values, from, 1, 1, &b));
    store<T>(out, to, 1, &r);
  };
  switch (compute_class(out.dtype())) {
    case Compute::kF32: return go(float{});
    case Compute::kF64: return go(double{});
    case Compute::kI64: return go(int64_t{});
    case Compute::kU64: return go(uint64_t{});
    default: throw Error(ErrorCode::kInvalidModel, "expected numbers to reduce");
  }
}

// A copy that may be written.
Array copy_of(Call& c, const Array& x) {
  Array out = c.make(x.dtype(), x.shape());
  copy_elements(x, out);
  return out;
}

void scatter_elements(Call& c, Combine how) {
  Array out = copy_of(c, c.in(0));
  const size_t axis = c.axis(c.int_attr("axis", 0), out.rank());
  const Array& indices = c.in(1);
  const Array updates = c.dense(2);
  require_same_dtype(c, 0, 2);
  c.require(indices.shape() == updates.shape() && indices.rank() == out.rank(), "indices and updates differ in shape");
  const std::vector<int64_t> at = load_all<int64_t>(indices);
  std::vector<int64_t> index(out.rank(), 0);
  for (int64_t i = 0; i < indices.size(); ++i) {
    int64_t to = 0;
    for (size_t d = 0; d < out.rank(); ++d) {
      const int64_t k = d == axis ? place_in(c, at[static_cast<size_t>(i)], out.dim(d)) : place_in(c, index[d], out.dim(d));
      to += k * out.strides()[d];
    }
    put(how, out, to, updates, i);
    for (size_t d = out.rank(); d-- > 0;) {
      if (++index[d] < indices.dim(d)) break;
      index[d] = 0;
    }
  }
  c.set(0, out);
}

}  // namespace

namespace kernels {

void Gather(Call& c) {
  const Array& x = c.in(0);
  const Array& indices = c.in(1);
  const size_t axis = c.axis(c.int_attr("axis", 0), x.rank());
  const auto lead = std::span(x.shape()).first(axis), rest = std::span(x.shape()).subspan(axis + 1);
  if (indices.size() == 1) {  // returns a view
    const int64_t k = place_in(c, indices.int_at(0), x.dim(axis));
    std::vector<int64_t> none(indices.rank(), 0);
    return c.set(0, x.view(concat({lead, indices.shape(), rest}),
                           concat({std::span(x.strides()).first(axis), none, std::span(x.strides()).subspan(axis + 1)}),
                           k * x.strides()[axis]));
  }
  Array out = c.make(x.dtype(), concat({lead, indices.shape(), rest}));
  const std::vector<int64_t> at = load_all<int64_t>(indices);
  // View out as [lead..., indices, rest...].
  const auto count = static_cast<int64_t>(at.size());
  const int64_t width = product(rest);
  if (x.is_dense()) {  // as most tables are: copy whole rows
    const int64_t size = x.dim(axis);
    std::vector<int64_t> places(at);
    for (int64_t& k : places) k = place_in(c, k, size);
    with_element(x.dtype(), [&]<class E>(E) {
      const E* from = x.as<E>();
      E* to = out.as<E>();
      for (int64_t l = product(lead); l > 0; --l, from += size * width) {
        for (int64_t k : places) to = std::copy_n(from + k * width, width, to);
      }
    });
    return c.set(0, out);
  }
  std::vector<int64_t> strides(x.rank());
  for (size_t d = 0; d < axis; ++d) strides[d] = out.strides()[d];
  for (size_t d = axis + 1; d < x.rank(); ++d) strides[d] = out.strides()[d - 1 + indices.rank()];
  std::vector<int64_t> shape(x.shape());
  shape[axis] = 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t k = place_in(c, at[static_cast<size_t>(i)], x.dim(axis));
    Array to = out.view(shape, strides, i * width);
    copy_elements(x.view(shape, x.strides(), k * x.strides()[axis]), to);
  }
  c.set(0, out);
}

void GatherElements(Call& c) {
  const Array& x = c.in(0);
  const Array& indices = c.in(1);
  const size_t axis = c.axis(c.int_attr("axis", 0), x.rank());
  c.require(indices.rank() == x.rank(), "the indices have the wrong rank");
  Array out = c.make(x.dtype(), indices.shape());
  const std::vector<int64_t> at = load_all<int64_t>(indices);
  std::vector<int64_t> index(x.rank(), 0);
  with_element(x.dtype(), [&]<class E>(E) {
    for (int64_t i = 0; i < out.size(); ++i) {
      int64_t from = 0;
      for (size_t d = 0; d < x.rank(); ++d) {
        from += place_in(c, d == axis ? at[static_cast<size_t>(i)] : index[d], x.dim(d)) * x.strides()[d];
      }
      out.as<E>()[i] = x.as<E>()[from];
      for (size_t d = x.rank(); d-- > 0;) {
        if (++index[d] < indices.dim(d)) break;
        index[d] = 0;
      }
    }
  });
  c.set(0, out);
}

namespace {
// For GatherND and ScatterND: the offset that each index tuple addresses, in elements of a dense array, and
// the number of elements there.
struct Tuples {
  std::vector<int64_t> offsets;
  int64_t width = 1;
  std::vector<int64_t> result_shape;  // of GatherND
};

Tuples tuples(const Call& c, const Array& x, const Array& indices, size_t batch_dims) {
  c.require(indices.rank() >= 1 && batch_dims < indices.rank() && batch_dims <= x.rank(), "indices have too few dimensions");
  const auto k = static_cast<size_t>(indices.dim(indices.rank() - 1));
  c.require(batch_dims + k <= x.rank(), "index tuples are longer than the rank");
  for (size_t d = 0; d < batch_dims; ++d) c.require(indices.dim(d) == x.dim(d), "batch dimensions differ");
  Tuples t;
  const std::vector<int64_t> dense = dense_strides(x.shape());
  for (size_t d = batch_dims + k; d < x.rank(); ++d) t.width *= x.dim(d);
  t.result_shape.assign(indices.shape().begin(), indices.shape().end() - 1);
  t.result_shape.insert(t.result_shape.end(), x.shape().begin() + static_cast<std::ptrdiff_t>(batch_dims + k), x.shape().end());
  const int64_t count = product(std::span(indices.shape()).first(indices.rank() - 1));
  int64_t per_batch = 1, batch_size = 1;
  for (size_t d = batch_dims; d + 1 < indices.rank(); ++d) per_batch *= indices.dim(d);
  for (size_t d = batch_dims; d < x.rank(); ++d) batch_size *= x.dim(d);
  const std::vector<int64_t> at = load_all<int64_t>(indices);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = i / per_batch * batch_size;
    for (size_t j = 0; j < k; ++j) {
      const size_t d = batch_dims + j;
      offset += place_in(c, at[static_cast<size_t>(i) * k + j], x.dim(d)) * dense[d];
    }
    t.offsets.push_back(offset);
  }
  return t;
}
}  // namespace

void GatherND(Call& c) {
  const Array x = c.dense(0);
  const Tuples t = tuples(c, x, c.in(1), static_cast<size_t>(c.int_attr("batch_dims", 0)));
  Array out = c.make(x.dtype(), t.result_shape);
  with_element(x.dtype(), [&]<class E>(E) {
    E* to = out.as<E>();
    for (int64_t offset : t.offsets) to = std::copy(x.as<E>() + offset, x.as<E>() + offset + t.width, to);
  });
  c.set(0, out);
}

void ScatterND(Call& c) {
  Array out = copy_of(c, c.in(0));
  require_same_dtype(c, 0, 2);
  const Tuples t = tuples(c, out, c.in(1), 0);
  const Array updates = c.dense(2);
  c.require(updates.shape() == t.result_shape, "the updates do not have the shape of the elements to update");
  const Combine how = combine_of(c);
  int64_t from = 0;
  for (int64_t offset : t.offsets) {
    for (int64_t i = 0; i < t.width; ++i) put(how, out, offset + i, updates, from++);
  }
  c.set(0, out);
}

void ScatterElements(Call& c) { scatter_elements(c, combine_of(c)); }
void Scatter(Call& c) { scatter_elements(c, Combine::kReplace); }

void OneHot(Call& c) {
  const Array& indices = c.in(0);
  const int64_t depth = c.int_scalar(1);
  const Array values = c.dense(2);
  c.require(values.size() == 2, "expected two values: off and on");
  c.require(depth >= 0, "the depth is negative");
  const size_t axis = c.axis(c.int_attr("axis", -1), indices.rank() + 1);
  std::vector<int64_t> shape(indices.shape());
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  Array out = c.make(values.dtype(), shape);
  with_element(values.dtype(), [&]<class E>(E) {
    const E off = values.as<E>()[0], on = values.as<E>()[1];
    std::fill(out.as<E>(), out.as<E>() + out.size(), off);
    const std::vector<int64_t> at = load_all<int64_t>(indices);
    const int64_t inner = product(std::span(shape).subspan(axis + 1));
    for (size_t i = 0; i < at.size(); ++i) {
      const auto n = static_cast<int64_t>(i);
      if (at[i] < -depth || at[i] >= depth) continue;  // out of range: leave all elements off
      const int64_t k = at[i] < 0 ? at[i] + depth : at[i];
      out.as<E>()[(n / inner * depth + k) * inner + n % inner] = on;
    }
  });
  c.set(0, out);
}

void NonZero(Call& c) {
  const Array& x = c.in(0);
  std::vector<int64_t> found;
  if (x.dtype() == DType::kString) {
    for (int64_t i = 0; i < x.size(); ++i) {
      if (!x.string_at(i).empty()) found.push_back(i);
    }
  } else {
    const std::vector<double> all = load_all<double>(x);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] != 0) found.push_back(static_cast<int64_t>(i));
    }
  }
  const auto count = static_cast<int64_t>(found.size());
  const std::vector<int64_t> strides = dense_strides(x.shape());
  const size_t rank = std::max<size_t>(x.rank(), 1);  // a scalar counts as one element
  Array out = c.make(DType::kI64, {static_cast<int64_t>(rank), count});
  for (size_t d = 0; d < rank; ++d) {
    for (int64_t i = 0; i < count; ++i) {
      out.as<int64_t>()[static_cast<int64_t>(d) * count + i] =
          x.rank() == 0 ? 0 : found[static_cast<size_t>(i)] / strides[d] % x.dim(d);
    }
  }
  c.set(0, out);
}

void Compress(Call& c) {
  Array x = c.in(0);
  const Array& condition = c.in(1);
  size_t axis = 0;
  if (c.attr("axis"))
    axis = c.axis(c.int_attr("axis"), x.rank());
  else
    x = c.reshaped(x, {x.size()});
  std::vector<int64_t> keep;
  for (int64_t i = 0; i < condition.size(); ++i) {
    if (condition.int_at(i) == 0) continue;
    if (i >= x.dim(axis)) c.fail("the condition is longer than the axis");
    keep.push_back(i);
  }
  std::vector<int64_t> shape(x.shape());
  shape[axis] = static_cast<int64_t>(keep.size());
  Array out = c.make(x.dtype(), shape);
  shape[axis] = 1;
  for (size_t i = 0; i < keep.size(); ++i) {
    Array to = out.view(shape, out.strides(), static_cast<int64_t>(i) * out.strides()[axis]);
    copy_elements(x.view(shape, x.strides(), keep[i] * x.strides()[axis]), to);
  }
  c.set(0, out);
}

void ReverseSequence(Call& c) {
  const Array& x = c.in(0);
  const std::vector<int64_t> lengths = c.ints(1);
  const size_t batch = c.axis(c.int_attr("batch_axis", 1), x.rank()), time = c.axis(c.int_attr("time_axis", 0), x.rank());
  c.require(batch != time, "the batch axis and the time axis are the same");
  c.require(static_cast<int64_t>(lengths.size()) == x.dim(batch), "expected one length per sequence");
  Array out = copy_of(c, x);
  std::vector<int64_t> shape(x.shape());
  shape[batch] = shape[time] = 1;
  for (int64_t b = 0; b < x.dim(batch); ++b) {
    const int64_t n = lengths[static_cast<size_t>(b)];
    c.require(n >= 0 && n <= x.dim(time), "a length exceeds the time axis");
    for (int64_t t = 0; t < n; ++t) {
      Array to = out.view(shape, out.strides(), b * out.strides()[batch] + t * out.strides()[time]);
      copy_elements(x.view(shape, x.strides(), b * x.strides()[batch] + (n - 1 - t) * x.strides()[time]), to);
    }
  }
  c.set(0, out);
}

// Writes updates into a cache along an axis, at one index per batch.
void TensorScatter(Call& c) {
  require_same_dtype(c, 0, 1);
  Array out = copy_of(c, c.in(0));
  const Array& updates = c.in(1);
  const size_t axis = c.axis(c.int_attr("axis", -2), out.rank());
  const bool circular = c.string_attr("mode", "linear") == "circular";
  c.require(axis > 0 && updates.rank() == out.rank(), "the axis is the batch's, or the ranks differ");
  for (size_t d = 0; d < out.rank(); ++d) {
    c.require(d == axis ? updates.dim(d) <= out.dim(d) : updates.dim(d) == out.dim(d),
              "the updates have other sizes than the cache, or more positions");
  }
  std::vector<int64_t> starts(static_cast<size_t>(out.dim(0)), 0);
  if (c.has(2)) starts = c.ints(2);
  c.require(static_cast<int64_t>(starts.size()) == out.dim(0), "expected one index per batch");
  std::vector<int64_t> shape(updates.shape());
  shape[0] = shape[axis] = 1;
  for (int64_t b = 0; b < out.dim(0); ++b) {
    for (int64_t t = 0; t < updates.dim(axis); ++t) {
      int64_t k = starts[static_cast<size_t>(b)] + t;
      if (circular) k %= out.dim(axis);
      k = place_in(c, k, out.dim(axis));
      Array to = out.view(shape, out.strides(), b * out.strides()[0] + k * out.strides()[axis]);
      copy_elements(updates.view(shape, updates.strides(), b * updates.strides()[0] + t * updates.strides()[axis]), to);
    }
  }
  c.set(0, out);
}

}  // namespace kernels
}  // namespace sardonyx::eval
