// The description of a model lists its features by name, beside the program. It is updated if a pass renamed
// an input or result of a function, changed a result's element type, or moved an input's channels to the
// front; everything else stays byte for byte.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "io/coreml/fields_coreml.h"
#include "io/coreml/mil_names.h"
#include "io/coreml/mil_parts.h"

namespace sardonyx::mil_file {

// ArrayFeatureType.ArrayDataType; 0 if there is none.
uint32_t array_number(DType t) {
  switch (t) {
    case DType::kF16: return 65552;
    case DType::kF32: return 65568;
    case DType::kF64: return 65600;
    case DType::kI32: return 131104;
    case DType::kI8: return 131080;
    default: return 0;
  }
}

namespace {

using spec::ArrayFeatureType;
using spec::FeatureDescription;
using spec::FeatureType;
using spec::FunctionDescription;
using spec::ModelDescription;
using spec::SizeRange;
using wire::append_bytes;
using wire::append_number;
using wire::append_varint;
using wire::Field;
using wire::packed;
using wire::Reader;

// The function's current input or result for a feature.
struct Feature {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<int64_t> shape;  // -1: unknown
};

struct Interface {
  std::vector<Feature> inputs, states, outputs;
};

Interface interface_of(const Function& f, const MilNames& names) {
  Interface out;
  const Graph& g = f.graph();
  for (const Port& p : g.inputs()) {
    const Type* t = p.value->type();
    const bool state = t != nullptr && t->kind() == TypeKind::kState;
    Feature one{std::string(names.of(*p.value)), p.value->dtype(), {}};
    if (p.value->ranked()) {
      for (Dim d : t->dims()) one.shape.push_back(d.is_int() ? d.value() : -1);
    }
    (state ? out.states : out.inputs).push_back(std::move(one));
  }
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    Feature one{std::string(names.output(g, i)), g.output(i)->dtype(), {}};
    if (g.output(i)->ranked()) {
      for (Dim d : g.output(i)->type()->dims()) one.shape.push_back(d.is_int() ? d.value() : -1);
    }
    out.outputs.push_back(std::move(one));
  }
  return out;
}

std::string_view name_of_feature(std::string_view wire) {
  std::string_view name;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() == FeatureDescription::kName) {
      name = r.bytes();
    } else {
      r.skip();
    }
  }
  return name;
}

// The FeatureType with this element type, if it is an array.
std::string with_dtype(std::string_view wire, DType dtype) {
  std::string out;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() != FeatureType::kMultiArrayType) {
      out += r.skip();
      continue;
    }
    std::string array;
    for (Reader a(r.bytes(), wire.data()); a.next();) {
      if (a.field() == ArrayFeatureType::kDataType) {
        const uint64_t old = a.varint();
        append_number(array, ArrayFeatureType::kDataType, array_number(dtype) != 0 ? array_number(dtype) : old);
      } else {
        array += a.skip();
      }
    }
    append_bytes(out, FeatureType::kMultiArrayType, array);
  }
  return out;
}

// Moves the last axis before the two in front of it.
template <class T>
void channels_first(std::vector<T>& axes) {
  if (axes.size() >= 3) std::rotate(axes.end() - 3, axes.end() - 1, axes.end());
}

// The sizes in an ArrayFeatureType, or in one of the shapes that it allows.
static_assert(ArrayFeatureType::kShape == ArrayFeatureType::Shape::kShape);
std::vector<int64_t> sizes_of(std::string_view wire) {
  std::vector<int64_t> out;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() == ArrayFeatureType::kShape || r.field() == packed(ArrayFeatureType::kShape)) {
      r.int64s(out);
    } else {
      r.skip();
    }
  }
  return out;
}

// The same with these sizes.
std::string with_sizes(std::string_view wire, const std::vector<int64_t>& sizes) {
  std::string list, out;
  for (int64_t size : sizes) append_varint(list, static_cast<uint64_t>(size));
  append_bytes(out, ArrayFeatureType::kShape, list);
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() == ArrayFeatureType::kShape || r.field() == packed(ArrayFeatureType::kShape)) {
      r.skip();
    } else {
      out += r.skip();
    }
  }
  return out;
}

// The nested field for one shape, or for the range of one axis, in such a field of an ArrayFeatureType.
Field one_of(Field shapes) {
  return shapes == ArrayFeatureType::kEnumeratedShapes ? ArrayFeatureType::EnumeratedShapes::kShapes
                                                       : ArrayFeatureType::ShapeRange::kSizeRanges;
}

