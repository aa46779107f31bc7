// DFT, STFT and windows: Fourier transforms of known sizes, as products with a constant matrix.
//
//   [..., n, c]   =>   [..., n * c] x [n * c, m * 2]   =>   [..., m, 2]        c: 1 for real numbers, 2 for complex ones
//
// `onesided` keeps the first half of the results of real numbers; its inverse returns real numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {
namespace {

constexpr int64_t kMost = 4096;  // the constant matrix has n * n numbers

// The matrix from n numbers with c parts to the first m results with d parts.
TensorPtr matrix(int64_t n, int64_t c, int64_t m, int64_t d, bool inverse, DType dtype) {
  const int64_t rows = n * c, columns = m * d;
  std::vector<std::byte> bytes(byte_size(dtype, static_cast<uint64_t>(rows * columns)));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t k = 0; k < m; ++k) {
      const double angle = 2 * M_PI * static_cast<double>(j * k % n) / static_cast<double>(n);
      const double scale = inverse ? 1 / static_cast<double>(n) : 1;
      const double real = std::cos(angle) * scale, imaginary = (inverse ? 1 : -1) * std::sin(angle) * scale;
      // (a + bi)(real + imaginary i)
      const double parts[2][2] = {{real, imaginary}, {-imaginary, real}};
      for (int64_t from = 0; from < c; ++from) {
        for (int64_t to = 0; to < d; ++to)
          encode_element(dtype, bytes.data(), (j * c + from) * columns + k * d + to, parts[from][to]);
      }
    }
  }
  return Tensor::own(dtype, {rows, columns}, std::move(bytes));
}

// The matrix from the first n / 2 + 1 results back to the n real numbers.
TensorPtr real_inverse(int64_t n, DType dtype) {
  const int64_t m = n / 2 + 1;
  std::vector<std::byte> bytes(byte_size(dtype, static_cast<uint64_t>(m * 2 * n)));
  for (int64_t k = 0; k < m; ++k) {
    const double weight = (k == 0 || 2 * k == n ? 1.0 : 2.0) / static_cast<double>(n);  // the other half is conjugate
    for (int64_t i = 0; i < n; ++i) {
      const double angle = 2 * M_PI * static_cast<double>(k * i % n) / static_cast<double>(n);
      encode_element(dtype, bytes.data(), 2 * k * n + i, weight * std::cos(angle));
      encode_element(dtype, bytes.data(), (2 * k + 1) * n + i, -weight * std::sin(angle));
    }
  }
  return Tensor::own(dtype, {m * 2, n}, std::move(bytes));
}

// The transform of [..., k, c] along its second last axis: [..., m, 2], or [..., n, 1] for real numbers.
Value* transformed(Lowering& ctx, Value* x, int64_t n, bool inverse, bool onesided) {
  const auto dims = x->type()->dims();
  const bool to_real = inverse && onesided;
  const int64_t c = dims.back().value(), m = onesided && !inverse ? n / 2 + 1 : n;
  if (n > kMost) ctx.unsupported(fmt::format("a Fourier transform of more than {} numbers", kMost));
  std::vector<Dim> flat(dims.begin(), dims.end() - 2), out = flat;
  flat.push_back(Dim::of(dims[dims.size() - 2].value() * c));
  if (flat.size() == 1) flat.insert(flat.begin(), Dim::of(1));
  const TensorPtr by = to_real ? real_inverse(n, x->dtype()) : matrix(n, c, m, 2, inverse, x->dtype());
  Value* y = ctx.b.matmul(ctx.reshape(x, flat), ctx.b.constant(by), {.transpose_x = false, .transpose_y = false});
  out.push_back(Dim::of(m));
  out.push_back(Dim::of(to_real ? 1 : 2));
  return ctx.reshape(y, out);
}

}  // namespace

