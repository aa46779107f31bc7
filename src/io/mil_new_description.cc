#include "io/mil_new_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "io/mil_parts.h"
#include "ir/file_record.h"

namespace sardonyx {
namespace {

using namespace mil_file;
using wire::append_field;
using wire::append_varint;
using wire::kVarint;
using wire::tag;

void append_number(std::string& out, uint32_t field, uint64_t v) {
  append_varint(out, tag(field, kVarint));
  append_varint(out, v);
}

void append_numbers(std::string& out, uint32_t field, const std::vector<int64_t>& list) {
  std::string packed;
  for (int64_t v : list) append_varint(packed, static_cast<uint64_t>(v));
  if (!list.empty()) append_field(out, field, packed);
}

struct Range {
  int64_t low = 1, high = -1;  // -1: no bound
};

Range range_of(const Dims& dims, Dim d) {
  if (d.is_int()) return {d.value(), d.value()};
  const DimRange r = dims.range(d);
  const int64_t low = std::max<int64_t>(r.min.value_or(1), 1);
  return {low, r.max ? std::max(*r.max, low) : -1};
}

// With each named size at the low end of its range.
int64_t default_size(Dims& dims, Dim d) {
  const Dim got = dims.substitute(d, [&](std::string_view name) -> std::optional<Dim> {
    return Dim::of(std::max<int64_t>(dims.symbol_range(name).min.value_or(1), 1));
  });
  return got.is_int() ? std::max<int64_t>(got.value(), 1) : 1;
}

// ArrayFeatureType
std::string array(Model& m, const Type* t, bool is_input) {
  std::string out;
  std::vector<int64_t> shape;
  bool open = false;
  for (Dim d : t->dims()) {
    open |= !d.is_int();
    shape.push_back(d.is_int() ? d.value() : default_size(m.dims(), d));
  }
  if (is_input || !open) append_numbers(out, 1, shape);
  append_number(out, 2, array_number(t->dtype()));
  if (!is_input || !open) return out;
  std::string ranges;
  for (Dim d : t->dims()) {
    const Range r = range_of(m.dims(), d);
    std::string one;
    append_number(one, 1, static_cast<uint64_t>(r.low));
    append_number(one, 2, static_cast<uint64_t>(r.high));
    append_field(ranges, 1, one);
  }
  append_field(out, 31, ranges);
  return out;
}

std::string feature(Model& m, std::string_view name, const Type* t, bool is_input) {
  const bool state = t != nullptr && t->kind() == TypeKind::kState;
  const Type* held = state ? t->element() : t;
  if (held == nullptr || !held->is_tensor() || !held->ranked() || array_number(held->dtype()) == 0) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, and inputs and results of Core ML models are arrays of f32, f16 and i32", name,
                            m.types().to_string(t)));
  }
  std::string type, out;
  if (state) {
    std::string kept;
    append_field(kept, 1, array(m, held, true));
    append_field(type, 8, kept);
  } else {
    append_field(type, 5, array(m, held, is_input));
  }
  append_field(out, 1, name);
  append_field(out, 3, type);
  return out;
}

// FeatureDescription of an image: [1, channels, height, width]
std::string image_feature(std::string_view name, const Type* t, std::string_view color) {
  std::string image, type, out;
  append_number(image, 1, static_cast<uint64_t>(t->dim(3).value()));
  append_number(image, 2, static_cast<uint64_t>(t->dim(2).value()));
  append_number(image, 3, color == "gray" ? 10 : color == "rgb" ? 20 : 30);
  append_field(type, 4, image);
  append_field(out, 1, name);
  append_field(out, 3, type);
  return out;
}

std::string encoded(const CoremlMetadata& metadata) {
  std::string out;
  const auto text = [&](uint32_t field, const std::string& value) {
    if (!value.empty()) append_field(out, field, value);
  };
  text(1, metadata.description);
  text(2, metadata.version);
  text(3, metadata.author);
  text(4, metadata.license);
  for (const auto& [key, value] : metadata.user_defined) {
    std::string entry;
    append_field(entry, 1, key);
    append_field(entry, 2, value);
    append_field(out, 100, entry);
  }
  return out;
}

}  // namespace

void describe_coreml(Model& model, const CoremlMetadata& metadata, const CoremlColors& images) {
  const Graph& g = model.graph();
  std::string out, states;
  for (const Port& p : g.inputs()) {
    const bool state = p.value->type() != nullptr && p.value->type()->kind() == TypeKind::kState;
    const auto image = std::ranges::find(images, p.name.view(), [](const auto& i) { return std::string_view(i.first); });
    const std::string one = image != images.end() ? image_feature(p.name.view(), p.value->type(), image->second)
                                                  : feature(model, p.name.view(), p.value->type(), true);
    append_field(state ? states : out, state ? 13 : 1, one);
  }
  for (size_t i = 0; i < g.outputs().size(); ++i)
    append_field(out, 10, feature(model, g.outputs()[i].name.view(), g.output(i)->type(), false));
  out += states;
  append_field(out, 100, encoded(metadata));
  auto kept = std::make_shared<const std::string>(std::move(out));
  model.keep_alive(kept);
  model.edit_file_record().model.description = *kept;
}

}  // namespace sardonyx
