#include "io/coreml/mil_new_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "dialects/mil/interface_names.h"
#include "io/coreml/fields_coreml.h"
#include "io/coreml/mil_parts.h"
#include "ir/graph/file_record.h"

namespace sardonyx {
namespace {

using namespace mil_file;
using spec::ArrayFeatureType;
using spec::DictionaryFeatureType;
using spec::FeatureDescription;
using spec::FeatureType;
using spec::FunctionDescription;
using spec::ImageFeatureType;
using spec::ModelDescription;
using wire::append_bytes;
using wire::append_number;
using wire::append_varint;
using wire::Field;

void append_numbers(std::string& out, Field field, const std::vector<int64_t>& list) {
  std::string packed;
  for (int64_t v : list) append_varint(packed, static_cast<uint64_t>(v));
  if (!list.empty()) append_bytes(out, field, packed);
}

struct Range {
  int64_t low = 1, high = 1;
};

// Core ML does not load ML programs that have ranges without an upper bound.
Range range_of(Dims& dims, Dim d) {
  if (d.is_int()) return {d.value(), d.value()};
  const DimRange r = dims.range(d);
  const int64_t low = std::max<int64_t>(r.min.value_or(1), 1);
  if (r.max) return {low, std::max(*r.max, low)};
  const Dim largest = dims.substitute(d, [&](std::string_view name) -> std::optional<Dim> {
    const DimRange of_name = dims.symbol_range(name);
    return Dim::of(of_name.max.value_or(std::max(kAssumedUpperBound, 2 * of_name.min.value_or(1))));
  });
  return {low, std::max(largest.is_int() ? largest.value() : kAssumedUpperBound, low)};
}

// A size with each symbol at its default, or else at the low end of its range.
int64_t default_size(Dims& dims, Dim d, const CoremlFeatures& features) {
  const Dim got = dims.substitute(d, [&](std::string_view name) -> std::optional<Dim> {
    if (const auto at = features.default_sizes.find(name); at != features.default_sizes.end()) return Dim::of(at->second);
    return Dim::of(std::max<int64_t>(dims.symbol_range(name).min.value_or(1), 1));
  });
  return got.is_int() ? std::max<int64_t>(got.value(), 1) : 1;
}

// A size with the symbols at the values of one of the enumerated shapes.
int64_t size_in(Dims& dims, Dim d, const std::map<std::string, int64_t, std::less<>>& sizes) {
  const Dim got = dims.substitute(d, [&](std::string_view name) -> std::optional<Dim> {
    const auto at = sizes.find(name);
    return at == sizes.end() ? std::nullopt : std::optional(Dim::of(at->second));
  });
  SX_CHECK(got.is_int(), "a size of an input does not follow from its enumerated shapes");
  return got.value();
}

std::string message_of(Range r) {
  std::string one;
  append_number(one, spec::SizeRange::kLowerBound, static_cast<uint64_t>(r.low));
  append_number(one, spec::SizeRange::kUpperBound, static_cast<uint64_t>(r.high));
  return one;
}

std::string range_message(Dims& dims, Dim d) { return message_of(range_of(dims, d)); }

bool is_open(const Type* t) {
  return std::ranges::any_of(t->dims(), [](Dim d) { return !d.is_int(); });
}

// The shapes of a type with open sizes: those that are enumerated, or the default one.
std::vector<std::vector<int64_t>> shapes_of(Model& m, const Type* t, const CoremlFeatures& features) {
  std::vector<std::vector<int64_t>> shapes(features.shapes.empty() || !is_open(t) ? 1 : features.shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (Dim d : t->dims()) {
      const bool listed = !d.is_int() && !features.shapes.empty();
      shapes[i].push_back(d.is_int() ? d.value()
                          : listed   ? size_in(m.dims(), d, features.shapes[i])
                                     : default_size(m.dims(), d, features));
    }
  }
  return shapes;
}

// ArrayFeatureType
std::string array(Model& m, const Type* t, bool is_input, const CoremlFeatures& features) {
  std::string out;
  const bool open = is_open(t);
  const auto shapes = is_input || !open ? shapes_of(m, t, features) : std::vector<std::vector<int64_t>>();
  if (!shapes.empty()) append_numbers(out, ArrayFeatureType::kShape, shapes[0]);
  append_number(out, ArrayFeatureType::kDataType, array_number(t->dtype()));
  if (!is_input || !open) return out;
  std::string flexible;
  if (shapes.size() > 1) {
    for (const std::vector<int64_t>& shape : shapes) {
      std::string one;
      append_numbers(one, ArrayFeatureType::Shape::kShape, shape);
      append_bytes(flexible, ArrayFeatureType::EnumeratedShapes::kShapes, one);
    }
  } else {
    for (Dim d : t->dims()) append_bytes(flexible, ArrayFeatureType::ShapeRange::kSizeRanges, range_message(m.dims(), d));
  }
  append_bytes(out, shapes.size() > 1 ? ArrayFeatureType::kEnumeratedShapes : ArrayFeatureType::kShapeRange, flexible);
  return out;
}

// FeatureType of a classifier's result: a label, or the dictionary of all; empty for others.
std::string class_type(const Type* t) {
  std::string type, dictionary;
  if (t == nullptr) return type;
  const bool texts = t->dtype() == DType::kString;
  if (t->kind() == TypeKind::kMap) {
    append_bytes(dictionary, texts ? DictionaryFeatureType::kStringKeyType : DictionaryFeatureType::kInt64KeyType, "");
    append_bytes(type, FeatureType::kDictionaryType, dictionary);
  } else if (t->is_tensor() && (texts || t->dtype() == DType::kI64)) {
    append_bytes(type, texts ? FeatureType::kStringType : FeatureType::kInt64Type, "");
  }
  return type;
}

// FeatureDescription
std::string description_of(std::string_view name, const std::string& type) {
  std::string out;
  append_bytes(out, FeatureDescription::kName, name);
  append_bytes(out, FeatureDescription::kType, type);
  return out;
}

std::string feature(Model& m, std::string_view name, const Type* t, bool is_input, const CoremlFeatures& features) {
  const bool state = t != nullptr && t->kind() == TypeKind::kState;
  const Type* held = state ? t->element() : t;
  const bool of_classifier = !is_input && !features.label.empty() && (name == features.label || name == features.probabilities);
  std::string type = of_classifier ? class_type(t) : "";
  if (type.empty() && (held == nullptr || !held->is_tensor() || !held->ranked() || array_number(held->dtype()) == 0)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, and inputs and results of Core ML models are arrays of f32, f16 and i32", name,
                            m.types().to_string(t)));
  }
  if (type.empty() && state) {
    std::string kept;
    append_bytes(kept, spec::StateFeatureType::kArrayType, array(m, held, true, features));
    append_bytes(type, FeatureType::kStateType, kept);
  } else if (type.empty()) {
    append_bytes(type, FeatureType::kMultiArrayType, array(m, held, is_input, features));
  }
  return description_of(name, type);
}

