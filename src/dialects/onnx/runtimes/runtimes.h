// What runtimes can run: the operators, versions and element types of onnxruntime's CPU provider, by release.
//
// The facts are in runtime_kernels.gen.inc, which scripts/tables/gen_runtime_kernels.py extracts from the
// releases. Operators that a release computes by expanding a function, or by converting f16, count as
// supported.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/ir.h"
#include "sardonyx/op.h"

namespace sardonyx::onnx {

struct Runtime {
  std::string_view name;  // "ort-1.17"
  int opset = 0;          // the newest version of the default domain that it loads
  int ir_version = 0;     // the newest that it loads
  int number = 0;         // its index in runtimes()
};

// Oldest first.
std::span<const Runtime> runtimes();
const Runtime& newest_runtime();
// Accepts "ort-1.17", also with a patch level or spelled "onnxruntime-1.17". Throws an Error that names the
// nearest ones.
const Runtime& runtime_named(std::string_view name);

// The element types that a kernel takes, by the operator's type variables. Variables not listed take what the
// operator takes.
struct Kernel {
  struct Variable {
    std::string_view name;
    uint64_t types = 0;  // as bits 1 << DType
  };
  std::array<Variable, 4> variables;  // those without a name come last

  // As bits 1 << DType; all bits if the variable is not listed.
  uint64_t of(std::string_view variable) const;
};

// The kernels of a runtime for this version of an operator of the default domain; empty if it has none.
std::vector<const Kernel*> kernels(const Runtime& runtime, const Op& op);

// Whether a node meets the requirements of a kernel beyond operator and element types: ranks, sizes,
// attributes (runtimes_conditions.cc).
enum class Fit { kYes, kUnknown, kNo };  // kUnknown: unknown sizes decide
struct KernelFit {
  Fit fit = Fit::kYes;
  std::string_view asks;  // unless kYes: what the kernel requires
};
KernelFit kernel_fit(const Runtime& runtime, const Node& n);
// Whether a fusion may make this node: every release from 1.23 on certainly runs it with its own kernel.
// Expanding the standard's function into many operators, or converting f16, is slower than the unfused nodes.
bool pays_when_fused(const Node& n);
// The part of pays_when_fused() that needs no node: an operator of this version computing in t.
bool has_own_kernel(const Op& op, DType t);

// The element types that this version of the operator allows for the variable, as bits 1 << DType; all bits
// if it is not listed.
uint64_t types_in_standard(const Op& op, std::string_view variable);

// Types that hold every value of t, narrowest first, t included. Floats never widen to f64, because exports
// without double precision must not contain any. i64 holds u64 where only the low bits matter: see
// is_modular().
std::span<const DType> holders(DType t);
// Whether passes/onnx/convert/legalize.cc can compute the operator with other operators where a runtime has
// no kernel: comparisons and quotients of u64, cosines and Euclidean norms of f64.
bool is_composed(std::string_view op, DType t);
// Whether the result modulo 2^bits depends only on the operands modulo 2^bits.
bool is_modular(std::string_view op);

}  // namespace sardonyx::onnx
