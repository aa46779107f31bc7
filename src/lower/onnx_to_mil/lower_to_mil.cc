#include "lower/onnx_to_mil/lower_to_mil.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "dialects/mil/ops.h"
#include "ir/graph/arrange.h"
#include "lower/onnx_to_mil/context.h"
#include "sardonyx/infer.h"

namespace sardonyx {
namespace {

constexpr int kOldest = 6, kNewest = 10;
// From this version on, Apple numbers all systems by year.
constexpr int kNamedByYear = 10, kYear = 26;

// Erases nodes that no result needs and that change no state. Recursion is over nesting only.
void sweep(Graph& g) {
  for (Node* n = g.last(); n != nullptr; n = n->prev()) {
    if (!n->any_result_used() && n->bodies().empty() && !n->is("coreml_update_state")) {
      g.erase(*n);
      continue;
    }
    for (const Body& b : n->bodies()) sweep(*b.graph);
  }
  g.erase_unused_constants();
}

using Color = std::pair<std::string_view, CoremlColor>;
constexpr Color kColors[] = {
    {"gray", CoremlColor::kGray}, {"rgb", CoremlColor::kRgb}, {"bgr", CoremlColor::kBgr}, {"gray16", CoremlColor::kGray16}};

}  // namespace

std::string_view to_string(CoremlColor c) { return std::ranges::find(kColors, c, &Color::second)->first; }

std::optional<CoremlColor> coreml_color_of(std::string_view name) {
  const auto at = std::ranges::find(kColors, name, &Color::first);
  return at == std::end(kColors) ? std::nullopt : std::optional(at->second);
}

int coreml_version_of(std::string_view target) {
  struct System {
    std::string_view name;
    int first;  // the version released with iOS 15
  };
  constexpr System kSystems[] = {{"iOS", 15}, {"macOS", 12}, {"watchOS", 8}, {"tvOS", 15}};
  for (const System& s : kSystems) {
    for (int v = kOldest; v <= kNewest; ++v) {
      if (target == fmt::format("{}{}", s.name, v < kNamedByYear ? s.first + v - kOldest : v - kNamedByYear + kYear)) return v;
    }
  }
  throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a deployment target", target),
              {"expected iOS15, iOS16, iOS17, iOS18 or iOS26, or a system of the same years: macOS12 to macOS15, watchOS8 to "
               "watchOS11, "
               "tvOS15 to tvOS18, and 26 of each"});
}

std::string coreml_target_name(int version) {
  return fmt::format("iOS{}", version < kNamedByYear ? version - kOldest + 15 : version - kNamedByYear + kYear);
}

std::unique_ptr<Model> lower_to_mil(Model& onnx, const LowerToMilOptions& options) {
  SX_CHECK(onnx.dialect() == DialectId::kOnnx, "only a graph of the onnx dialect can be lowered to Core ML");
  ValueFacts facts;
  infer_model(onnx, facts, /*tolerant=*/false);
  auto mil = std::make_unique<Model>(DialectId::kMil);
  mil->specification_version = options.version;
  if (options.version != mil::kNewestVersion) mil->set_opset_version("", options.version);
  mil->keep_alive_like(onnx);
  onnx_to_mil::Context context(onnx, facts, *mil, options);
  context.run();
  sweep(mil->graph());
  arrange(*mil, context.batches());
  arrange_constants(*mil, 0);
  mil->compact();
  return mil;
}

}  // namespace sardonyx
