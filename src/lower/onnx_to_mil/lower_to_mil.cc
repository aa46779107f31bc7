#include "lower/onnx_to_mil/lower_to_mil.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "dialects/mil/ops.h"
#include "lower/onnx_to_mil/context.h"
#include "sardonyx/infer.h"

namespace sardonyx {
namespace {

constexpr int kOldest = 6, kNewest = 10;
// From this version on, the versions of all systems are the year.
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

}  // namespace

int coreml_version_of(std::string_view target) {
  struct System {
    std::string_view name;
    int first;  // the version in the year of iOS 15
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

CoremlImage coreml_image_of(std::string_view text) {
  const auto is_color = [](std::string_view part) {
    return part == "rgb" || part == "bgr" || part == "gray" || part == "gray16";
  };
  const auto fail = [&] {
    throw Error(
        ErrorCode::kInvalidArgument, fmt::format("'{}' describes no image", text),
        {"expected a name and colors (rgb, bgr, gray, gray16), for an input also a scale and a number to add for each channel: "
         "x:rgb, x:gray:0.0039 or x:bgr:0.0078125:-1,-1,-1"});
  };
  const auto numbers = [&](std::string_view list) {
    std::vector<double> found;
    for (size_t at = 0; at <= list.size();) {
      const size_t comma = std::min(list.find(',', at), list.size());
      const std::string one(list.substr(at, comma - at));
      char* end = nullptr;
      found.push_back(std::strtod(one.c_str(), &end));
      if (one.empty() || *end != '\0' || !std::isfinite(found.back())) fail();
      at = comma + 1;
    }
    return found;
  };
  std::vector<std::string_view> parts;  // from the end: names may have colons
  for (size_t end = text.size(); parts.size() < 3;) {
    const size_t colon = end == 0 ? std::string_view::npos : text.rfind(':', end - 1);
    if (colon == std::string_view::npos) break;
    parts.insert(parts.begin(), text.substr(colon + 1, end - colon - 1));
    end = colon;
    if (is_color(parts[0])) break;
  }
  if (parts.empty() || !is_color(parts[0])) fail();
  CoremlImage image{std::string(text.substr(0, static_cast<size_t>(parts[0].data() - text.data()) - 1)), std::string(parts[0])};
  if (image.port.empty()) fail();
  if (parts.size() > 1) {
    const std::vector<double> scale = numbers(parts[1]);
    if (scale.size() != 1) fail();
    image.scale = scale[0];
  }
  if (parts.size() > 2) image.bias = numbers(parts[2]);
  if (!image.bias.empty() && std::ssize(image.bias) != image.channels()) fail();
  return image;
}

CoremlFloat coreml_float_of(std::string_view text) {
  const size_t equals = text.rfind('=');
  const std::string_view type = equals == std::string_view::npos ? text : text.substr(equals + 1);
  if ((type != "fp16" && type != "fp32") || equals == 0)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' gives no element type", text),
                {"expected a name and fp16 or fp32, as x=fp16, or fp16 alone for all"});
  return {std::string(text.substr(0, equals == std::string_view::npos ? 0 : equals)),
          type == "fp16" ? DType::kF16 : DType::kF32};
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
  mil->compact();
  return mil;
}

}  // namespace sardonyx
