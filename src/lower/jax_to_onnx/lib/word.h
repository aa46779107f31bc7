// Shifts, masks and wrapping arithmetic on u32 or u64 tensors, written like C.
#pragma once

#include "lower/jax_to_onnx/arithmetic/bitwise.h"
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

// The unsigned integer type with as many bits as t: u8, u16, u32 or u64.
DType unsigned_of(DType t);

class Word {
 public:
  Word(Lowering& ctx, Value* bits) : ctx_(&ctx), bits_(bits) {}
  // Zero-extends an integer x to u32 or u64.
  static Word of(Lowering& ctx, Value* x);

  Value* value() const { return bits_; }
  int width() const { return bit_width(bits_->dtype()); }
  Value* constant(uint64_t v) const {
    if (width() == 32) v &= 0xFFFFFFFF;
    return ctx_->b.scalar_int(bits_->dtype(), static_cast<int64_t>(v));
  }

  Word operator>>(int n) const {
    return {*ctx_, ctx_->b.BitShift(bits_, constant(static_cast<uint64_t>(n)), {.direction = "RIGHT"})};
  }
  Word operator&(uint64_t mask) const { return {*ctx_, bitwise(ctx_->b, "BitwiseAnd", bits_, constant(mask))}; }
  Word operator|(Word other) const { return {*ctx_, bitwise(ctx_->b, "BitwiseOr", bits_, other.bits_)}; }
  Word operator+(Word other) const { return {*ctx_, ctx_->b.Add(bits_, other.bits_)}; }
  Word operator-(Word other) const { return {*ctx_, ctx_->b.Sub(bits_, other.bits_)}; }
  Word operator*(Word other) const { return {*ctx_, ctx_->b.Mul(bits_, other.bits_)}; }
  Word operator*(uint64_t factor) const { return {*ctx_, ctx_->b.Mul(bits_, constant(factor))}; }

 private:
  Lowering* ctx_;
  Value* bits_;
};

}  // namespace sardonyx::jax_to_onnx
