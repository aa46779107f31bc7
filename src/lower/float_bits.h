// Floats as bits and back, in arithmetic: ONNX has BitCast from opset 26 on only.
#pragma once

#include "lower/word.h"

namespace sardonyx {

// f16, bf16, f32 and f64: a sign, an exponent and `mantissa` bits.
struct FloatFormat {
  DType dtype;
  int mantissa;
  int exponent;

  static FloatFormat of(DType t);
  int bias() const { return (1 << (exponent - 1)) - 1; }
  uint64_t infinity() const { return ((uint64_t{1} << exponent) - 1) << mantissa; }
  uint64_t sign() const { return uint64_t{1} << (mantissa + exponent); }
  // What we compute in: f32 holds the smaller formats exactly.
  DType wide() const { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }
};

// The bits of |x|, and of x, as u32 or u64; x is in f.wide(). NaN gives one NaN.
Word magnitude_bits(Lowering& at, const FloatFormat& f, Value* x);
Word float_bits(Lowering& at, const FloatFormat& f, Value* x);
// The float, in f.wide(), of bits without sign; and of all bits.
Value* magnitude_of_bits(Lowering& at, const FloatFormat& f, Word bits);
Value* float_of_bits(Lowering& at, const FloatFormat& f, Word bits);

}  // namespace sardonyx