// An ArrayFeatureType with transposed axes: its shape, and the shapes and ranges that it allows.
std::string transposed(std::string_view wire) {
  auto shape = sizes_of(wire);
  channels_first(shape);
  const std::string plain = with_sizes(wire, shape);
  std::string out;
  for (Reader r(plain, plain.data()); r.next();) {
    const Field field = r.field();
    const bool shapes = field == ArrayFeatureType::kEnumeratedShapes;
    if (!shapes && field != ArrayFeatureType::kShapeRange) {
      out += r.skip();
      continue;
    }
    const std::string_view content = r.bytes();
    std::vector<std::string> axes;  // ranges, one per axis; or shapes
    std::string rest;
    for (Reader inner(content, plain.data()); inner.next();) {
      if (inner.field() == one_of(field)) {
        axes.emplace_back(inner.bytes());
      } else {
        rest += inner.skip();
      }
    }
    if (!shapes) channels_first(axes);
    std::string flexible;
    for (const std::string& one : axes) {
      auto sizes = shapes ? sizes_of(one) : std::vector<int64_t>();
      channels_first(sizes);
      append_bytes(flexible, one_of(field), shapes ? with_sizes(one, sizes) : one);
    }
    append_bytes(out, field, flexible + rest);
  }
  return out;
}

// Whether the array's axes differ from `now`, and equal it once the last axis moves before the two in front
// of it.
bool is_transposed(std::string_view wire, const std::vector<int64_t>& now) {
  const auto fits_now = [&](const std::vector<int64_t>& shape) {
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i] >= 0 && shape[i] != now[i]) return false;
    }
    return true;
  };
  auto shape = sizes_of(wire);
  if (shape.size() != now.size() || shape.size() < 3 || fits_now(shape)) return false;
  channels_first(shape);
  return fits_now(shape);
}

// Whether the array allows several shapes: it lists more than one, or a range has a width.
bool is_flexible(std::string_view wire) {
  bool several = false;
  for (Reader r(wire, wire.data()); r.next();) {
    const Field field = r.field();
    const bool ranges = field == ArrayFeatureType::kShapeRange;
    if (!ranges && field != ArrayFeatureType::kEnumeratedShapes) {
      r.skip();
      continue;
    }
    const std::string_view content = r.bytes();
    int shapes = 0;
    for (Reader inner(content, wire.data()); inner.next();) {
      if (inner.field() != one_of(field)) {
        inner.skip();
        continue;
      }
      ++shapes;
      const std::string_view range = inner.bytes();
      uint64_t low = 0, high = 0;
      for (Reader bounds(range, wire.data()); ranges && bounds.next();) {
        if (bounds.field() == SizeRange::kLowerBound) {
          low = bounds.varint();
        } else if (bounds.field() == SizeRange::kUpperBound) {
          high = bounds.varint();
        } else {
          bounds.skip();
        }
      }
      several = several || low != high;
    }
    several = several || (!ranges && shapes > 1);
  }
  return several;
}

// An ArrayFeatureType with exactly this shape.
std::string of_one_shape(std::string_view wire, const std::vector<int64_t>& shape) {
  std::string rest;
  for (Reader r(wire, wire.data()); r.next();) {
    const bool other_shapes = r.field() == ArrayFeatureType::kEnumeratedShapes || r.field() == ArrayFeatureType::kShapeRange;
    const std::string_view field = r.skip();
    if (!other_shapes) rest += field;
  }
  return with_sizes(rest, shape);
}

// The FeatureType of an input. If it allowed several shapes and its sizes are now known, only that shape
// remains.
std::string with_shape(std::string_view wire, const std::vector<int64_t>& now) {
  std::string out;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() != FeatureType::kMultiArrayType) {
      out += r.skip();
      continue;
    }
    const std::string_view array = r.bytes();
    if (is_transposed(array, now)) {
      append_bytes(out, FeatureType::kMultiArrayType, transposed(array));
    } else if (sizes_of(array).size() == now.size() && std::ranges::none_of(now, [](int64_t size) { return size < 0; }) &&
               is_flexible(array)) {
      append_bytes(out, FeatureType::kMultiArrayType, of_one_shape(array, now));
    } else {
      append_bytes(out, FeatureType::kMultiArrayType, array);
    }
  }
  return out;
}

