// The interface for lowerings from ONNX to Core ML's MIL: one node, its lowered operands, and a builder.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/ir.h"
#include "sardonyx/lowering.h"
#include "sardonyx/mil_builder.h"

namespace sardonyx::onnx_to_mil {

class Context;

// The element type that stands for `d` in MIL: i32 for all integers, f32 for f64 and bf16; f16, f32, bool and
// strings stay. kUndefined if MIL has none.
DType stored_dtype(DType d);

class Lowering : public lower::LoweringOf<Context, MilBuilder> {
 public:
  using LoweringOf::LoweringOf;

  // --- operands and results
  DType in_dtype(size_t i) const { return has(i) ? node.input(i)->dtype() : DType::kUndefined; }  // in ONNX
  DType out_dtype(size_t i = 0) const { return node.result(i)->dtype(); }                         // in ONNX
  // Types in the tables of the MIL model, with the stored element type. Refuses the node if the rank is
  // unknown.
  const Type* in_type(size_t i);
  const Type* out_type(size_t i = 0);
  std::span<const Dim> in_dims(size_t i) { return in_type(i)->dims(); }
  std::span<const Dim> out_dims(size_t i = 0) { return out_type(i)->dims(); }
  size_t rank(size_t i) { return in_type(i)->rank(); }
  // The MIL type for a type of the ONNX model; null if it is unknown or MIL has no such tensor type.
  const Type* stored_type(const Type* onnx);
  bool is_used(size_t i) const { return i < node.num_results() && node.result(i)->has_uses(); }

  // --- operands known before run time
  TensorPtr constant(size_t i) const;  // in its ONNX type; null if absent or computed
  // The attribute of that name, which older opsets have instead of the operand; else the operand. Nullopt if
  // it is absent or computed.
  std::optional<std::vector<int64_t>> ints(size_t i, std::string_view attr = {}) const;
  // The same where Core ML requires a constant: refuses the node otherwise. `what` names the operand in the
  // error: "the axes".
  std::vector<int64_t> need_ints(size_t i, std::string_view attr, std::string_view what) const;
  // Whether inference proves that no element is negative, as for sizes and counted indices.
  bool is_never_negative(size_t i) const;
  // Whether operand i is u32, or u32 cast to 64 bits. It is stored as i32 with the same bits, so numbers of
  // 2^31 and more are negative.
  bool is_from_u32(size_t i) const;
  // Whether at least one operand is from u32, and every other one is from u32 or never negative.
  bool are_from_u32() const;
  // Flips the sign bit: as i32, the results compare as the u32 numbers do. Applied twice, it changes nothing.
  Value* flip_sign_bit(Value* x);
  // The same if operand 0 is from u32, else x.
  Value* flip_sign_bit_if_u32(Value* x) { return is_from_u32(0) ? flip_sign_bit(x) : x; }

  // --- attributes
  int64_t int_attr(std::string_view name, int64_t otherwise) const { return node.attr_int(name, otherwise); }
  double float_attr(std::string_view name, double otherwise) const { return node.attr_float(name, otherwise); }
  std::string string_attr(std::string_view name, std::string_view otherwise) const { return node.attr_string(name, otherwise); }
  std::vector<int64_t> ints_attr(std::string_view name, size_t count, int64_t otherwise) const;

  // --- the target
  int version() const { return b.version(); }  // 8 is iOS 17
  // Whether this target's op accepts that element type for its first data operand.
  bool takes(std::string_view op, DType d) const;

  // --- sizes at run time: constants if known, else read from operands that have them
  Value* size(Dim d);                           // i32[1]
  Value* shape(std::span<const Dim> dims);      // i32[n]
  Value* size_of(Value* x, size_t axis);        // i32[1]
  Value* shape_of(Value* x);                    // i32[n]
  Value* join(std::span<Value* const> pieces);  // concatenates i32[1], i32[2], ...

  // --- helpers. Each returns its operand if there is nothing to do. x is a MIL value.
  Value* cast(Value* x, DType to);  // to a MIL type
  Value* reshape(Value* x, std::span<const Dim> dims);
  Value* squeeze(Value* x, std::span<const int64_t> axes);
  Value* unsqueeze(Value* x, std::span<const int64_t> axes);  // axes of the result
  Value* transpose(Value* x, std::span<const int64_t> perm);
  Value* expand(Value* x, std::span<const Dim> dims);       // broadcasting rules of Expand
  Value* select(Value* condition, Value* a, Value* other);  // with broadcasting among all three
  // x, an i32, wrapped around to the range of the integer type `to` of ONNX; x itself if `to` has 32 bits or
  // more.
  Value* wrapped(Value* x, DType to);
  Value* wrapped(Value* x) { return wrapped(x, out_dtype()); }  // to the type of the node's result
  // f(x), computed in an element type that `op` takes: a bool is cast to i32 or f32, and back.
  Value* via(std::string_view op, Value* x, const std::function<Value*(Value*)>& f);

  // Refuses the node: it needs an op of a later target ("needs iOS17").
  [[noreturn]] void needs(int version, std::string_view what) const;

  Types& types() const { return b.types(); }
  Dims& dims() const { return b.dims(); }

 private:
  const Type* known(const Value& v, std::string_view what);
};

// An axis counted from the front.
inline size_t from_front(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}
// For MIL's parameters, which are signed.
inline int64_t as_int(size_t i) { return static_cast<int64_t>(i); }
std::vector<int64_t> iota(size_t n, int64_t from = 0);

}  // namespace sardonyx::onnx_to_mil
