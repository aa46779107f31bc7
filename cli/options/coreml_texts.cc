#include "cli/options/coreml_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/options/shape_texts.h"
#include "convert/to_coreml.h"

namespace sardonyx::cli {
namespace {

// The shapes of an input that is named several times are those that it takes.
void add_shapes(const std::vector<std::string>& texts, ToCoremlOptions& to) {
  const auto name_of = [](const std::string& text) { return text.substr(0, text.find_first_of(":=")); };
  for (const std::string& text : texts) {
    const auto same = [&](const std::string& other) { return name_of(other) == name_of(text); };
    if (std::ranges::count_if(texts, same) > 1) {
      add_enumerated_shape(to.enumerated_shapes, text);
    } else {
      to.input_shapes.push_back(input_shape_of(text));
    }
  }
}

// "labels.txt", "labels.txt:LABEL" or "labels.txt:LABEL:RESULT".
CoremlClassifier classifier_of(const std::string& text) {
  CoremlClassifier made;
  std::string path = text;
  std::vector<std::string> names;
  std::error_code none;
  while (names.size() < 2 && !std::filesystem::exists(path, none) && path.rfind(':') != std::string::npos) {
    names.insert(names.begin(), path.substr(path.rfind(':') + 1));
    path.resize(path.rfind(':'));
  }
  made.texts = read_class_labels(path);
  if (!names.empty() && !names[0].empty()) made.label = names[0];
  if (names.size() > 1) made.probabilities = names[1];
  return made;
}

CoremlMetadata metadata_of(const Given& given) {
  CoremlMetadata made;
  for (const std::string& text : given.list("metadata")) {
    const auto [key, value] = at_equals(text, "metadata as key=value");
    std::string* known = key == "author"        ? &made.author
                         : key == "license"     ? &made.license
                         : key == "version"     ? &made.version
                         : key == "description" ? &made.description
                                                : nullptr;
    if (known != nullptr) {
      *known = value;
    } else {
      made.user_defined.emplace_back(key, value);
    }
  }
  return made;
}

// "x:rgb", "x:bgr:0.0078125" or "x:rgb:0.0078125:-1,-1,-1"
CoremlImage image_of(std::string_view text) {
  const auto fail = [&] { refuse_image(text); };
  const auto numbers = [&](std::string_view list) {
    std::vector<double> found;
    for (std::string_view part : split(list, ',')) {
      const std::string one(part);
      char* end = nullptr;
      found.push_back(std::strtod(one.c_str(), &end));
      if (one.empty() || *end != '\0' || !std::isfinite(found.back())) fail();
    }
    return found;
  };
  std::vector<std::string_view> parts;  // from the end: names may have colons
  for (size_t end = text.size(); parts.size() < 3;) {
    const size_t colon = end == 0 ? std::string_view::npos : text.rfind(':', end - 1);
    if (colon == std::string_view::npos) break;
    parts.insert(parts.begin(), text.substr(colon + 1, end - colon - 1));
    end = colon;
    if (coreml_color_of(parts[0])) break;
  }
  const auto color = parts.empty() ? std::nullopt : coreml_color_of(parts[0]);
  if (!color) fail();
  CoremlImage image{std::string(text.substr(0, static_cast<size_t>(parts[0].data() - text.data()) - 1)), *color};
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

// "x=f16" or "f32"
CoremlFloat float_of(std::string_view text) {
  const size_t equals = text.rfind('=');
  const std::string_view type = equals == std::string_view::npos ? text : text.substr(equals + 1);
  const bool is_half = type == "f16" || type == "fp16", is_single = type == "f32" || type == "fp32";
  if ((!is_half && !is_single) || equals == 0)
    refuse(fmt::format("'{}' gives no element type", text), {"expected a name and f16 or f32, as x=f16, or f16 alone for all"});
  return {std::string(text.substr(0, equals == std::string_view::npos ? 0 : equals)), is_half ? DType::kF16 : DType::kF32};
}

// --- As JSON for Python

ordered_json json_of(const std::vector<CoremlImage>& images) {
  ordered_json all = ordered_json::object();
  for (const CoremlImage& i : images) all[i.port] = {{"color", to_string(i.color)}, {"scale", i.scale}, {"bias", i.bias}};
  return all;
}

ordered_json json_of(const std::vector<CoremlFloat>& types) {
  ordered_json all = ordered_json::object();
  for (const CoremlFloat& t : types) all[t.port] = to_string(t.type);
  return all;
}

ordered_json json_of(const std::optional<CoremlClassifier>& c) {
  if (!c) return nullptr;
  ordered_json all{{"labels", c->texts}, {"name", c->label}};
  if (!c->probabilities.empty()) all["probabilities"] = c->probabilities;
  return all;
}

ordered_json json_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  ordered_json all = ordered_json::object();
  for (const auto& [name, value] : pairs) all[name] = value;
  return all;
}

ordered_json json_of(const std::vector<CoremlState>& states) {
  ordered_json all = ordered_json::object();
  for (const CoremlState& s : states) all[s.input] = s.result;
  return all;
}

ordered_json json_of(const std::vector<DefaultSize>& sizes) {
  ordered_json all = ordered_json::object();
  for (const DefaultSize& s : sizes) all[s.name] = s.size;
  return all;
}

// Runs are given for models alone.
ordered_json json_of(const std::vector<NamedTensors>&) { return nullptr; }
// A function's inputs have their shapes and bounds from --input; see coreml_keywords().
ordered_json json_of(const std::vector<InputShape>&) { return nullptr; }
ordered_json json_of(const std::vector<SizeBounds>&) { return nullptr; }

ordered_json json_of(const std::vector<EnumeratedShapes>& inputs) {
  ordered_json all = ordered_json::object();
  for (const EnumeratedShapes& e : inputs) all[e.input] = e.shapes;
  return all;
}

ordered_json json_of(const CoremlMetadata& m) {
  ordered_json all = json_of(m.user_defined);
  for (const auto& [key, value] :
       {std::pair("author", &m.author), {"license", &m.license}, {"version", &m.version}, {"description", &m.description}}) {
    if (!value->empty()) all[key] = *value;
  }
  return all;
}

ordered_json json_of(CoremlPrecision precision) {
  if (precision == CoremlPrecision::kI8)
    refuse("--precision int8 for Core ML is for models",
           {"help: sardonyx.to_coreml(function, inputs, precision=\"int8\", calibration=[...])"});
  return precision == CoremlPrecision::kF16 ? "f16" : "f32";
}
ordered_json json_of(bool flag) { return flag; }
ordered_json json_of(const std::string& text) { return text; }
ordered_json json_of(const std::vector<std::string>& list) { return list; }

}  // namespace

CoremlPrecision coreml_precision(const Given& given) {
  const std::string precision = given.text("precision", "f16");
  if (precision == "f64") refuse("models compute in f16 or f32, not in f64");
  return precision == "f16" ? CoremlPrecision::kF16 : precision == "f32" ? CoremlPrecision::kF32 : CoremlPrecision::kI8;
}

ToCoremlOptions coreml_options(const Given& given) {
  ToCoremlOptions how;
  how.precision = coreml_precision(given);
  how.target = given.text("target", how.target);
  how.skip = given.list("skip");
  how.pass_options = pass_options(given);
  if (given.has("keep-f32")) how.pass_options.emplace_back("add_fp16_cast.skip_ops", given.text("keep-f32"));
  if (given.has("passes")) {
    const std::string passes = given.text("passes");
    how.passes.clear();
    for (std::string_view pass : split(passes, ',')) how.passes.emplace_back(pass);
  }
  const char* narrow = given.has("weights") ? "weights" : how.precision == CoremlPrecision::kI8 ? "precision" : nullptr;
  if (narrow != nullptr && given.text("verify", "off") != "off")
    refuse(
        fmt::format("--verify compares the package with the model, and --{} makes them differ", narrow),
        {fmt::format("help: convert without --{0}, then: sardonyx optimize in.mlpackage -o out.mlpackage --{0} ...", narrow)});
  if (given.has("weights")) {
    how.passes.emplace_back("compress_weights");
    how.pass_options.emplace_back("compress_weights.type", given.text("weights"));
  }
  for (const std::string& s : given.list("state")) {
    auto [input, result] = at_equals(s, "a state as input=result");
    how.states.push_back({std::move(input), std::move(result)});
  }
  for (const std::string& s : given.list("size")) {
    if (is_default_size(s)) {
      how.default_sizes.push_back(default_size_of(s));
    } else {
      how.sizes.push_back(size_bounds_of(s));
    }
  }
  add_shapes(given.list("input-shape"), how);
  for (const std::string& t : given.list("image-input")) how.image_inputs.push_back(image_of(t));
  for (const std::string& t : given.list("image-output")) how.image_outputs.push_back(image_of(t));
  for (const std::string& t : given.list("input-type")) how.input_types.push_back(float_of(t));
  for (const std::string& t : given.list("output-type")) how.output_types.push_back(float_of(t));
  if (given.has("class-labels")) how.classifier = classifier_of(given.text("class-labels"));
  how.metadata = metadata_of(given);
  how.provenance = given.text("provenance") != "off";
  return how;
}

ordered_json coreml_keywords(const Given& given) {
  const ToCoremlOptions how = coreml_options(given);
  if (!how.input_shapes.empty() || !how.sizes.empty())
    refuse("--input gives the shapes of a function's inputs, and the bounds of their sizes",
           {"help: -i \"x:T <= 512,3\"; several --input-shape of one input are those that it takes"});
  ordered_json all = ordered_json::object();
  const auto add = [&](const char* keyword, ordered_json value) {
    if (!value.empty()) all[keyword] = std::move(value);  // null, or an empty list
  };
#define SX_OPTION(field, keyword, ...) add(#keyword, json_of(how.field));
#define SX_KEYWORD(...)
#include "convert/coreml_options.def"
#undef SX_KEYWORD
#undef SX_OPTION
  add("debug_dump", given.has("debug-dump") ? ordered_json(given.text("debug-dump")) : ordered_json());
  return all;
}

}  // namespace sardonyx::cli