std::vector<Value*> lower_DFT(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  const size_t rank = ctx.rank(0);
  const auto given =
      ctx.node.op().since_version < 20 ? ctx.int_attr("axis", 1) : ctx.ints(2).value_or(std::vector<int64_t>{-2}).at(0);
  if (ctx.has(2) && !ctx.ints(2)) ctx.unsupported("the axis is computed, and Core ML wants a constant");
  const size_t axis = from_front(given, rank);
  const Dim size = ctx.in_dims(0)[axis], parts = ctx.in_dims(0)[rank - 1];
  if (!size.is_int() || !parts.is_int()) ctx.unsupported("a Fourier transform of open size");
  const bool inverse = ctx.int_attr("inverse", 0) != 0, onesided = ctx.int_attr("onesided", 0) != 0;
  const bool to_real = inverse && onesided;
  if (to_real && !parts.is(2)) ctx.unsupported("an inverse transform of real numbers to real numbers");
  int64_t n = to_real ? 2 * (size.value() - 1) : size.value();
  if (ctx.has(1)) n = ctx.need_ints(1, {}, "the length of the transform").at(0);
  std::vector<int64_t> perm = iota(rank);
  std::swap(perm[axis], perm[rank - 2]);
  x = ctx.transpose(x, perm);
  const int64_t taken = to_real ? n / 2 + 1 : n;
  if (taken < size.value()) {
    std::vector<int64_t> end(rank);
    std::vector<bool> whole(rank, true);
    end[rank - 2] = taken;
    whole[rank - 2] = false;
    x = b.slice_by_index(x, std::vector<int64_t>(rank), end, {.end_mask = whole});
  } else if (taken > size.value()) {
    std::vector<int64_t> pads(2 * rank);
    pads[2 * (rank - 2) + 1] = taken - size.value();
    x = b.pad(x, pads, {.constant_val = ctx.like(x, 0), .mode = "constant"});
  }
  return {ctx.transpose(transformed(ctx, x, n, inverse, onesided), perm)};
}

// The frames are gathered, weighted and transformed.
std::vector<Value*> lower_STFT(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  if (ctx.rank(0) == 2) x = ctx.unsqueeze(x, std::vector<int64_t>{2});
  const int64_t step = ctx.need_ints(1, {}, "the distance of frames").at(0);
  const Dim length = x->type()->dim(1), parts = x->type()->dim(2);
  Value* window = ctx.in_or_null(2);
  const auto size = ctx.has(3) ? std::optional(ctx.need_ints(3, {}, "the length of frames").at(0))
                    : window != nullptr && window->type()->dim(0).is_int() ? std::optional(window->type()->dim(0).value())
                                                                           : std::nullopt;
  if (!length.is_int() || !parts.is_int() || !size) ctx.unsupported("frames or signals of open size");
  const int64_t frames = (length.value() - *size) / step + 1;
  std::vector<int32_t> indices;
  for (int64_t i = 0; i < frames; ++i) {
    for (int64_t j = 0; j < *size; ++j) indices.push_back(static_cast<int32_t>(i * step + j));
  }
  Value* framed = b.gather(x, b.constant(Tensor::of<int32_t>(DType::kI32, {frames, *size}, indices)), {.axis = 1});
  if (window != nullptr) framed = b.mul(framed, ctx.unsqueeze(window, std::vector<int64_t>{1}));
  return {transformed(ctx, framed, *size, false, ctx.int_attr("onesided", 1) != 0)};
}

namespace {

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n)
std::vector<Value*> window(Lowering& ctx, double a0, double a1, double a2) {
  MilBuilder& b = ctx.b;
  Value* size = ctx.in(0);
  if (size->type()->rank() != 0) size = b.squeeze(size);
  const DType d = stored_dtype(ctx.out_dtype()) == DType::kI32 ? DType::kF32 : stored_dtype(ctx.out_dtype());
  Value* n = ctx.int_attr("periodic", 1) != 0 ? size : b.maximum(b.sub(size, 1), 1);
  Value* steps = b.cast(b.range_1d(size, 0, 1), {.dtype = d});
  Value* angle = b.real_div(b.mul(steps, 2 * M_PI), b.cast(n, {.dtype = d}));
  Value* y = b.sub(b.scalar(d, a0), b.mul(b.cos(angle), a1));
  if (a2 != 0) y = b.add(y, b.mul(b.cos(b.mul(angle, 2.0)), a2));
  return {ctx.cast(y, stored_dtype(ctx.out_dtype()))};
}

}  // namespace

std::vector<Value*> lower_BlackmanWindow(Lowering& ctx) { return window(ctx, 0.42, 0.5, 0.08); }
std::vector<Value*> lower_HammingWindow(Lowering& ctx) { return window(ctx, 25.0 / 46, 21.0 / 46, 0); }
std::vector<Value*> lower_HannWindow(Lowering& ctx) { return window(ctx, 0.5, 0.5, 0); }

}  // namespace sardonyx::onnx_to_mil
