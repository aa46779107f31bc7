#include "convert/interface/enumerated_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>

#include "convert/interface/input_shapes.h"

namespace sardonyx {
namespace {

using Shape = std::vector<int64_t>;

[[noreturn]] void refuse(std::string what, std::vector<std::string> notes = {}) {
  throw Error(ErrorCode::kInvalidArgument, std::move(what), std::move(notes));
}

std::string text_of(const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

const Port* input_named(const Model& m, std::string_view name) {
  const auto ports = m.graph().inputs();
  const auto at = std::ranges::find(ports, name, [](const Port& p) { return p.name.view(); });
  return at == ports.end() ? nullptr : &*at;
}

size_t input_number(const Model& m, std::string_view name) {
  const auto ports = m.graph().inputs();
  return static_cast<size_t>(std::ranges::find(ports, name, [](const Port& p) { return p.name.view(); }) - ports.begin());
}

const Type* type_of(const Port& p) { return p.declared != nullptr ? p.declared : p.value->type(); }

void check(const Model& m, const std::string& name, const std::vector<Shape>& shapes) {
  const Port* port = input_named(m, name);
  if (port == nullptr) refuse(fmt::format("there are shapes for '{}', which is not an input of the model", name));
  const Type* t = type_of(*port);
  if (shapes.size() < 2)
    refuse(fmt::format("the input '{}' has {} enumerated shape{}", name, shapes.size(), shapes.size() == 1 ? "" : "s"),
           {"help: list two or more; a single one is an input shape"});
  for (const Shape& shape : shapes) {
    if (t != nullptr && t->is_tensor() && t->ranked() && shape.size() != t->rank())
      refuse(
          fmt::format("the shape {} of the input '{}' has {} axes, expected {}", text_of(shape), name, shape.size(), t->rank()),
          {fmt::format("the model says {}", m.types().to_string(t))});
    if (shape.size() != shapes[0].size())
      refuse(fmt::format("the shapes {} and {} of the input '{}' differ in rank", text_of(shapes[0]), text_of(shape), name));
    if (std::ranges::any_of(shape, [](int64_t size) { return size < 1; }))
      refuse(fmt::format("the shape {} of the input '{}' has a size below 1", text_of(shape), name));
  }
}

// "1,3,H,W": a name for each axis that differs.
std::string opened(const std::vector<Shape>& shapes) {
  constexpr std::string_view kNames = "WHDTSR";  // from the last axis on
  std::vector<std::string> axes;
  for (size_t axis = 0; axis < shapes[0].size(); ++axis) {
    const bool one = std::ranges::all_of(shapes, [&](const Shape& s) { return s[axis] == shapes[0][axis]; });
    const size_t from_last = shapes[0].size() - 1 - axis;
    axes.push_back(one ? fmt::format("{}", shapes[0][axis]) : fmt::format("{}", kNames[from_last % kNames.size()]));
  }
  return fmt::format("{}", fmt::join(axes, ","));
}

// A number where all shapes have one size, a name elsewhere.
InputShape with_names(const Model& m, const std::string& name, const std::vector<Shape>& shapes) {
  const Type* t = type_of(*input_named(m, name));
  InputShape made{.input = name, .sizes = {}};
  for (size_t axis = 0; axis < shapes[0].size(); ++axis) {
    const bool known = t != nullptr && t->is_tensor() && t->ranked();
    const Dim d = known ? t->dim(axis) : Dim();
    const bool one = std::ranges::all_of(shapes, [&](const Shape& s) { return s[axis] == shapes[0][axis]; });
    if (one) {
      made.sizes.emplace_back(shapes[0][axis]);
    } else if (d.is_int()) {
      refuse(fmt::format("axis {} of the input '{}' is {}, and its enumerated shapes have other sizes there", axis, name,
                         d.value()),
             {fmt::format("help: open the axis: --input-shape {}:{}", name, opened(shapes))});
    } else if (const std::string_view symbol = m.dims().symbol_name(d); !symbol.empty()) {
      made.sizes.emplace_back(std::string(symbol));
    } else if (d.is_expr()) {
      refuse(fmt::format("axis {} of the input '{}' is {}, which enumerated shapes cannot be solved for", axis, name,
                         m.dims().to_string(d)));
    } else {
      made.sizes.emplace_back(fmt::format("size{}_{}", input_number(m, name), axis));
    }
  }
  return made;
}

void collect_sizes(const Model& m, const std::string& name, const std::vector<Shape>& shapes, std::vector<SizesByName>& found) {
  const Type* t = type_of(*input_named(m, name));
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const std::string symbol(m.dims().symbol_name(t->dim(axis)));
      if (symbol.empty()) continue;
      const auto [at, fresh] = found[i].emplace(symbol, shapes[i][axis]);
      if (!fresh && at->second != shapes[i][axis])
        refuse(fmt::format("the size '{}' would be both {} and {} in shape {} of the input '{}'", symbol, at->second,
                           shapes[i][axis], text_of(shapes[i]), name),
               {"axes with the same name have the same size"});
    }
  }
}

// Every input of open size must have its shapes from these names.
void check_all_inputs(const Model& m, const SizesByName& names, int version) {
  constexpr int kIos18 = 9;
  size_t open = 0;
  for (const Port& p : m.graph().inputs()) {
    const Type* t = type_of(p);
    if (t == nullptr || !t->is_tensor() || !t->ranked() || t->is_static()) continue;
    ++open;
    for (Dim d : t->dims()) {
      const std::vector<std::string> used = m.dims().symbols(d);
      const bool known =
          d.is_int() || (!used.empty() && std::ranges::all_of(used, [&](const auto& s) { return names.contains(s); }));
      if (!known)
        refuse(fmt::format("the input '{}' is {}, and no enumerated shape says what its size {} is", p.name.view(),
                           m.types().to_string(t), m.dims().to_string(d)),
               {"help: list its shapes, too, or fix it with an input shape"});
    }
  }
  if (open > 1 && version < kIos18)
    refuse(fmt::format("{} inputs have enumerated shapes, and before iOS18 one can have them", open),
           {"help: a target of iOS18, or ranges of sizes"});
}

}  // namespace

