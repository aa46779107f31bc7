// What the parts of convert_opset share: convert_opset.cc walks the model and raises it, the others lower it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/onnx/convert/widen.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// One conversion of a model. The respellings see the version that it goes to, and refuse what they cannot express.
class OpsetConversion {
 public:
  OpsetConversion(PassContext& context, int to) : context_(context), to_(to) {}

  int to() const { return to_; }
  PassContext& context() const { return context_; }
  const std::vector<std::string>& problems() const { return problems_; }

  // Notes why `n` has no equivalent in the other version. Returns no results.
  std::vector<Value*> refuse(const Node& n, std::string_view why);

 private:
  PassContext& context_;
  int to_;
  std::vector<std::string> problems_;
};

// Makes the values that replace the results of `n`, before it; null for a result without users. Returns none after refusing.
using Respell = std::vector<Value*> (*)(Rewriter& b, Node& n, OpsetConversion& c);

// Nodes of a version before `version` become `to` of that version or later (up), or the other way round.
struct RespellingStep {
  std::string_view op;
  int version;
  bool up;
  Respell respell;
};

// The operators that lowering spells otherwise, for each operator the oldest version first.
std::span<const RespellingStep> steps_down();
// Those that the older opset does not have at all (convert_opset_absent.cc).
std::span<const RespellingStep> steps_of_absent();

// Before opset 11 axes are counted from the front. Rewrites those of the node, where the rank is known.
void count_axes_from_front(Node& n);

// GridSample's modes have other names from opset 20 on.
std::vector<Value*> grid_sample(Rewriter& b, Node& n, OpsetConversion& c);

}  // namespace sardonyx::onnx
