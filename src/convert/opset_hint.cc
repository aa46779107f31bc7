#include "convert/opset_hint.h"

#include <algorithm>
#include <set>

#include "convert/optimize.h"
#include "sardonyx/inspect.h"

namespace sardonyx {
namespace {

constexpr int kNewest = 23;  // all supported releases of onnxruntime load it

std::unique_ptr<Model> optimized(const Model& original, const PassRequest& request, int opset) {
  auto copy = clone_model(original);
  PassRequest quiet = request;
  quiet.verify = Verify::kOff;
  quiet.observer = nullptr;
  run_passes(*copy, conversion_to(*copy, opset));
  run_passes(*copy, quiet);
  return copy;
}

}  // namespace

std::optional<OpsetHint> opset_hint(const Model& original, const PassRequest& request, size_t nodes) {
  const auto opset = original.opset_version("");
  if (original.dialect() != DialectId::kOnnx || !opset || *opset >= kNewest || *opset < 7) return std::nullopt;
  const Dialect& onnx = dialect(DialectId::kOnnx);
  try {
    OpsetHint hint{.opset = static_cast<int>(*opset), .nodes = 0, .operators = {}};
    const ModelCounts counts = count_model(*optimized(original, request, kNewest));
    if (counts.nodes >= nodes) return std::nullopt;
    hint.nodes = counts.nodes;
    for (const auto& [name, count] : counts.ops) {
      if (name.find('.') != std::string::npos || onnx.find("", name, static_cast<int>(*opset)) != nullptr) continue;
      int since = static_cast<int>(*opset);
      while (since < kNewest && onnx.find("", name, since) == nullptr) ++since;
      hint.opset = std::max(hint.opset, since);
      hint.operators.push_back(name);
    }
    if (hint.operators.empty()) hint.opset = kNewest;
    if (hint.opset < kNewest && count_model(*optimized(original, request, hint.opset)).nodes > hint.nodes) hint.opset = kNewest;
    return hint;
  } catch (const Error&) {
    return std::nullopt;  // the model cannot be raised
  }
}

}  // namespace sardonyx
