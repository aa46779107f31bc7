// Kernels of MIL ops. Operands are found by slot name, and kernels can call those of ONNX operators.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "eval/kernel.h"

namespace sardonyx::eval {

// One application of a MIL op. Parameters that are not given take the op's defaults.
class Mil {
 public:
  explicit Mil(Call& call) : c(call) {}
  Call& c;

  bool has(std::string_view slot) const;
  const Array& in(std::string_view slot) const;  // throws when it is not given
  std::vector<Array> list(std::string_view slot) const;
  int64_t integer(std::string_view slot, int64_t otherwise = 0) const;
  bool flag(std::string_view slot, bool otherwise = false) const { return integer(slot, otherwise ? 1 : 0) != 0; }
  double number(std::string_view slot, double otherwise = 0) const;
  std::string text(std::string_view slot, std::string_view otherwise = {}) const;  // lowercased
  std::vector<int64_t> ints(std::string_view slot, std::vector<int64_t> otherwise = {}) const;
  DType dtype(std::string_view slot) const;  // the dtype that this string names

  // Applies the newest version of an ONNX operator. An Array without a dtype is an absent operand.
  std::vector<Array> onnx_all(std::string_view op, std::vector<Array> operands, AttrInit attrs = {}, size_t results = 1) const;
  Array onnx(std::string_view op, std::vector<Array> operands, AttrInit attrs = {}) const {
    return onnx_all(op, std::move(operands), std::move(attrs))[0];
  }
  Array cast(const Array& a, DType to) const;
  Array i64s(std::span<const int64_t> v) const { return c.of_ints(v); }
  Array i64s(std::initializer_list<int64_t> v) const { return c.of_ints(std::span(v.begin(), v.size())); }
  // A scalar of x's dtype.
  Array like(const Array& x, double v) const { return c.full(x.dtype(), {}, v); }
  // x viewed as another shape with the same number of elements.
  Array reshape(const Array& x, std::vector<int64_t> shape) const { return c.reshaped(x, std::move(shape)); }
  void set(Array a, size_t i = 0) const { c.set(i, EvalValue(std::move(a))); }

 private:
  size_t find(std::string_view slot) const;
  const AttrSpec* default_of(std::string_view slot) const;
};

// The kernel for a MIL op, or null.
Kernel find_mil_kernel(const Op& op);

namespace mil_kernels {
#define SX_MIL_KERNEL(name) void name(Mil m);
#define SX_MIL_SAME(name, onnx)
#include "eval/mil/mil_kernels.def"
#undef SX_MIL_KERNEL
#undef SX_MIL_SAME
}  // namespace mil_kernels

}  // namespace sardonyx::eval