std::string feature(std::string_view wire, const Feature& now, bool is_output) {
  std::string out;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() == FeatureDescription::kName) {
      (void)r.bytes();
      append_bytes(out, FeatureDescription::kName, now.name);
    } else if (r.field() == FeatureDescription::kType && is_output) {
      append_bytes(out, FeatureDescription::kType, with_dtype(r.bytes(), now.dtype));
    } else if (r.field() == FeatureDescription::kType) {
      append_bytes(out, FeatureDescription::kType, with_shape(r.bytes(), now.shape));
    } else {
      out += r.skip();
    }
  }
  return out;
}

struct InterfaceFields {
  Field input, output, state, predicted, probabilities;
};
constexpr InterfaceFields kModel{ModelDescription::kInput, ModelDescription::kOutput, ModelDescription::kState,
                                 ModelDescription::kPredictedFeatureName, ModelDescription::kPredictedProbabilitiesName};
constexpr InterfaceFields kFunction{FunctionDescription::kInput, FunctionDescription::kOutput, FunctionDescription::kState,
                                    FunctionDescription::kPredictedFeatureName,
                                    FunctionDescription::kPredictedProbabilitiesName};

// Whether the list has as many features as the function has now; otherwise nothing is changed.
bool fits(std::string_view wire, Field field, const std::vector<Feature>& now) {
  size_t count = 0;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() == field) ++count;
    r.skip();
  }
  return count == now.size();
}

std::string features(std::string_view wire, const InterfaceFields& n, const Interface& now) {
  // Features are matched by name. A feature whose name is gone gets the unmatched entry at its position.
  std::vector<std::pair<std::string, std::string>> renamed;
  const auto match = [&](Field field, const std::vector<Feature>& list) {
    std::vector<std::string_view> old;
    for (Reader r(wire, wire.data()); r.next();) {
      if (r.field() == field) {
        old.push_back(name_of_feature(r.bytes()));
      } else {
        r.skip();
      }
    }
    std::vector<const Feature*> by_place(old.size(), nullptr);
    std::vector<bool> taken(list.size());
    for (size_t i = 0; i < old.size(); ++i) {
      for (size_t k = 0; k < list.size(); ++k) {
        if (list[k].name != old[i] || taken[k]) continue;
        by_place[i] = &list[k];
        taken[k] = true;
        break;
      }
    }
    if (!fits(wire, field, list)) return by_place;
    size_t next = 0;
    for (size_t i = 0; i < old.size(); ++i) {
      if (by_place[i] != nullptr) continue;
      while (next < list.size() && taken[next]) ++next;
      if (next == list.size()) break;
      by_place[i] = &list[next];
      taken[next] = true;
      renamed.emplace_back(old[i], list[next].name);
    }
    return by_place;
  };
  const auto inputs = match(n.input, now.inputs), states = match(n.state, now.states), outputs = match(n.output, now.outputs);
  size_t input = 0, state = 0, output = 0;
  std::string out;
  for (Reader r(wire, wire.data()); r.next();) {
    const auto one = [&](const std::vector<const Feature*>& list, size_t& at, Field field, bool is_output) {
      const std::string_view content = r.bytes();
      const Feature* f = list[at++];
      append_bytes(out, field, f != nullptr ? feature(content, *f, is_output) : std::string(content));
    };
    if (r.field() == n.input) {
      one(inputs, input, n.input, false);
    } else if (r.field() == n.state) {
      one(states, state, n.state, false);
    } else if (r.field() == n.output) {
      one(outputs, output, n.output, true);
    } else if (r.field() == n.predicted || r.field() == n.probabilities) {
      const Field field = r.field();
      const std::string_view name = r.bytes();
      const auto to = std::ranges::find(renamed, name, [](const auto& p) { return std::string_view(p.first); });
      append_bytes(out, field, to == renamed.end() ? name : std::string_view(to->second));
    } else {
      out += r.skip();
    }
  }
  return out;
}

}  // namespace

std::string as_function(std::string_view description, std::string& rest) {
  std::string out;
  for (Reader r(description, description.data()); r.next();) {
    constexpr std::pair<Field, Field> kSame[] = {{kModel.input, kFunction.input},
                                                 {kModel.output, kFunction.output},
                                                 {kModel.state, kFunction.state},
                                                 {kModel.predicted, kFunction.predicted},
                                                 {kModel.probabilities, kFunction.probabilities}};
    const auto at = std::ranges::find(kSame, r.field(), [](const auto& p) { return p.first; });
    if (at != std::end(kSame)) {
      append_bytes(out, at->second, r.bytes());
    } else {
      rest += r.skip();
    }
  }
  return out;
}

