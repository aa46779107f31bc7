// Access to array elements: conversion between stored dtypes and the types that kernels compute in, and walks
// over strided arrays.
#pragma once

#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "sardonyx/eval.h"

namespace sardonyx::eval {

// Converts v to another compute type. Doubles outside an integer type's range saturate; NaN becomes 0.
template <class To, class From>
To convert(From v) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(v)) return 0;
    constexpr auto kLow = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double kHigh = std::is_signed_v<To> ? 0x1p63 : 0x1p64;
    const auto d = static_cast<double>(v);
    if (d <= kLow) return std::numeric_limits<To>::min();
    if (d >= kHigh) return std::numeric_limits<To>::max();
    return static_cast<To>(d);
  } else {
    return static_cast<To>(v);
  }
}

// The type a kernel computes in: f32 for f16, bf16 and the small floats, 64 bits for integers.
enum class Compute : uint8_t { kF32, kF64, kI64, kU64, kComplex, kString };
Compute compute_class(DType t);

// Loads elements offset, offset + step, ... as T: float, double, int64_t, uint64_t or complex<double>. Values
// convert as in C++, except that doubles converted to integers saturate and NaN becomes 0. Returns the
// array's own elements when they already are of type T; otherwise fills and returns `scratch`.
template <class T>
const T* load(const Array& a, int64_t offset, int64_t step, int64_t n, T* scratch);

// Stores n elements contiguously from `offset`. Floats are rounded to nearest even; integers wrap to their
// width.
template <class T>
void store(Array& a, int64_t offset, int64_t n, const T* from);

// All elements in row-major order.
template <class T>
std::vector<T> load_all(const Array& a);

// Walks arrays of one shape in row-major order. Calls f(n, offsets, steps) for runs of n elements, with the
// offset of the first element and the distance between elements in each array. Dimensions are merged where
// all arrays allow it, so dense arrays form a single run.
template <size_t N, class F>
void walk(std::span<const int64_t> shape, const std::array<std::span<const int64_t>, N>& strides, F&& f) {
  for (int64_t n : shape) {
    if (n == 0) return;  // the other sizes may be anything
  }
  std::vector<int64_t> sizes;
  std::vector<std::array<int64_t, N>> steps;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    std::array<int64_t, N> s;
    for (size_t k = 0; k < N; ++k) s[k] = strides[k][d];
    bool merges = !sizes.empty();
    for (size_t k = 0; k < N && merges; ++k) merges = steps.back()[k] == s[k] * shape[d];
    if (merges) {
      sizes.back() *= shape[d];
      steps.back() = s;
    } else {
      sizes.push_back(shape[d]);
      steps.push_back(s);
    }
  }
  std::array<int64_t, N> at{};
  if (sizes.empty()) {
    std::array<int64_t, N> one{};
    f(int64_t{1}, at, one);
    return;
  }
  const size_t last = sizes.size() - 1;
  std::vector<int64_t> index(sizes.size(), 0);
  while (true) {
    f(sizes[last], at, steps[last]);
    size_t d = last;
    while (d > 0) {
      --d;
      for (size_t k = 0; k < N; ++k) at[k] += steps[d][k];
      if (++index[d] < sizes[d]) break;
      for (size_t k = 0; k < N; ++k) at[k] -= steps[d][k] * sizes[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (last == 0) return;
  }
}

constexpr int64_t kChunk = 512;

// Splits a run into chunks that fit a buffer and calls f(begin, count) for each.
template <class F>
void chunks(int64_t n, F&& f) {
  for (int64_t i = 0; i < n; i += kChunk) f(i, std::min(kChunk, n - i));
}

// Calls f with a value of the type that moves an element of dtype t: an unsigned integer of its size, or
// std::string.
struct Bytes16 {
  uint64_t a, b;
};
template <class F>
decltype(auto) with_element(DType t, F&& f) {
  switch (t == DType::kString ? size_t{0} : element_bytes(t)) {
    case 0: return f(std::string{});
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(Bytes16{});
  }
}

// Copies elements between arrays of one shape and dtype.
void copy_elements(const Array& from, Array& to);

// --- shapes

std::vector<int64_t> broadcast_shapes(std::span<const int64_t> a, std::span<const int64_t> b);
int64_t product(std::span<const int64_t> dims);  // throws kLimit on overflow
std::string show(std::span<const int64_t> shape);

}  // namespace sardonyx::eval