std::vector<SizesByName> enumerate_shapes(Model& onnx, const std::vector<EnumeratedShapes>& shapes, int version) {
  if (shapes.empty()) return {};
  std::vector<InputShape> named;
  for (const auto& [name, list] : shapes) {
    check(onnx, name, list);
    if (list.size() != shapes[0].shapes.size())
      refuse(fmt::format("the input '{}' has {} enumerated shapes and '{}' has {}", shapes[0].input, shapes[0].shapes.size(),
                         name, list.size()),
             {"Core ML takes the first of all inputs, or the second of all, and so on"});
    named.push_back(with_names(onnx, name, list));
  }
  fix_input_shapes(onnx, named);
  std::vector<SizesByName> found(shapes[0].shapes.size());
  for (const auto& [name, list] : shapes) collect_sizes(onnx, name, list, found);
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::ranges::count(found, found[i]) > 1) refuse(fmt::format("shape {} is listed twice", text_of(shapes[0].shapes[i])));
  }
  check_all_inputs(onnx, found[0], version);
  for (const auto& [name, first] : found[0]) {
    const auto size = [&](const SizesByName& s) { return s.at(name); };
    const auto [low, high] = std::ranges::minmax(found | std::views::transform(size));
    const DimRange stated = onnx.dims().symbol_range(name);
    if (low < stated.min.value_or(1) || (stated.max && high > *stated.max))
      refuse(fmt::format("an enumerated shape gives '{}' the size {}, which the model or --size excludes", name,
                         low < stated.min.value_or(1) ? low : high));
    onnx.dims().set_range(name, {.min = low, .max = high});
  }
  return found;
}

}  // namespace sardonyx
