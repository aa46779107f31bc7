// From the jax dialect to the onnx dialect: the context of a lowering, and the loop that runs lowerings.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"
#include "sardonyx/onnx_builder.h"

namespace sardonyx {

class Lowering;
class LoweringContext;

// Lowers one equation; returns exactly its results, in order (one value: return it). The core checks result
// count, shapes and dtypes against the equation, and names the results.
using LowerFn = std::function<std::vector<Value*>(Lowering&)>;

// Primitive name -> lowering. The built-in table is constant; a conversion may add or override entries (user
// plugins).
class LoweringRegistry {
 public:
  static const LoweringRegistry& builtin();
  LoweringRegistry() = default;
  explicit LoweringRegistry(const LoweringRegistry* base) : base_(base) {}
  void add(std::string_view primitive, LowerFn fn, std::string_view origin = "builtin");
  const LowerFn* find(std::string_view primitive) const;
  std::string_view origin(std::string_view primitive) const;
  std::vector<std::string> primitives() const;

 private:
  struct Entry {
    LowerFn fn;
    std::string origin;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  const LoweringRegistry* base_ = nullptr;
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
};

// The equation being lowered, its operands (already lowered), and the builder. Operands and results of the
// jax dialect have shapes of Dims (including symbols) in the *target* model's tables.
class Lowering {
 public:
  Lowering(LoweringContext& context, const Node& eqn, OnnxBuilder& builder, std::vector<Value*> operands);

  OnnxBuilder& b;
  const Node& eqn;  // the jax node

  // --- operands and results
  size_t num_inputs() const { return operands_.size(); }
  Value* in(size_t i) const;  // the lowered value of operand i
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

  // Lowers a nested jaxpr inline: `args` are its inputs; returns its results.
  std::vector<Value*> inline_body(const Graph& body, std::span<Value* const> args);
  // Lowers a nested jaxpr into a new ONNX graph for If/Loop/Scan. `fill` adds inputs and outputs, using the
  // Lowering of the new graph and its builder. Outer values are captured directly.
  Graph& make_body(std::string_view name, const std::function<void(Lowering& inside)>& fill);

  // Refuses the equation; the error reports it with all other unsupported equations of the program.
  [[noreturn]] void unsupported(std::string why) const;

  // The same equation on other operands, with the element type of the parts wherever its own types are
  // complex: for lowerings of real values, when the equation treats real and imaginary parts alike.
  Lowering on_parts(std::vector<Value*> operands) const;

  LoweringContext& context() const { return context_; }

 private:
  const Type* part(const Type* t) const;

  LoweringContext& context_;
  std::vector<Value*> operands_;
  bool on_parts_ = false;
};

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

// One kind of equation that lower_to_onnx() refused; a line of its error.
struct UnsupportedEquation {
  std::string primitive;
  std::string types;   // "f32[B,3], i32[] -> f32[B,3]"
  std::string reason;  // empty: the primitive has no lowering
  std::string source;  // "model.py:41 (loss)"
  size_t count = 1;
};

}  // namespace sardonyx