// FeatureDescription of an image: [1, channels, height, width]. A result of open size is declared with any
// size, as by coremltools.
std::string image_feature(Model& m, std::string_view name, const Type* t, CoremlColor color, bool is_input,
                          const CoremlFeatures& features) {
  std::string image, type, flexible;
  const bool any = !is_input && is_open(t);
  const auto shapes = any ? std::vector<std::vector<int64_t>>() : shapes_of(m, t, features);
  if (!any) {
    append_number(image, ImageFeatureType::kWidth, static_cast<uint64_t>(shapes[0][3]));
    append_number(image, ImageFeatureType::kHeight, static_cast<uint64_t>(shapes[0][2]));
  }
  append_number(image, ImageFeatureType::kColorSpace, static_cast<uint64_t>(color));
  if (shapes.size() > 1) {
    for (const std::vector<int64_t>& shape : shapes) {
      std::string one;
      append_number(one, ImageFeatureType::ImageSize::kWidth, static_cast<uint64_t>(shape[3]));
      append_number(one, ImageFeatureType::ImageSize::kHeight, static_cast<uint64_t>(shape[2]));
      append_bytes(flexible, ImageFeatureType::EnumeratedImageSizes::kSizes, one);
    }
    append_bytes(image, ImageFeatureType::kEnumeratedSizes, flexible);
  } else if (is_open(t)) {
    const auto range = [&](int axis) { return any ? message_of({1, -1}) : range_message(m.dims(), t->dim(axis)); };
    append_bytes(flexible, ImageFeatureType::ImageSizeRange::kWidthRange, range(3));
    append_bytes(flexible, ImageFeatureType::ImageSizeRange::kHeightRange, range(2));
    append_bytes(image, ImageFeatureType::kImageSizeRange, flexible);
  }
  append_bytes(type, FeatureType::kImageType, image);
  return description_of(name, type);
}

