// Converts floats to bits and back by arithmetic: ONNX has BitCast only from opset 26 on.
#pragma once

#include "lower/jax_to_onnx/lib/word.h"

namespace sardonyx::jax_to_onnx {

// f16, bf16, f32, f64 and the small floats: a sign, an exponent and `mantissa` bits. Not f8e8m0, which is
// only an exponent.
struct FloatFormat {
  DType dtype;
  int mantissa;
  int exponent;
  bool has_infinity = true;  // if not, the exponent of all ones is an ordinary one
  bool has_nan = true;       // without infinity: the code of all ones, or that of -0 if zero has no sign
  bool has_signed_zero = true;

  static FloatFormat of(DType t);
  int bias() const { return (1 << (exponent - 1)) - (has_signed_zero ? 1 : 0); }
  int greatest_exponent() const { return (1 << exponent) - (has_infinity ? 2 : 1) - bias(); }
  double greatest_number() const;
  // The first code that is not a number: infinity's; without infinity, NaN's or that of the sign bit.
  uint64_t infinity() const {
    if (has_infinity) return ((uint64_t{1} << exponent) - 1) << mantissa;
    return sign() - (has_nan && has_signed_zero ? 1 : 0);
  }
  uint64_t nan() const { return has_infinity ? infinity() | (infinity() >> 1) : infinity(); }
  uint64_t sign() const { return uint64_t{1} << (mantissa + exponent); }
  // The type to compute in: f32 represents the smaller formats exactly.
  DType wide() const { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }
};

// The bits of |x|, and of x, as u32 or u64. x has type f.wide(). All NaNs give the same code.
Word magnitude_bits(Lowering& ctx, const FloatFormat& f, Value* x);
Word float_bits(Lowering& ctx, const FloatFormat& f, Value* x);
// The float, in f.wide(), of bits without the sign; and of all bits.
Value* magnitude_of_bits(Lowering& ctx, const FloatFormat& f, Word bits);
Value* float_of_bits(Lowering& ctx, const FloatFormat& f, Word bits);

}  // namespace sardonyx::jax_to_onnx
