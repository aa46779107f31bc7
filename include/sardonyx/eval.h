// The reference evaluator: runs graphs of the onnx dialect on the CPU, exactly and in a fixed order.
//
// For constant folding (evaluate_node) and verification (evaluate), not a runtime. Results are the same bytes
// on every machine, because sums have a fixed order and transcendental functions of f32, f16 and bf16 are
// computed in f64 and rounded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sardonyx/ir.h"
#include "sardonyx/tensor.h"

namespace sardonyx {

// A tensor during evaluation: a strided view of shared storage. Views (broadcasts, transposes, slices) cost
// no copy. Each element occupies whole bytes, natively aligned: sub-byte types take a byte each (integers
// sign-extended, f4 as its code), strings are std::string objects, complex numbers are pairs.
class Array {
 public:
  Array() = default;
  // `data` points at the element with index 0,...,0. Strides are in elements.
  Array(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides, std::byte* data,
        std::shared_ptr<const void> owner);
  // Dense, row-major.
  Array(DType dtype, std::vector<int64_t> shape, std::byte* data, std::shared_ptr<const void> owner);

  // Refers to the tensor's bytes if they are aligned and dense; a splat becomes a broadcast view.
  static Array of(TensorPtr t);
  TensorPtr to_tensor() const;

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<int64_t>& strides() const { return strides_; }
  size_t rank() const { return shape_.size(); }
  // Throws kInvalidModel if there is no such axis, because operands may have any rank.
  int64_t dim(size_t axis) const {
    if (axis >= shape_.size()) no_axis(axis);
    return shape_[axis];
  }
  int64_t size() const { return size_; }
  bool is_dense() const;  // row-major without gaps
  bool is_splat() const;  // one element, seen as several

  const std::byte* data() const { return data_; }
  // For kernels, which fill new arrays before sharing them.
  std::byte* mutable_data() { return data_; }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // Another view of the same storage, `offset` elements further.
  Array view(std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset = 0) const;
  // NumPy's broadcasting; throws kInvalidModel if the shapes do not fit.
  Array broadcast_to(std::span<const int64_t> shape) const;
  Array transposed(std::span<const int64_t> perm) const;
  // The same elements in order; requires a dense array.
  Array reshaped(std::vector<int64_t> shape) const;

  // The element at a row-major index, converted.
  int64_t int_at(int64_t i) const;
  double double_at(int64_t i) const;
  const std::string& string_at(int64_t i) const;

 private:
  [[noreturn]] void no_axis(size_t axis) const;
  int64_t place(int64_t i) const;  // the element's offset in storage
  DType dtype_ = DType::kUndefined;
  std::vector<int64_t> shape_, strides_;
  int64_t size_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

// Bytes per element in an Array.
size_t element_bytes(DType t);

class EvalValue;
struct EvalSequence {
  std::shared_ptr<const std::vector<EvalValue>> items;
};
struct EvalOptional {
  std::shared_ptr<const EvalValue> value;  // null: empty
};
struct EvalMap;
// A state of a Core ML program. All holders see writes to it.
struct EvalState {
  Array content;
};

// The run-time content of a value: nothing (an absent operand), a tensor, a sequence, an optional, a map or a
// state.
class EvalValue {
 public:
  EvalValue() = default;
  EvalValue(Array a) : value_(std::move(a)) {}
  EvalValue(const TensorPtr& t) : value_(Array::of(t)) {}
  EvalValue(EvalSequence s) : value_(std::move(s)) {}
  EvalValue(EvalOptional o) : value_(std::move(o)) {}
  EvalValue(std::shared_ptr<const EvalMap> m) : value_(std::move(m)) {}
  EvalValue(std::shared_ptr<EvalState> s) : value_(std::move(s)) {}
  static EvalValue sequence(std::vector<EvalValue> items) {
    return EvalSequence{std::make_shared<const std::vector<EvalValue>>(std::move(items))};
  }

  bool absent() const { return std::holds_alternative<std::monostate>(value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  Array* array() { return std::get_if<Array>(&value_); }
  const std::vector<EvalValue>* items() const {  // of a sequence
    const auto* s = std::get_if<EvalSequence>(&value_);
    return s ? s->items.get() : nullptr;
  }
  EvalSequence* sequence() { return std::get_if<EvalSequence>(&value_); }
  const EvalOptional* optional() const { return std::get_if<EvalOptional>(&value_); }
  const EvalMap* map() const {
    const auto* m = std::get_if<std::shared_ptr<const EvalMap>>(&value_);
    return m ? m->get() : nullptr;
  }
  EvalState* state() const {
    const auto* s = std::get_if<std::shared_ptr<EvalState>>(&value_);
    return s ? s->get() : nullptr;
  }

 private:
  std::variant<std::monostate, Array, EvalSequence, EvalOptional, std::shared_ptr<const EvalMap>, std::shared_ptr<EvalState>>
      value_;
};

// Keys are i64 or strings; entries in the order in which they were given.
struct EvalMap {
  DType key = DType::kI64;
  std::vector<std::pair<std::variant<int64_t, std::string>, EvalValue>> entries;
};

// "f32[2,3]", "sequence of 3", "optional (empty)", ...
std::string describe(const EvalValue& v);

struct EvalOptions {
  uint64_t seed = 0;                     // for random operators without their own seed
  uint64_t memory_cap = 8ull << 30;      // bytes of tensors alive at once, inputs and constants not counted
  uint64_t max_steps = 1000ull << 20;    // nodes run; nodes in loop bodies count once per iteration
  uint64_t max_iterations = 1ull << 30;  // of all loops together
  int max_depth = 1000;                  // of nested bodies and function calls
  // Computes f32 and f64 products with Eigen: faster, but the last bits depend on the machine.
  bool fast_products = false;
  // Append the final content of the states to the results, in the order of the inputs.
  bool states_too = false;
};

// Runs a graph. `inputs` are by position; absent ones take the input's default value. A state is given as its
// initial tensor (absent: zeros), which is not modified. Results are freed after their last use. Throws
// Error: kUnsupported (an operator without a kernel), kInvalidModel and kInvalidArgument (operands that an
// operator cannot take), kLimit (memory, steps, iterations, depth).
std::vector<EvalValue> evaluate(const Graph& graph, std::span<const EvalValue> inputs, const EvalOptions& options = {});
std::vector<EvalValue> evaluate(const Function& function, std::span<const EvalValue> inputs, const EvalOptions& options = {});

// Throws kInvalidArgument for the first input that the graph's signature does not allow: absent without a
// default (unless it is a state), or of another kind, element type, rank or size. Sizes with the same name
// must be equal.
void check_inputs(const Graph& graph, std::span<const EvalValue> inputs);

// Fills absent inputs without a default with random values of their declared types (states start with zeros).
// Floats are normally distributed, integers small and not negative. Named sizes are taken from the given
// inputs; other open sizes become `open_size`.
void fill_inputs(const Graph& graph, std::vector<EvalValue>& inputs, uint64_t seed, int64_t open_size = 2);

// Whether there is a kernel for this version of the operator.
bool can_evaluate(const Op& op);

// Evaluates one node, for folding; a null operand is absent. Returns nullopt if there is no kernel, if the
// node is random, has bodies that capture values or calls a function, if it fails, or if it needs more than
// `memory_cap` bytes. Behavior that the standard leaves undefined (integer division by zero, casts out of
// range) counts as failure.
std::optional<std::vector<TensorPtr>> evaluate_node(const Node& node, std::span<const TensorPtr> inputs, uint64_t memory_cap);

}  // namespace sardonyx
