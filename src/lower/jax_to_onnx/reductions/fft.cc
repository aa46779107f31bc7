// fft[fft_type, fft_lengths] x   =>   a discrete Fourier transform along each of the last axes
//   of 2^k elements, of a symbolic size, or with a large prime factor    DFT<inverse>(x)
//   of up to 64 elements                                                 MatMul(x, matrix)
//   of n1 n2 elements (Cooley and Tukey 1965)                            transforms of n1 and of n2 elements
//
// IRFFT restores the missing half as the reversed conjugate and returns the real part; the matrix of a MatMul
// does both.
//
// For sizes other than powers of two, onnxruntime's DFT computes its angles in the type of x: an error of
// 1e-4 at 400 elements of f32.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lower/jax_to_onnx/lib/complex.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr int64_t kLargestMatrix = 64;
constexpr int64_t kLargestPrime = 256;  // a matrix of this size takes 1 MiB in f32

// A constant [rows, columns] of pairs: [rows (2), columns (2)].
Value* table(Lowering& ctx, DType t, std::vector<int64_t> shape, const std::function<double(int64_t row, int64_t column)>& f) {
  std::vector<std::byte> bytes(byte_size(t, static_cast<uint64_t>(shape[0] * shape[1])));
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i) encode_element(t, bytes.data(), i, f(i / shape[1], i % shape[1]));
  return ctx.b.constant(Tensor::own(t, std::move(shape), std::move(bytes)));
}

// cos and sin of 2 pi i k / n.
double cosine(int64_t i, int64_t k, int64_t n) {
  return std::cos(2 * std::numbers::pi * static_cast<double>(i * k % n) / static_cast<double>(n));
}
double sine(int64_t i, int64_t k, int64_t n) {
  return std::sin(2 * std::numbers::pi * static_cast<double>(i * k % n) / static_cast<double>(n));
}

// The weight of part `from` of an operand (0 real, 1 imaginary) in part `to` of its product with c + is.
double of_product(int64_t from, int64_t to, double c, double s) { return from == to ? c : to == 1 ? s : -s; }

class Transform {
 public:
  // Transforms along the axis before the pairs; the data has element type t.
  Transform(Lowering& ctx, DType t, bool inverse) : ctx_(ctx), type_(t), inverse_(inverse) {}

  // x [..., n, 2]
  Value* complex(Value* x, Dim size) {
    if (!is_composed(size)) return dft(x, false);
    int64_t n = size.value();
    if (n == 1) return x;
    int64_t first = factor(n);
    if (first == n) {
      Value* matrix = table(ctx_, type_, {2 * n, 2 * n}, [&](int64_t row, int64_t column) {
        int64_t i = row / 2, k = column / 2;
        return of_product(row % 2, column % 2, cosine(i, k, n), direction() * sine(i, k, n)) * scale(n);
      });
      return split_last(ctx_.b.MatMul(merge_last(x), matrix), n);
    }
    // i = second i1 + i2 and k = k1 + first k2.
    int64_t second = n / first;
    x = replace_last(x, 2, {first, second, 2});
    x = exchange(x);  // i2, i1
    x = complex(x, Dim::of(first));
    Value* c = pairs(first, second, [&](int64_t i, int64_t k, int64_t) { return cosine(i, k, n); });
    Value* s = pairs(first, second,
                     [&](int64_t i, int64_t k, int64_t part) { return (part == 0 ? -1 : 1) * direction() * sine(i, k, n); });
    Value* swapped = ctx_.b.Gather(x, ctx_.b.i64s({1, 0}), {.axis = -1});
    x = ctx_.b.Add(ctx_.b.Mul(x, c), ctx_.b.Mul(swapped, s));
    x = complex(exchange(x), Dim::of(second));  // k1, k2
    return replace_last(exchange(x), 3, {n, 2});
  }

  // x [..., n] of real numbers => [..., n/2 + 1, 2]
  Value* of_real(Value* x, Dim size) {
    if (is_composed(size) && size.value() <= kLargestMatrix) {
      int64_t n = size.value(), half = n / 2 + 1;
      Value* matrix = table(ctx_, type_, {n, 2 * half}, [&](int64_t i, int64_t column) {
        return column % 2 == 0 ? cosine(i, column / 2, n) : -sine(i, column / 2, n);
      });
      return split_last(ctx_.b.MatMul(x, matrix), half);
    }
    Value* column = ctx_.unsqueeze(x, std::vector{static_cast<int64_t>(x->type()->rank())});
    if (!is_composed(size)) return dft(column, true);
    Value* pair = ctx_.b.Pad(column, ctx_.b.i64s(pads_of_last(column)), nullptr);
    return ctx_.slice(complex(pair, size), axis_of(column), Dim::of(0), Dim::of(size.value() / 2 + 1));
  }

