// What a lowering from ONNX to Core ML's MIL sees: one node, its operands already lowered, and a builder to write with.
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

// How MIL holds an element type: all integers as i32, f64 and bf16 as f32; f16, f32, bool and strings as they are. kUndefined: not
// at all.
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
  std::vector<Value*> ins();                                                                      // all that are there
  DType in_dtype(size_t i) const { return has(i) ? node.input(i)->dtype() : DType::kUndefined; }  // as ONNX has it
  DType out_dtype(size_t i = 0) const { return node.result(i)->dtype(); }                         // as ONNX has it
  // Types in the tables of the MIL model, with the stored element type. Their rank is known: else the node is refused.
  const Type* in_type(size_t i);
  const Type* out_type(size_t i = 0);
  std::span<const Dim> in_dims(size_t i) { return in_type(i)->dims(); }
  std::span<const Dim> out_dims(size_t i = 0) { return out_type(i)->dims(); }
  size_t rank(size_t i) { return in_type(i)->rank(); }
  // A type of the ONNX model; null: nothing known, or no tensor that MIL could hold.
  const Type* imported(const Type* onnx);
  bool is_used(size_t i) const { return i < node.num_results() && node.result(i)->has_uses(); }

  // --- operands that are known ahead of run time
  TensorPtr constant(size_t i) const;  // as ONNX has it; null when it is absent or computed
  // The attribute of that name, which older opsets have in place of the operand, else the operand; nullopt: absent or computed.
  std::optional<std::vector<int64_t>> ints(size_t i, std::string_view attr = {}) const;
  std::optional<double> number(size_t i) const;  // the one that all elements are
  // The same for what Core ML wants as a constant: refuses the node otherwise. `what` names it: "the axes".
  std::vector<int64_t> need_ints(size_t i, std::string_view attr, std::string_view what) const;
  // Whether no element is negative, as far as inference knows: sizes, indices that were counted.
  bool is_never_negative(size_t i) const;

  // --- attributes
  int64_t int_attr(std::string_view name, int64_t otherwise) const { return node.attr_int(name, otherwise); }
  double float_attr(std::string_view name, double otherwise) const { return node.attr_float(name, otherwise); }
  std::string string_attr(std::string_view name, std::string_view otherwise) const { return node.attr_string(name, otherwise); }
  std::vector<int64_t> ints_attr(std::string_view name, size_t count, int64_t otherwise) const;

  // --- the target
  int version() const { return b.version(); }  // 8 is iOS 17
  // Whether the op may have that element type as its first data operand in this target.
  bool takes(std::string_view op, DType d) const;

  // --- sizes at run time: constants where they are known, else read from operands that have them.
  Value* size(Dim d);                           // i32[1]
  Value* sizes(std::span<const Dim> dims);      // i32[n]
  Value* size_of(Value* x, size_t axis);        // i32[1]
  Value* shape_of(Value* x);                    // i32[n]
  Value* join(std::span<Value* const> pieces);  // i32[1], i32[2], ... one behind the other

  // --- what most lowerings need. Each returns its operand when there is nothing to do. x is a MIL value.
  Value* cast(Value* x, DType to);  // to a type of MIL
  Value* reshape(Value* x, std::span<const Dim> dims);
  Value* squeeze(Value* x, std::span<const int64_t> axes);
  Value* unsqueeze(Value* x, std::span<const int64_t> axes);  // places in the result
  Value* transpose(Value* x, std::span<const int64_t> perm);
  Value* expand(Value* x, std::span<const Dim> dims);       // broadcasting rules of Expand
  Value* like(Value* x, double v);                          // a constant of x's element type, rank 0
  Value* select(Value* condition, Value* a, Value* other);  // with broadcasting among all three
  // f(x), in an element type that `op` takes: a bool goes through i32 (or f16) and back.
  Value* moved(std::string_view op, Value* x, const std::function<Value*(Value*)>& f);

  // --- bodies
  // The nodes of a body, written with the builder of a block. Its inputs must be bound.
  std::vector<Value*> lower_body(const Graph& body, std::span<Value* const> inputs, MilBuilder& block);

  // Refuses the node; the core collects it with all others.
  [[noreturn]] void unsupported(std::string why) const;
  // The same for what a later target can: "needs iOS17".
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
// As MIL's parameters are written.
inline int64_t as_int(size_t i) { return static_cast<int64_t>(i); }
std::vector<int64_t> iota(size_t n, int64_t from = 0);

}  // namespace sardonyx::to_mil
