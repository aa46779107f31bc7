// The interface for lowerings from ONNX to Core ML's MIL: one node, its lowered operands, and a builder.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/mil/mil_builder.h"
#include "sardonyx/ir.h"

namespace sardonyx::to_mil {

class Context;
class Lowering;

// Lowers one node: its results in order, null for results that nobody uses. The core checks types and shapes against the node,
// and gives names and provenance.
using LowerFn = std::vector<Value*> (*)(Lowering& ctx);

// The element type that stands for `d` in MIL: i32 for all integers, f32 for f64 and bf16; f16, f32, bool and strings stay.
// kUndefined if MIL has none.
DType stored(DType d);

class Lowering {
 public:
  Lowering(Context& context, const Node& onnx_node, MilBuilder& builder) : b(builder), node(onnx_node), context_(context) {}

  MilBuilder& b;
  const Node& node;  // of the onnx dialect

  // --- operands and results
  bool has(size_t i) const { return node.input(i) != nullptr; }
  Value* in(size_t i);  // lowered, in its stored type; throws kInvalidModel when it is absent
  Value* in_or_null(size_t i) { return has(i) ? in(i) : nullptr; }
  std::vector<Value*> ins();                                                                      // all that are present
  DType in_dtype(size_t i) const { return has(i) ? node.input(i)->dtype() : DType::kUndefined; }  // in ONNX
  DType out_dtype(size_t i = 0) const { return node.result(i)->dtype(); }                         // in ONNX
  // Types in the tables of the MIL model, with the stored element type. Refuses the node if the rank is unknown.
  const Type* in_type(size_t i);
  const Type* out_type(size_t i = 0);
  std::span<const Dim> in_dims(size_t i) { return in_type(i)->dims(); }
  std::span<const Dim> out_dims(size_t i = 0) { return out_type(i)->dims(); }
  size_t rank(size_t i) { return in_type(i)->rank(); }
  // The MIL type for a type of the ONNX model; null if it is unknown or no MIL tensor type.
  const Type* imported(const Type* onnx);
  bool is_used(size_t i) const { return i < node.num_results() && node.result(i)->has_uses(); }

  // --- operands known before run time
  TensorPtr constant(size_t i) const;  // in its ONNX type; null if absent or computed
  // The attribute of that name, which older opsets have in place of the operand, else the operand; nullopt if absent or computed.
  std::optional<std::vector<int64_t>> ints(size_t i, std::string_view attr = {}) const;
  std::optional<double> number(size_t i) const;  // the value that all elements have
  // The same where Core ML requires a constant: refuses the node otherwise. `what` names the operand in the error: "the axes".
  std::vector<int64_t> need_ints(size_t i, std::string_view attr, std::string_view what) const;
  // Whether inference proves that no element is negative, as for sizes and counted indices.
  bool is_never_negative(size_t i) const;
  // Whether operand i is u32, or u32 cast to 64 bits: held as i32 with the same bits, so that those from 2^31 on look negative.
  bool is_from_u32(size_t i) const;
  // Whether at least one operand is, and the others are too or are never negative.
  bool are_from_u32() const;
  // Such numbers with the top bit turned, which have the order of i32. Turned again, they are as before.
  Value* turned(Value* x);
  // The same if operand 0 is from u32, else x.
  Value* turned_if_u32(Value* x) { return is_from_u32(0) ? turned(x) : x; }

  // --- attributes
  int64_t int_attr(std::string_view name, int64_t otherwise) const { return node.attr_int(name, otherwise); }
  double float_attr(std::string_view name, double otherwise) const { return node.attr_float(name, otherwise); }
  std::string string_attr(std::string_view name, std::string_view otherwise) const { return node.attr_string(name, otherwise); }
  std::vector<int64_t> ints_attr(std::string_view name, size_t count, int64_t otherwise) const;

  // --- the target
  int version() const { return b.version(); }  // 8 is iOS 17
  // Whether the op may have that element type as its first data operand in this target.
  bool takes(std::string_view op, DType d) const;

  // --- sizes at run time: constants if known, else read from operands that have them
  Value* size(Dim d);                           // i32[1]
  Value* sizes(std::span<const Dim> dims);      // i32[n]
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
  Value* like(Value* x, double v);                          // a constant of x's element type, rank 0
  Value* select(Value* condition, Value* a, Value* other);  // with broadcasting among all three
  // The number that integer type `to` of ONNX has with the lower bits of x, an i32: x itself from 32 bits on.
  Value* wrapped(Value* x, DType to);
  Value* wrapped(Value* x) { return wrapped(x, out_dtype()); }  // to the type of the node's result
  // f(x), in an element type that `op` takes: a bool goes through i32 (or f16) and back.
  Value* moved(std::string_view op, Value* x, const std::function<Value*(Value*)>& f);

  // --- bodies
  // Lowers the nodes of a body into a block. The body's inputs must be bound.
  std::vector<Value*> lower_body(const Graph& body, std::span<Value* const> inputs, MilBuilder& block);

  // Refuses the node; the core collects all refusals.
  [[noreturn]] void unsupported(std::string why) const;
  // The same for an op of a later target: "needs iOS17".
  [[noreturn]] void needs(int version, std::string_view what) const;

  Context& context() const { return context_; }
  Types& types() const { return b.types(); }
  Dims& dims() const { return b.dims(); }

 private:
  const Type* known(const Value& v, std::string_view what);

  Context& context_;
};

// An axis counted from the front.
inline size_t from_front(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}
// For MIL's parameters, which are signed.
inline int64_t as_int(size_t i) { return static_cast<int64_t>(i); }
std::vector<int64_t> iota(size_t n, int64_t from = 0);

}  // namespace sardonyx::to_mil
