// Floats as bits and back, in arithmetic: ONNX has BitCast from opset 26 on only.
#pragma once

#include "lower/word.h"

namespace sardonyx {

// f16, bf16, f32, f64 and the small ones: a sign, an exponent and `mantissa` bits. Not f8e8m0, which is an exponent alone.
struct FloatFormat {
  DType dtype;
  int mantissa;
  int exponent;
  bool has_infinity = true;  // without, the exponent of all ones is one like any other
  bool has_nan = true;       // without infinity: the code of all ones, or, where zero has no sign, that of -0
  bool has_signed_zero = true;

  static FloatFormat of(DType t);
  int bias() const { return (1 << (exponent - 1)) - (has_signed_zero ? 1 : 0); }
  int greatest_exponent() const { return (1 << exponent) - (has_infinity ? 2 : 1) - bias(); }
  double greatest_number() const;
  // The first code beyond the numbers: where there is no infinity, that of a NaN or of the sign.
  uint64_t infinity() const {
    if (has_infinity) return ((uint64_t{1} << exponent) - 1) << mantissa;
    return sign() - (has_nan && has_signed_zero ? 1 : 0);
  }
  uint64_t nan() const { return has_infinity ? infinity() | (infinity() >> 1) : infinity(); }
  uint64_t sign() const { return uint64_t{1} << (mantissa + exponent); }
  // What we compute in: f32 holds the smaller formats exactly.
  DType wide() const { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }
};

// The bits of |x|, and of x, as u32 or u64; x is in f.wide(). NaN gives one NaN.
Word magnitude_bits(Lowering& ctx, const FloatFormat& f, Value* x);
Word float_bits(Lowering& ctx, const FloatFormat& f, Value* x);
// The float, in f.wide(), of bits without sign; and of all bits.
Value* magnitude_of_bits(Lowering& ctx, const FloatFormat& f, Word bits);
Value* float_of_bits(Lowering& ctx, const FloatFormat& f, Word bits);

}  // namespace sardonyx
