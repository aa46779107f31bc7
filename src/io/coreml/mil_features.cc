#include "io/coreml/mil_features.h"

#include <fmt/format.h>

#include <utility>

#include "io/coreml/fields_coreml.h"
#include "ir/graph/file_record.h"

namespace sardonyx {
namespace {

using spec::ArrayFeatureType;
using spec::FeatureDescription;
using spec::FeatureType;
using spec::ImageFeatureType;
using spec::ModelDescription;
using spec::SizeRange;
using wire::Reader;

std::string image_of(std::string_view wire) {
  uint64_t width = 0, height = 0, color = 0;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() == ImageFeatureType::kWidth) {
      width = r.varint();
    } else if (r.field() == ImageFeatureType::kHeight) {
      height = r.varint();
    } else if (r.field() == ImageFeatureType::kColorSpace) {
      color = r.varint();
    } else {
      r.skip();
    }
  }
  const char* colors = color == 10   ? "grayscale"
                       : color == 20 ? "RGB"
                       : color == 30 ? "BGR"
                       : color == 40 ? "grayscale f16"
                                     : "";
  return fmt::format("{}{}image, {} x {} (width x height)", colors, *colors == 0 ? "" : " ", width, height);
}

CoremlFeature::Range range_of(std::string_view wire) {
  CoremlFeature::Range range;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() == SizeRange::kLowerBound) {
      range.least = static_cast<int64_t>(r.varint());
    } else if (r.field() == SizeRange::kUpperBound) {
      if (const auto most = static_cast<int64_t>(r.varint()); most >= 0) range.most = most;
    } else {
      r.skip();
    }
  }
  return range;
}

// Calls f for each message in the field.
template <class F>
void each(std::string_view wire, wire::Field field, const F& f) {
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() == field) {
      f(r.bytes());
    } else {
      r.skip();
    }
  }
}

CoremlFeature feature_of(std::string_view wire) {
  CoremlFeature feature;
  each(wire, FeatureDescription::kName, [&](std::string_view name) { feature.name = name; });
  each(wire, FeatureDescription::kType, [&](std::string_view type) {
    each(type, FeatureType::kImageType, [&](std::string_view image) { feature.image = image_of(image); });
    each(type, FeatureType::kMultiArrayType, [&](std::string_view array) {
      each(array, ArrayFeatureType::kShapeRange, [&](std::string_view shape) {
        each(shape, ArrayFeatureType::ShapeRange::kSizeRanges,
             [&](std::string_view range) { feature.sizes.push_back(range_of(range)); });
      });
    });
  });
  return feature;
}

}  // namespace

std::vector<CoremlFeature> coreml_inputs(const Model& m) {
  std::vector<CoremlFeature> all;
  if (m.dialect() != DialectId::kMil) return all;
  try {
    each(m.file_record().model.description, ModelDescription::kInput,
         [&](std::string_view input) { all.push_back(feature_of(input)); });
  } catch (const Error&) {
    all.clear();
  }
  return all;
}

}  // namespace sardonyx
