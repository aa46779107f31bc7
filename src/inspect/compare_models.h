// Checks whether two models compute the same, by evaluating both on seeded inputs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/values.h"
#include "sardonyx/ir.h"
#include "sardonyx/passes.h"

namespace sardonyx {

struct ModelComparison {
  size_t runs = 0;                        // evaluations compared
  std::optional<std::string> difference;  // the first difference, and the inputs that show it
  std::string skipped;                    // why nothing was compared
  double largest_error = 0;               // |before - after| over all floats
  std::string largest_at;                 // where it is; empty if no float changed
  // The runtime that loads the first model, according to its table of kernels, and why it does not load the
  // second one.
  std::string runtime;
  std::vector<std::string> load_problems;
};

// An ONNX model and a Core ML program are compared up to a thousandth of the largest element of each result, and up to a
// fiftieth where one computes in half precision.
// Pairs inputs by position; `after` may lack some of the inputs of `before`. Infers the types of both. Throws
// kInvalidArgument if the signatures do not match. `target` names the runtime that must load both; empty
// means the newest. `after` is not checked if that runtime is certain not to load `before`.
ModelComparison compare_models(Model& before, Model& after, Numerics numerics, std::string_view target = {},
                               const std::optional<Tolerance>& tolerance = std::nullopt);

// How far results in half precision may be off, as a share of the largest element. Rounding in deep networks stays below it.
inline constexpr double kHalfShare = 0.02;

// Whether a result of a node, other than a constant, is in half precision.
bool computes_in_half(const Model& m);

// The default class for comparing models of a dialect: the loosest one in its default preset.
Numerics usual_numerics(DialectId dialect);

}  // namespace sardonyx