std::string encoded(const CoremlMetadata& metadata) {
  std::string out;
  const auto text = [&](Field field, const std::string& value) {
    if (!value.empty()) append_bytes(out, field, value);
  };
  text(spec::Metadata::kShortDescription, metadata.description);
  text(spec::Metadata::kVersionString, metadata.version);
  text(spec::Metadata::kAuthor, metadata.author);
  text(spec::Metadata::kLicense, metadata.license);
  for (const auto& [key, value] : metadata.user_defined) {
    std::string entry;
    append_bytes(entry, wire::MapEntry::kKey, key);
    append_bytes(entry, wire::MapEntry::kValue, value);
    append_bytes(out, spec::Metadata::kUserDefined, entry);
  }
  return out;
}

void set_description(Model& model, std::string description) {
  auto kept = std::make_shared<const std::string>(std::move(description));
  model.keep_alive(kept);
  model.edit_file_record().model.description = *kept;
}

}  // namespace

void describe_coreml(Model& model, const CoremlMetadata& metadata, const CoremlFeatures& features) {
  const Graph& g = model.graph();
  std::string out, states;
  const auto described = [&](std::string_view name, const Type* t, bool is_input) {
    const auto& images = is_input ? features.image_inputs : features.image_outputs;
    const auto image = std::ranges::find(images, name, [](const auto& i) { return std::string_view(i.first); });
    return image != images.end() ? image_feature(model, name, t, image->second, is_input, features)
                                 : feature(model, name, t, is_input, features);
  };
  for (const Port& p : g.inputs()) {
    const bool state = p.value->type() != nullptr && p.value->type()->kind() == TypeKind::kState;
    append_bytes(state ? states : out, state ? ModelDescription::kState : ModelDescription::kInput,
                 described(p.name.view(), p.value->type(), true));
  }
  for (size_t i = 0; i < g.outputs().size(); ++i)
    append_bytes(out, ModelDescription::kOutput, described(g.outputs()[i].name.view(), g.output(i)->type(), false));
  if (!features.label.empty()) {
    append_bytes(out, ModelDescription::kPredictedFeatureName, features.label);
    append_bytes(out, ModelDescription::kPredictedProbabilitiesName, features.probabilities);
  }
  out += states;
  append_bytes(out, ModelDescription::kMetadata, encoded(metadata));
  set_description(model, std::move(out));
}

std::unique_ptr<Model> join_coreml(const std::vector<std::pair<std::string, const Model*>>& functions,
                                   const CoremlMetadata& metadata) {
  auto joined = std::make_unique<Model>(DialectId::kMil);
  std::string out;
  for (const auto& [name, model] : functions) {
    if (joined->find_function("", name) != nullptr)
      throw Error(ErrorCode::kInvalidArgument, fmt::format("two functions are called '{}'", name));
    if (!mil::is_interface_name(name))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a name for a function of a Core ML model", name),
                  {"expected letters, digits and _, no digit first, and no word of MIL"});
    if (joined->functions().empty()) {
      joined->specification_version = model->specification_version;
      if (const auto version = model->opset_version("")) joined->set_opset_version("", *version);
    }
    SX_CHECK(joined->specification_version == model->specification_version, "the functions are of two specification versions");
    joined->keep_alive_like(*model);
    Function& f = joined->add_function(name);
    f.mil_opset = model->main().mil_opset;
    clone_graph(model->graph(), f.graph());
    std::string content, rest;
    append_bytes(content, FunctionDescription::kName, name);
    content += as_function(model->file_record().model.description, rest);
    append_bytes(out, ModelDescription::kFunctions, content);
  }
  append_bytes(out, ModelDescription::kDefaultFunctionName, functions.front().first);
  append_bytes(out, ModelDescription::kMetadata, encoded(metadata));
  set_description(*joined, std::move(out));
  return joined;
}

}  // namespace sardonyx
