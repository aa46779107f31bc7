// Loops over elements. The kernel of an elementwise operator is one line on top of these.
#pragma once

#include "eval/kernel.h"

namespace sardonyx::eval {

// y = f(x), computed in T for each element; the result has dtype `out`.
template <class T, class F>
Array map_as(Call& c, const Array& x, DType out, F f) {
  Array y = c.make(out, x.shape());
  T in_buffer[kChunk], out_buffer[kChunk];
  int64_t done = 0;
  walk<1>(x.shape(), {x.strides()}, [&](int64_t n, std::array<int64_t, 1> at, std::array<int64_t, 1> step) {
    chunks(n, [&](int64_t begin, int64_t count) {
      const T* from = load<T>(x, at[0] + begin * step[0], step[0], count, in_buffer);
      for (int64_t i = 0; i < count; ++i) out_buffer[i] = f(from[i]);
      store<T>(y, done, count, out_buffer);
      done += count;
    });
  });
  return y;
}

// y = f(a, b), computed in T with broadcasting. f returns an R, which is stored as dtype `out`.
template <class T, class R, class F>
Array map2_as(Call& c, const Array& a, const Array& b, DType out, F f) {
  std::vector<int64_t> shape = broadcast_shapes(a.shape(), b.shape());
  const Array p = a.broadcast_to(shape), q = b.broadcast_to(shape);
  Array y = c.make(out, std::move(shape));
  T left[kChunk], right[kChunk];
  R result[kChunk];
  int64_t done = 0;
  walk<2>(y.shape(), {p.strides(), q.strides()}, [&](int64_t n, std::array<int64_t, 2> at, std::array<int64_t, 2> step) {
    chunks(n, [&](int64_t begin, int64_t count) {
      const T* u = load<T>(p, at[0] + begin * step[0], step[0], count, left);
      const T* v = load<T>(q, at[1] + begin * step[1], step[1], count, right);
      for (int64_t i = 0; i < count; ++i) result[i] = f(u[i], v[i]);
      store<R>(y, done, count, result);
      done += count;
    });
  });
  return y;
}

// f is generic over float, double, int64_t and uint64_t; the result has the operands' dtype.
template <class F>
Array map2(Call& c, const Array& a, const Array& b, F f) {
  switch (compute_class(a.dtype())) {
    case Compute::kF32: return map2_as<float, float>(c, a, b, a.dtype(), f);
    case Compute::kF64: return map2_as<double, double>(c, a, b, a.dtype(), f);
    case Compute::kI64: return map2_as<int64_t, int64_t>(c, a, b, a.dtype(), f);
    case Compute::kU64: return map2_as<uint64_t, uint64_t>(c, a, b, a.dtype(), f);
    default: c.fail("expected numbers, found elements of " + std::string(to_string(a.dtype())));
  }
}

template <class F>
Array map1(Call& c, const Array& x, F f) {
  switch (compute_class(x.dtype())) {
    case Compute::kF32: return map_as<float>(c, x, x.dtype(), f);
    case Compute::kF64: return map_as<double>(c, x, x.dtype(), f);
    case Compute::kI64: return map_as<int64_t>(c, x, x.dtype(), f);
    case Compute::kU64: return map_as<uint64_t>(c, x, x.dtype(), f);
    default: c.fail("expected numbers, found elements of " + std::string(to_string(x.dtype())));
  }
}

// Computes in f64 whatever the dtype and rounds once. For transcendental functions.
template <class F>
Array map_double(Call& c, const Array& x, F f) {
  if (c.run.folding && x.dtype() == DType::kF64) c.unsupported("f64 functions differ in their last bits between machines");
  return map_as<double>(c, x, x.dtype(), f);
}

// Throws unless both operands have the same dtype.
void require_same_dtype(const Call& c, size_t i, size_t j);

// Operand 1, reshaped to broadcast as the attributes broadcast and axis demand before opset 7.
Array second_operand(Call& c);

// Converts x to a dtype as Cast does. `saturate` applies only to 8-bit float targets.
Array cast(Call& c, const Array& x, DType to, bool saturate = true);

}  // namespace sardonyx::eval