namespace {

// The FeatureType for a new function: an array has only its known shape.
std::string fixed_type(std::string_view wire, const std::vector<int64_t>& shape) {
  if (std::ranges::any_of(shape, [](int64_t size) { return size < 0; })) return std::string(wire);
  std::string out;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() == FeatureType::kMultiArrayType) {
      append_bytes(out, FeatureType::kMultiArrayType, of_one_shape(r.bytes(), shape));
    } else {
      out += r.skip();
    }
  }
  return out;
}

// The FunctionDescription of a function derived from one that has a description.
std::string made_of(std::string_view source, const std::string& name, const Interface& now) {
  std::string out;
  append_bytes(out, FunctionDescription::kName, name);
  const std::string like = features(source, kFunction, now);
  for (Reader r(like, like.data()); r.next();) {
    if (r.field() == FunctionDescription::kName) {
      r.skip();
      continue;
    }
    const Field field = r.field();
    const bool is_input = field == FunctionDescription::kInput, is_output = field == FunctionDescription::kOutput;
    if (!is_input && !is_output) {
      out += r.skip();
      continue;
    }
    const std::string_view one = r.bytes();
    const std::vector<Feature>& all = is_input ? now.inputs : now.outputs;
    const auto feature = std::ranges::find(all, name_of_feature(one), &Feature::name);
    std::string changed;
    for (Reader f(one, like.data()); f.next();) {
      if (f.field() == FeatureDescription::kType && feature != all.end()) {
        append_bytes(changed, FeatureDescription::kType, fixed_type(f.bytes(), feature->shape));
      } else {
        changed += f.skip();
      }
    }
    append_bytes(out, field, changed);
  }
  return out;
}

// Describes functions that passes made, each like an existing one with the same input names. A description of
// one function becomes one of several.
std::string with_new_functions(const std::string& description, bool by_function, const Model& m, const MilNames& names) {
  // Older formats allow only one function.
  constexpr int64_t kSeveralFunctions = 9;
  if (m.specification_version.value_or(0) < kSeveralFunctions) return description;
  std::vector<std::pair<std::string, std::string>> known;
  std::string out;
  if (by_function) {
    for (Reader r(description, description.data()); r.next();) {
      if (r.field() == ModelDescription::kFunctions) {
        const std::string_view content = r.bytes();
        known.emplace_back(name_of_feature(content), content);
        append_bytes(out, ModelDescription::kFunctions, content);
      } else {
        out += r.skip();
      }
    }
  } else {
    std::string content;
    append_bytes(content, FunctionDescription::kName, m.main().name);
    content += as_function(description, out);
    known.emplace_back(m.main().name, content);
  }
  const auto input_names = [&](const Function& f) {
    std::vector<std::string> all;
    for (const Feature& one : interface_of(f, names).inputs) all.push_back(one.name);
    return all;
  };
  std::string added;
  for (const auto& f : m.functions()) {
    if (std::ranges::any_of(known, [&](const auto& k) { return k.first == f->name; })) continue;
    const auto source = std::ranges::find_if(known, [&](const auto& k) {
      const Function* old = m.find_function("", k.first);
      return old != nullptr && input_names(*old) == input_names(*f);
    });
    if (source == known.end()) continue;
    append_bytes(added, ModelDescription::kFunctions, made_of(source->second, f->name, interface_of(*f, names)));
  }
  if (added.empty()) return description;
  if (by_function) return out + added;
  append_bytes(out, ModelDescription::kFunctions, known.front().second);
  out += added;
  append_bytes(out, ModelDescription::kDefaultFunctionName, m.main().name);
  return out;
}

}  // namespace

std::string describe_interface(std::string_view description, const Model& m, const MilNames& names) {
  std::string out;
  bool by_function = false;
  for (Reader r(description, description.data()); r.next();) {
    if (r.field() != ModelDescription::kFunctions) {
      out += r.skip();
      continue;
    }
    by_function = true;
    const std::string_view content = r.bytes();
    const Function* f = m.find_function("", name_of_feature(content));
    append_bytes(out, ModelDescription::kFunctions,
                 f != nullptr ? features(content, kFunction, interface_of(*f, names)) : std::string(content));
  }
  if (!by_function) out = features(description, kModel, interface_of(m.main(), names));
  return with_new_functions(out, by_function, m, names);
}

}  // namespace sardonyx::mil_file
