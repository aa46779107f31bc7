// From the jax dialect to the onnx dialect: the context of a lowering, and the loop that runs lowerings.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/lowering.h"
#include "sardonyx/onnx_builder.h"

namespace sardonyx {

namespace jax_to_onnx {
class Context;
class Lowering;
}  // namespace jax_to_onnx

// Primitive -> lowering.
class LoweringRegistry : public lower::Table<jax_to_onnx::Lowering> {
 public:
  using Table::Table;
  static const LoweringRegistry& builtin();
};
using LowerFn = LoweringRegistry::Fn;

namespace jax_to_onnx {

// The equation being lowered, its operands (already lowered), and the builder. Operands and results of the
// jax dialect have shapes of Dims (including symbols) in the *target* model's tables.
class Lowering : public lower::LoweringOf<Context, OnnxBuilder> {
 public:
  Lowering(Context& context, const Node& eqn, OnnxBuilder& builder);
  // On other operands than the equation's.
  Lowering(Context& context, const Node& eqn, OnnxBuilder& builder, std::vector<Value*> operands);

  // --- operands and results
  size_t num_inputs() const { return operands_.size(); }
  Value* in(size_t i) const;  // the lowered value of operand i
  // All operands, in order. Their shapes broadcast to those of their jax types. Refuses complex operands.
  std::vector<Value*> operands() const;
  // The value of all elements of operand i, seen through broadcasts of the program.
  std::optional<double> splat_value(size_t i) const;
  DType in_dtype(size_t i) const { return in_type(i)->dtype(); }
  std::span<const Dim> in_dims(size_t i) const { return in_type(i)->dims(); }
  size_t in_rank(size_t i) const { return in_type(i)->rank(); }
  const Type* in_type(size_t i) const;  // of the jax operand (shape always ranked), in the target model's tables
  const Type* out_type(size_t i = 0) const;
  // Whether every user of result i broadcasts it against another operand of full shape. Then the lowering may
  // return a value that only broadcasts to the equation's shape, without an Expand.
  bool may_stay_narrow(size_t i = 0) const;
  // The same, as the graph stores it: a complex value has a last axis of 2, a PRNG key is an i64.
  const Type* stored_in_type(size_t i) const;
  const Type* stored_out_type(size_t i = 0) const;
  DType out_dtype(size_t i = 0) const { return out_type(i)->dtype(); }
  std::span<const Dim> out_dims(size_t i = 0) const { return out_type(i)->dims(); }

  // --- parameters of the equation, by JAX's names. If one is missing or of another kind: an Error that names
  // primitive and parameter.
  int64_t int_param(std::string_view name) const;
  bool bool_param(std::string_view name, std::optional<bool> otherwise = {}) const;
  double float_param(std::string_view name) const;
  std::string string_param(std::string_view name) const;         // strings and enums (by name)
  std::vector<int64_t> ints_param(std::string_view name) const;  // a tuple of integers, possibly empty
  std::vector<Dim> dims_param(std::string_view name) const;  // a tuple of integers and symbolic dims, in the target's tables
  Dim dim_param(std::string_view name) const;                // an integer or a symbolic dim
  const Attr& param(std::string_view name) const;            // of any kind
  const Attr* find_param(std::string_view name) const;       // null if absent or None

  // --- sizes at run time. Integer dims are constants; symbolic sizes are computed once per graph from the
  // inputs that define them (Shape -> Gather -> arithmetic) and shared.
  Value* dim(Dim d);                        // i64[]
  Value* shape(std::span<const Dim> dims);  // i64[n]
  Value* dim_as(Dim d, DType dtype);        // cast to dtype, rank 0

  // --- helpers. Each returns its operand if there is nothing to do.
  Value* cast(Value* x, DType to);  // JAX's convert_element_type, also where ONNX's Cast differs
  Value* reshape(Value* x,
                 std::span<const Dim> dims);  // one Reshape, with 0 and -1 if they suffice, else with a computed shape
  Value* reshape_like(Value* x, const Type* t) { return reshape(x, t->dims()); }
  Value* expand(Value* x, std::span<const Dim> dims);  // broadcasting rules of Expand
  Value* transpose(Value* x, std::span<const int64_t> perm);
  Value* squeeze(Value* x, std::span<const int64_t> axes);
  Value* unsqueeze(Value* x, std::span<const int64_t> axes);
  Value* slice(Value* x, int64_t axis, Dim start, Dim stop, int64_t step = 1);
  Value* concat(std::span<Value* const> xs, int64_t axis);
  Value* iota(DType dtype, Dim size);                             // dtype[size]
  Value* full(DType dtype, std::span<const Dim> dims, double v);  // static: a lazy splat constant; symbolic: Expand of a scalar
  Value* zeros(DType dtype, std::span<const Dim> dims) { return full(dtype, dims, 0); }

  // --- operators in element types that have kernels (see lower/jax_to_onnx/kernels.h)
  // Applies `op` to operands of one element type, computed in the narrowest type with a kernel that holds all
  // of their values. Results of that type are cast back; bools and indices are not.
  Value* via(std::string_view op, std::span<Value* const> xs, AttrInit attrs = {});
  Value* via(std::string_view op, std::initializer_list<Value*> xs, AttrInit attrs = {}) {
    return via(op, std::span<Value* const>(xs.begin(), xs.size()), std::move(attrs));
  }
  // Casts x to a type in which all of `ops` have kernels, applies `formula`, and casts back: a small float is
  // rounded once, at the end. With `widen_f16`, f16 also goes to f32, because formulas of several steps lose
  // too much in f16.
  Value* via(std::initializer_list<std::string_view> ops, Value* x, const std::function<Value*(Value*)>& formula,
             bool widen_f16 = true);
  // Where for any element type: logic for bools, casts for types without kernels.
  Value* select(Value* condition, Value* if_true, Value* if_false);

  // Lowers a nested jaxpr inline: `args` are its inputs; returns its results.
  std::vector<Value*> inline_body(const Graph& body, std::span<Value* const> args);
  // Lowers a nested jaxpr into a new ONNX graph for If/Loop/Scan. `fill` adds inputs and outputs, using the
  // Lowering of the new graph and its builder. Outer values are captured directly.
  Graph& make_body(std::string_view name, const std::function<void(Lowering& inside)>& fill);

  // The same equation on other operands, with the element type of the parts wherever its own types are
  // complex: for lowerings of real values, when the equation treats real and imaginary parts alike.
  Lowering on_parts(std::vector<Value*> operands) const;

 private:
  const Type* part(const Type* t) const;

  std::vector<Value*> operands_;
  bool on_parts_ = false;
};

}  // namespace jax_to_onnx

struct LowerOptions {
  int opset = 23;
  std::string target;  // a runtime that must run the model, such as "ort-1.17"; empty: the newest one known
  std::string model_name = "jax_model";
  std::vector<std::string> input_names, output_names;  // empty: names of the jax graph's ports, else in_0.., out_0..
  enum class Provenance { kOff, kLine, kFull } provenance = Provenance::kLine;
};

// Lowers the main function of a jax model to a new onnx model. Payloads are shared, not copied. Throws one
// Error(kUnsupported) that lists all unsupported equations: primitive, types, count, source line.
std::unique_ptr<Model> lower_to_onnx(const Model& jax, const LowerOptions& options = {},
                                     const LoweringRegistry& registry = LoweringRegistry::builtin());
// The same into an empty model of the onnx dialect; discard that model if this throws.
void lower_to_onnx(const Model& jax, Model& onnx, const LowerOptions& options, const LoweringRegistry& registry);

}  // namespace sardonyx