  // x [..., n/2 + 1, 2] => [..., n] of real numbers
  Value* to_real(Value* x, Dim size) {
    if (size.is_int() && size.value() <= kLargestMatrix) {
      int64_t n = size.value(), half = n / 2 + 1;
      Value* matrix = table(ctx_, type_, {2 * half, n}, [&](int64_t row, int64_t i) {
        int64_t k = row / 2;
        double weight = (k == 0 || 2 * k == n ? 1.0 : 2.0) / static_cast<double>(n);
        return weight * (row % 2 == 0 ? cosine(i, k, n) : -sine(i, k, n));
      });
      return ctx_.b.MatMul(merge_last(x), matrix);
    }
    return ctx_.b.Gather(complex(both_sides(x, size), size), ctx_.b.i64(0), {.axis = -1});
  }

 private:
  double direction() const { return inverse_ ? 1 : -1; }
  double scale(int64_t n) const { return inverse_ ? 1.0 / static_cast<double>(n) : 1; }

  // n if it is small enough; else its largest divisor up to kLargestMatrix; n if it has none but is at most
  // kLargestPrime; else 0.
  static int64_t factor(int64_t n) {
    if (n <= kLargestMatrix) return n;
    for (int64_t d = kLargestMatrix; d > 1; --d) {
      if (n % d == 0) return d;
    }
    return n <= kLargestPrime ? n : 0;
  }

  static bool is_composed(Dim size) {
    if (!size.is_int() || size.value() == 0 || (size.value() & (size.value() - 1)) == 0) return size.is(1);
    for (int64_t n = size.value(); n > kLargestMatrix;) {
      int64_t d = factor(n);
      if (d == 0) return false;
      n = d == n ? 1 : n / d;
    }
    return true;
  }

  static int64_t axis_of(Value* x) { return static_cast<int64_t>(x->type()->rank()) - 2; }

  // onnxruntime divides by n in f32. That is exact for powers of two; for other sizes we scale, and compute
  // the inverse as the conjugate of the transform of the conjugate.
  Value* dft(Value* x, bool onesided) {
    OnnxBuilder& b = ctx_.b;
    Dim n = x->type()->dim(static_cast<size_t>(axis_of(x)));
    bool is_exact = n.is_int() && (n.value() & (n.value() - 1)) == 0;
    auto run = [&](Value* v, bool inverse) {
      if (b.opset() >= 20) return b.DFT(v, nullptr, b.i64(axis_of(v)), {.inverse = inverse, .onesided = onesided});
      // Before opset 20 the axis is an attribute.
      return b.op("DFT", {v}, {attr("axis", axis_of(v)), attr("inverse", inverse ? 1 : 0), attr("onesided", onesided ? 1 : 0)});
    };
    if (!inverse_ || is_exact) return run(x, inverse_);
    Value* signs = table(ctx_, type_, {1, 2}, [](int64_t, int64_t part) { return part == 0 ? 1 : -1; });
    return b.Mul(run(b.Mul(x, signs), false), b.Div(signs, ctx_.dim_as(n, type_)));
  }

  // All n frequencies from the first n/2 + 1: those from n - 1 down are the conjugates of those from 1 up.
  Value* both_sides(Value* x, Dim n) {
    OnnxBuilder& b = ctx_.b;
    Dims& dims = b.dims();
    Dim missing = dims.sub(dims.sub(n, dims.floordiv(n, Dim::of(2))), Dim::of(1));
    if (missing.is(0)) return x;
    int64_t axis = axis_of(x);
    Value* part = ctx_.slice(x, axis, Dim::of(1), dims.add(missing, Dim::of(1)));
    Value* backwards = b.Slice(part, b.i64s({-1}), b.i64s({INT64_MIN}), b.i64s({axis}), b.i64s({-1}));
    Value* signs = table(ctx_, type_, {1, 2}, [](int64_t, int64_t imaginary) { return imaginary == 0 ? 1 : -1; });
    Value* pieces[] = {x, b.Mul(backwards, signs)};
    return ctx_.concat(pieces, axis);
  }

