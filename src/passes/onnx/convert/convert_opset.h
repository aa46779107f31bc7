// Shared by the parts of convert_opset: convert_opset.cc walks the model and raises it, the others lower it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/onnx/convert/widen.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// One conversion of a model. Respelling functions read the target version from it and report what they cannot
// express.
class OpsetConversion {
 public:
  OpsetConversion(PassContext& context, int to) : context_(context), to_(to) {}

  int to() const { return to_; }
  PassContext& context() const { return context_; }
  const std::vector<std::string>& problems() const { return problems_; }

  // Records why `n` has no equivalent in the other version. Returns no results.
  std::vector<Value*> refuse(const Node& n, std::string_view why);

 private:
  PassContext& context_;
  int to_;
  std::vector<std::string> problems_;
};

// Builds the values that replace the results of `n`, before it; null for a result without users. Returns an
// empty list after refusing.
using Respell = std::vector<Value*> (*)(Rewriter& b, Node& n, OpsetConversion& c);

// Applies to nodes of a version before `version` when the target is `version` or later (up), or the other way
// round.
struct RespellingStep {
  std::string_view op;
  int version;
  bool up;
  Respell respell;
};

// The operators that change when lowering. For each operator, the oldest version comes first.
std::span<const RespellingStep> steps_down();
// The operators that the older opset lacks entirely (convert_opset_absent.cc).
std::span<const RespellingStep> steps_of_absent();

// Makes the axes of `n` nonnegative where the rank is known: before opset 11, axes count from the front.
void count_axes_from_front(Node& n);

// Opset 20 renamed the modes of GridSample.
std::vector<Value*> grid_sample(Rewriter& b, Node& n, OpsetConversion& c);

}  // namespace sardonyx::onnx
