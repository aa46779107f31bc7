// What runtimes can run: operators, versions and element types of onnxruntime's CPU provider, release by release.
//
// The facts are in runtime_kernels.gen.inc, which tools/gen_runtime_kernels.py writes from the releases themselves. Operators that a release
// computes by expanding a function, or by converting f16, count as computed.
#pragma once

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
  int opset = 0;          // the newest of the default domain that it loads
  int ir_version = 0;     // likewise
  int number = 0;         // in the order of runtimes()
};

// Oldest first.
std::span<const Runtime> runtimes();
const Runtime& newest_runtime();
// "ort-1.17", also with a patch level or spelled "onnxruntime-1.17". Throws an Error that names the nearest ones.
const Runtime& runtime_named(std::string_view name);

// The element types that one kernel takes, by the type variables of the operator. Variables that are not listed take what the operator takes.
struct Kernel {
  std::string_view types;  // "T: f32 f64; I: i64"

  // As bits 1 << DType; all bits when the variable is not listed.
  uint64_t of(std::string_view variable) const;
};

// The kernels that a runtime has for this version of an operator of the default domain; empty: it cannot run it.
std::vector<const Kernel*> kernels(const Runtime& runtime, const Op& op);

// What kernels ask beyond operator and element types: ranks, sizes, attributes (runtimes_conditions.cc).
enum class Fit { kYes, kUnknown, kNo };  // kUnknown: sizes that are not known decide
struct KernelFit {
  Fit fit = Fit::kYes;
  std::string_view asks;  // unless kYes: what the kernel asks for
};
KernelFit kernel_fit(const Runtime& runtime, const Node& n);
// Whether every release from 1.23 on takes the node, for certain, and by a kernel of its own: the standard's expansion into many
// operators, or a conversion of f16, is slower than what a fusion finds. What a fusion may write.
bool pays_when_fused(const Node& n);
// The part of it that needs no node: an operator of this version, computing in t.
bool has_own_kernel(const Op& op, DType t);

// The element types that the version of the operator takes for the variable, as bits 1 << DType; all bits for those it does not list.
uint64_t types_in_standard(const Op& op, std::string_view variable);

// Types that hold every value of t, narrowest first, t included. Floats never widen to f64, since exports without double precision hold
// none. i64 stands for u64 where only the low bits matter: see is_modular().
std::span<const DType> holders(DType t);
// What passes/onnx/convert/legalize.cc composes of other operators where a runtime has no kernel: comparisons and quotients of u64, cosines
// and Euclidean norms of f64.
bool is_composed(std::string_view op, DType t);
// Whether the result modulo 2^bits depends on the operands modulo 2^bits only.
bool is_modular(std::string_view op);

}  // namespace sardonyx::onnx