  // A constant [second, first, 2] with the elements f(i2, k1, part).
  Value* pairs(int64_t first, int64_t second, const std::function<double(int64_t, int64_t, int64_t)>& f) {
    Value* flat =
        table(ctx_, type_, {second, 2 * first}, [&](int64_t i, int64_t column) { return f(i, column / 2, column % 2); });
    const Dim dims[] = {Dim::of(second), Dim::of(first), Dim::of(2)};
    return ctx_.reshape(flat, dims);
  }

  // x with its last `count` axes reshaped to `sizes`.
  Value* replace_last(Value* x, size_t count, std::vector<int64_t> sizes) {
    std::vector<Dim> dims(x->type()->dims().begin(), x->type()->dims().end() - static_cast<ptrdiff_t>(count));
    for (int64_t n : sizes) dims.push_back(Dim::of(n));
    return ctx_.reshape(x, dims);
  }
  Value* merge_last(Value* x) {
    auto dims = x->type()->dims();
    return replace_last(x, 2, {dims[dims.size() - 2].value() * 2});
  }
  Value* split_last(Value* x, int64_t n) { return replace_last(x, 1, {n, 2}); }

  // Swaps the two axes before the pairs.
  Value* exchange(Value* x) {
    std::vector<int64_t> perm;
    for (size_t i = 0; i < x->type()->rank(); ++i) perm.push_back(static_cast<int64_t>(i));
    std::swap(perm[perm.size() - 2], perm[perm.size() - 3]);
    return ctx_.transpose(x, perm);
  }

  // Pads that add one zero at the end of the last axis.
  static std::vector<int64_t> pads_of_last(Value* x) {
    std::vector<int64_t> pads(2 * x->type()->rank(), 0);
    pads.back() = 1;
    return pads;
  }

  Lowering& ctx_;
  DType type_;
  bool inverse_;
};

// Applies f to x with `axis` (counted without the pairs) moved to the end, and moves it back.
Value* along(Lowering& ctx, Value* x, int64_t axis, const std::function<Value*(Value*)>& f) {
  auto rank = static_cast<int64_t>(x->type()->rank());
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < rank; ++i) perm.push_back(i);
  // Swapping two axes is its own inverse.
  std::swap(perm[static_cast<size_t>(axis)], perm[static_cast<size_t>(rank - 2)]);
  return ctx.transpose(f(ctx.transpose(x, perm)), perm);
}

}  // namespace

std::vector<Value*> complex_fft(Lowering& ctx) {
  auto kind = ctx.string_param("fft_type");
  auto lengths = ctx.dims_param("fft_lengths");
  auto rank = static_cast<int64_t>(ctx.in_rank(0)), first = rank - static_cast<int64_t>(lengths.size());
  auto is_kind = [&](std::string_view name) { return kind == name || kind.ends_with("." + std::string(name)); };
  bool is_rfft = is_kind("RFFT"), is_irfft = is_kind("IRFFT"), inverse = is_irfft || is_kind("IFFT");
  if (!is_rfft && !inverse && !is_kind("FFT")) ctx.unsupported("the kind of transform is '" + kind + "'");
  if (is_complex(ctx.in_dtype(0)) == is_rfft || (!is_rfft && !is_irfft && ctx.out_dtype(0) != ctx.in_dtype(0)))
    throw Error(ErrorCode::kInvalidModel, fmt::format("a transform {} of {}", kind, to_string(ctx.in_dtype(0))));
  if (lengths.empty() || first < 0) throw Error(ErrorCode::kInvalidModel, "fft_lengths must name one to all of the last axes");
  for (size_t i = 0; i < lengths.size(); ++i) {
    const Dim has = ctx.in_dims(0)[static_cast<size_t>(first) + i], n = lengths[i];
    if (!has.is_int() || !n.is_int()) continue;
    const int64_t wanted = is_irfft && i + 1 == lengths.size() ? n.value() / 2 + 1 : n.value();
    if (n.value() < 0 || has.value() != wanted)
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("a transform of length {} of an axis of size {}", n.value(), has.value()));
  }
  Value* x = ctx.in(0);
  Transform transform(ctx, ctx.stored_out_type()->dtype(), inverse);
  if (is_rfft) x = transform.of_real(x, lengths.back());
  for (int64_t axis = first; axis < rank - (is_rfft || is_irfft ? 1 : 0); ++axis) {
    Dim n = lengths[static_cast<size_t>(axis - first)];
    x = along(ctx, x, axis, [&](Value* v) { return transform.complex(v, n); });
  }
  return {is_irfft ? transform.to_real(x, lengths.back()) : x};
}

}  // namespace sardonyx::jax_to_onnx
