// What runtimes refuse: nodes, by their operators, element types and shapes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/onnx/runtimes.h"

namespace sardonyx::onnx {

// The oldest release that models must load in after they were optimized, as long as its opset allows.
inline constexpr std::string_view kOldestSupported = "ort-1.23";

// As kernels(runtime, op), with the functions that the runtime expands in models of this opset only.
std::vector<const Kernel*> kernels(const Runtime& runtime, const Op& op, int opset);

// What the table says against running a node.
struct Refusal {
  std::string node;       // "Attention-23 of f32, f64"
  std::string_view asks;  // what its kernel asks for beyond types; empty: no kernel takes these types

  std::string text() const;  // "Relu-14 of u64 has no kernel"
};
// Nullopt where the runtime runs the node, where sizes that are not known decide, and for what the table does not know:
// other domains, calls of functions, constants.
std::optional<Refusal> refusal(const Runtime& runtime, const Node& n);

// The opset of the node's model; the newest that is known if it imports none.
int opset_of(const Node& n);

// Whether every supported release that loads the model's opset computes the operator in t, the type of its first operand.
bool has_kernel(const Model& m, std::string_view op, DType t);

}  // namespace sardonyx::onnx
