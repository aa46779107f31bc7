#include "io/mil_features.h"

#include <fmt/format.h>

#include <utility>

#include "io/wire.h"
#include "ir/file_record.h"

namespace sardonyx {
namespace {

using wire::kBytes;
using wire::kVarint;
using wire::Reader;
using wire::tag;

// Numbers of fields in FeatureTypes.proto.
std::string image_of(std::string_view wire) {
  uint64_t width = 0, height = 0, color = 0;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.tag() == tag(1, kVarint)) {
      width = r.varint();
    } else if (r.tag() == tag(2, kVarint)) {
      height = r.varint();
    } else if (r.tag() == tag(3, kVarint)) {
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
    if (r.tag() == tag(1, kVarint)) {
      range.least = static_cast<int64_t>(r.varint());
    } else if (r.tag() == tag(2, kVarint)) {
      if (const auto most = static_cast<int64_t>(r.varint()); most >= 0) range.most = most;
    } else {
      r.skip();
    }
  }
  return range;
}

// Calls f for each message in field `number`.
template <class F>
void each(std::string_view wire, uint32_t number, const F& f) {
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.tag() == tag(number, kBytes)) {
      f(r.bytes());
    } else {
      r.skip();
    }
  }
}

CoremlFeature feature_of(std::string_view wire) {
  CoremlFeature feature;
  each(wire, 1, [&](std::string_view name) { feature.name = name; });
  each(wire, 3, [&](std::string_view type) {
    each(type, 4, [&](std::string_view image) { feature.image = image_of(image); });
    each(type, 5, [&](std::string_view array) {
      each(array, 31, [&](std::string_view shape) {
        each(shape, 1, [&](std::string_view range) { feature.sizes.push_back(range_of(range)); });
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
    each(m.file_record().model.description, 1, [&](std::string_view input) { all.push_back(feature_of(input)); });
  } catch (const Error&) {
    all.clear();
  }
  return all;
}

}  // namespace sardonyx
