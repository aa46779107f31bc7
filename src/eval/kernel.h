// What a kernel sees: one application of an operator, with its operands and attributes, and functions that
// make results.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/elements.h"
#include "sardonyx/error.h"
#include "sardonyx/eval.h"

namespace sardonyx::eval {

// Counts the bytes of the tensors that one evaluation holds. Storage keeps its account alive.
class Account {
 public:
  explicit Account(uint64_t cap) : cap_(cap) {}
  void take(uint64_t bytes);  // throws kLimit before anything is allocated
  void give_back(uint64_t bytes) { used_ -= bytes; }
  // Throws kLimit if n elements of that many bytes could not be taken now.
  void check(int64_t n, size_t bytes_each);

 private:
  uint64_t cap_;
  std::atomic<uint64_t> used_ = 0;
};

// State shared by all nodes of one evaluation.
struct Run {
  EvalOptions options;
  std::shared_ptr<Account> account;
  uint64_t steps = 0;
  uint64_t iterations = 0;
  int depth = 0;
  uint64_t random_nodes = 0;  // random operators that ran so far; each draws from its own stream
  // When folding constants, behavior that the standard leaves undefined is an error.
  bool folding = false;

  explicit Run(const EvalOptions& o) : options(o), account(std::make_shared<Account>(o.memory_cap)) {}
  // A dense, uninitialized array (strings are empty).
  Array make(DType dtype, std::vector<int64_t> shape);
};

// The call that a function's body runs for. References to attributes in the body resolve to the attributes of
// the call.
struct CallSite {
  const Node* call = nullptr;
  const Function* callee = nullptr;
  const CallSite* outer = nullptr;
};

// Runs body i of the node with these inputs.
using BodyRunner = std::function<std::vector<EvalValue>(size_t body, std::vector<EvalValue> inputs)>;

class Call {
 public:
  Call(const Node& n, std::span<EvalValue> operands, Run& shared, const CallSite* site = nullptr,
       const BodyRunner* bodies = nullptr)
      : node(n), run(shared), results(n.num_results()), inputs_(operands), site_(site), bodies_(bodies) {}

  const Node& node;
  Run& run;
  std::vector<EvalValue> results;

  int version() const { return node.op().since_version; }

  // --- operands
  size_t num_inputs() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && !inputs_[i].absent(); }
  const EvalValue& value(size_t i) const;
  EvalValue take(size_t i);         // moves the operand out, so that storage nobody else holds can be reused
  const Array& in(size_t i) const;  // a tensor; throws kInvalidModel otherwise
  Array dense(size_t i) { return dense(in(i)); }
  const std::vector<EvalValue>& sequence(size_t i) const;
  // All elements, converted. Throws kLimit when they do not fit into memory, as with a view that repeats a
  // few elements.
  std::vector<int64_t> ints(size_t i) const { return load_all<int64_t>(fitting(i)); }
  std::vector<double> doubles(size_t i) const { return load_all<double>(fitting(i)); }
  int64_t int_scalar(size_t i) const;
  double scalar(size_t i) const;
  DType dtype(size_t i = 0) const { return in(i).dtype(); }

  // --- attributes: the node's own, else the operator's default. A reference in a function's body resolves to
  // the call's attribute.
  const Attr* attr(std::string_view name) const;
  std::optional<int64_t> maybe_int(std::string_view name) const;
  int64_t int_attr(std::string_view name, int64_t otherwise) const { return maybe_int(name).value_or(otherwise); }
  int64_t int_attr(std::string_view name) const;  // required
  std::optional<double> maybe_float(std::string_view name) const;
  // The attribute is stored as f32: 0.2 reads as 0.20000000298.
  double float_attr(std::string_view name, double otherwise) const { return maybe_float(name).value_or(otherwise); }
  std::string string_attr(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<int64_t>> ints_attr(std::string_view name) const;
  std::optional<std::vector<double>> floats_attr(std::string_view name) const;
  std::optional<std::vector<std::string>> strings_attr(std::string_view name) const;
  TensorPtr tensor_attr(std::string_view name) const;  // null when absent
  // Counts an axis attribute or operand from the front. Throws when it is out of range.
  size_t axis(int64_t a, size_t rank) const;
  std::vector<size_t> axes(std::span<const int64_t> list, size_t rank) const;  // throws when an axis repeats

  // --- results
  Array make(DType dtype, std::vector<int64_t> shape) { return run.make(dtype, std::move(shape)); }
  Array dense(const Array& a);  // a, or a dense copy of it
  Array reshaped(const Array& a, std::vector<int64_t> shape) { return dense(a).reshaped(std::move(shape)); }
  Array full(DType dtype, std::vector<int64_t> shape, double v);  // one element in memory, viewed as many
  template <class T>
  Array of(DType dtype, std::vector<int64_t> shape, std::span<const T> values) {
    Array out = make(dtype, std::move(shape));
    store<T>(out, 0, static_cast<int64_t>(values.size()), values.data());
    return out;
  }
  Array of_ints(std::span<const int64_t> v) { return of<int64_t>(DType::kI64, {static_cast<int64_t>(v.size())}, v); }
  bool wants(size_t i) const { return i < results.size(); }
  void set(size_t i, EvalValue v) {
    if (i < results.size()) results[i] = std::move(v);
  }

  // --- bodies
  size_t body(std::string_view name) const;  // the body's index; throws when the node has no such body
  std::vector<EvalValue> run_body(size_t i, std::vector<EvalValue> inputs) const { return (*bodies_)(i, std::move(inputs)); }
  void count_iteration() const;

  [[noreturn]] void fail(std::string message, std::vector<std::string> notes = {}) const;
  [[noreturn]] void unsupported(std::string message) const;
  void require(bool condition, std::string_view message) const {
    if (!condition) fail(std::string(message));
  }

 private:
  const Array& fitting(size_t i) const;
  std::span<EvalValue> inputs_;
  const CallSite* site_;
  const BodyRunner* bodies_;
};

using Kernel = void (*)(Call&);

// Concatenates arrays of one dtype along `axis`. Their shapes must agree on all other axes.
Array joined(Call& c, std::span<const Array> parts, size_t axis);

// The kernel for an operator, or null.
Kernel find_kernel(const Op& op);

// Calls the kernel. Errors name the node that failed.
std::vector<EvalValue> apply(Kernel kernel, Call& call);

// Kernels are named after their operators.
namespace kernels {
#define SX_KERNEL(name) void name(Call& c);
#include "eval/onnx/kernels.def"
#undef SX_KERNEL
// Of the domain com.microsoft.
void MatMulNBits(Call& c);
void GatherBlockQuantized(Call& c);
}  // namespace kernels

}  // namespace sardonyx::eval
