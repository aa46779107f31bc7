// Nodes that runtimes refuse, judged by operator, element types and shapes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/onnx/runtimes/runtimes.h"

namespace sardonyx::onnx {

// Optimized models must load in this release and later ones, if its opset allows.
inline constexpr std::string_view kOldestSupported = "ort-1.23";

// Like kernels(runtime, op), but includes functions that the runtime expands only in models of this opset.
std::vector<const Kernel*> kernels(const Runtime& runtime, const Op& op, int opset);

// Why a runtime cannot run a node, according to the table.
struct Refusal {
  std::string node;       // "Attention-23 of f32, f64"
  std::string_view asks;  // what its kernel requires beyond types; empty: no kernel takes these types

  std::string text() const;  // "Relu-14 of u64 has no kernel"
};
// Nullopt if the runtime runs the node, if unknown sizes decide, and for nodes outside the table: other
// domains, function calls, constants.
std::optional<Refusal> refusal(const Runtime& runtime, const Node& n);

// The opset of the node's model; the newest known one if the model imports none.
int opset_of(const Node& n);

// Whether every supported release that loads the model's opset can compute the operator when its first
// operand (of Where: the second) has type t.
bool has_kernel(const Model& m, std::string_view op, DType t);

}  // namespace sardonyx::onnx
