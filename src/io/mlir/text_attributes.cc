#include "io/mlir/text_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "io/mlir/elements.h"

namespace sardonyx::mlir {
namespace {

// Of attributes, types and locations inside each other.
constexpr int kMaxDepth = 200;

}  // namespace

Attr list_of(AttrList items) {
  const bool all = !items.empty() && std::ranges::all_of(items, [](const Attr& a) { return a.get<int64_t>() != nullptr; });
  if (!all) return {std::move(items)};
  Attr::Ints ints;
  for (const Attr& a : items) ints.push_back(*a.get<int64_t>());
  return {std::move(ints)};
}

TextAttributes::TextAttributes(std::string_view text, std::string_view file, ModuleBuilder& builder)
    : in_(text, file), builder_(builder), budget_(text.size()) {
  find_aliases();
}

TextAttributes::Nested::Nested(TextAttributes& in) : depth_(in.depth_) {
  if (depth_ == kMaxDepth) in.in_.fail(fmt::format("attributes nest more than {} levels here", kMaxDepth), ErrorCode::kLimit);
  ++depth_;
}

// --- aliases

// Definitions stand at the beginnings of lines, often after their uses.
void TextAttributes::find_aliases() {
  const std::string_view text = in_.text();
  for (size_t line = 0; line < text.size(); line = std::min(text.find('\n', line), text.size() - 1) + 1) {
    if (text[line] != '#' && text[line] != '!') continue;
    in_.seek(line);
    const std::string_view name = in_.sigil_name(text[line], "an alias");
    if (in_.take("=")) aliases_.try_emplace(name, Alias{.at = in_.at()});
  }
  in_.seek(0);
}

TextAttributes::Alias& TextAttributes::alias(std::string_view name) {
  const auto at = aliases_.find(name);
  const auto from = static_cast<size_t>(name.data() - in_.text().data());
  if (at == aliases_.end()) in_.fail_at(from, fmt::format("nothing defines '{}'", name));
  if (at->second.open) in_.fail_at(from, fmt::format("'{}' is defined by itself", name));
  return at->second;
}

template <class F>
auto TextAttributes::at_alias(Alias& a, F&& read) {
  const Nested nested(*this);
  const size_t back = in_.at();
  a.open = true;
  in_.seek(a.at);
  auto value = read();
  in_.seek(back);
  a.open = false;
  return value;
}

bool TextAttributes::take_alias_definition() {
  const char c = in_.peek();
  if (in_.take("{-#")) {
    const size_t end = in_.text().find("#-}", in_.at());
    if (end == std::string_view::npos) in_.fail("no '#-}' closes the module's resources");
    in_.seek(end + 3);
    return true;
  }
  if (c != '#' && c != '!') return false;
  Alias& a = alias(in_.sigil_name(c, "an alias"));
  in_.expect("=");
  if (c == '!') {
    (void)type();
  } else if (in_.is_word("loc")) {
    const uint32_t index = optional_location();
    if (!a.location) a.location = index;
  } else {
    (void)attribute();
  }
  return true;
}

// --- types

void TextAttributes::refuse_type() {
  const size_t from = in_.at();
  std::string_view name = in_.peek() == '!' ? in_.sigil_name('!', "a type") : in_.peek_word();
  if (name.empty()) in_.expected("a type");
  in_.fail_at(from, fmt::format("values of type '{}' are not supported, only tensors", name), ErrorCode::kUnsupported);
}

DType TextAttributes::tensor_element() {
  const size_t from = in_.at();
  if (in_.peek() == '!') {
    const std::string_view name = in_.sigil_name('!', "a type");
    in_.fail_at(from,
                fmt::format("element type '{}' is not supported{}", name,
                            name.starts_with("!quant") ? ": dequantize the model first" : ""),
                ErrorCode::kUnsupported);
  }
  const std::string_view word = in_.word("an element type");
  if (word == "complex") {
    in_.expect("<");
    const std::string_view part = in_.word("the type of a part");
    in_.expect(">");
    if (part == "f32") return DType::kC64;
    if (part == "f64") return DType::kC128;
    in_.fail_at(from, fmt::format("element type 'complex<{}>' is not supported", part), ErrorCode::kUnsupported);
  }
  const auto dtype = element_type(word);
  if (!dtype) in_.fail_at(from, fmt::format("element type '{}' is not supported", word), ErrorCode::kUnsupported);
  return *dtype;
}

// tensor<2x?xf32, #encoding>; the cursor is behind "tensor".
const Type* TextAttributes::tensor_type() {
  in_.expect("<");
  const std::string_view text = in_.text();
  const bool ranked = !in_.take("*");
  if (!ranked) {
    if (!in_.is("x")) in_.expected("'x'");
    in_.seek(in_.at() + 1);
  }
  std::vector<Dim> dims;
  while (ranked) {
    size_t at = in_.at();
    const size_t from = at;
    if (at < text.size() && text[at] == '?') {
      dims.emplace_back();
      ++at;
    } else {
      while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
      if (at == from) break;
      int64_t size = 0;
      if (!parse_integer(text.substr(from, at - from), size) || size < 0) in_.fail("this size does not fit 64 bits");
      dims.push_back(Dim::of(size));
    }
    if (at == text.size() || text[at] != 'x') in_.fail_at(at, "expected 'x' behind a size");
    in_.seek(at + 1);
  }
  check_rank(dims.size());
  const DType dtype = tensor_element();
  if (in_.take(",")) {
    const size_t from = in_.at();
    const std::string_view encoding = in_.sigil_name('#', "an encoding");
    if (encoding != "#stablehlo.bounds" && encoding != "#stablehlo.type_extensions") {
      in_.fail_at(from, fmt::format("the encoding '{}' of a tensor is not supported", encoding), ErrorCode::kUnsupported);
    }
    in_.expect("<");
    (void)in_.skip_balanced('<', '>');  // bounds of sizes that are '?' in the type
  }
  in_.expect(">");
  return ranked ? types_table().tensor(dtype, dims) : types_table().unranked(dtype);
}

const Type* TextAttributes::type() {
  if (in_.take_word("tensor")) return tensor_type();
  if (in_.peek() == '!') {
    const size_t from = in_.at();
    const std::string_view name = in_.sigil_name('!', "a type");
    if (aliases_.contains(name)) return at_alias(alias(name), [this] { return type(); });
    in_.seek(from);
  }
  refuse_type();
  return nullptr;
}

std::vector<const Type*> TextAttributes::type_list() {
  std::vector<const Type*> list;
  do {
    list.push_back(type());
  } while (in_.take(","));
  return list;
}

std::vector<const Type*> TextAttributes::types_in_parens() {
  in_.expect("(");
  if (in_.take(")")) return {};
  auto list = type_list();
  in_.expect(")");
  return list;
}

std::vector<const Type*> TextAttributes::result_types() {
  if (in_.peek() == '(') return types_in_parens();
  return {type()};
}

FunctionType TextAttributes::function_type() {
  FunctionType f;
  f.inputs = types_in_parens();
  in_.expect("->");
  f.results = result_types();
  return f;
}

// --- attributes

Attr TextAttributes::number_attribute() {
  const size_t from = in_.at();
  const std::string_view digits = in_.number("a number");
  DType dtype = digits.find_first_of(".eE") != std::string_view::npos && !digits.starts_with("0x") ? DType::kF64 : DType::kI64;
  if (in_.take(":")) dtype = tensor_element();
  if (is_float(dtype)) {
    const auto value = float_value(dtype, digits);
    if (!value) in_.fail_at(from, fmt::format("'{}' is no {}", digits, to_string(dtype)));
    return {*value};
  }
  int64_t value = 0;
  if (!parse_integer(digits, value)) in_.fail_at(from, fmt::format("'{}' is no integer of 64 bits", digits));
  return {value};
}

Attr::Ints TextAttributes::integers(char open, char close) {
  in_.expect({&open, 1});
  Attr::Ints list;
  if (in_.take({&close, 1})) return list;
  do {
    if (in_.take_word("true")) {
      list.push_back(1);
    } else if (in_.take_word("false")) {
      list.push_back(0);
    } else if (in_.take("?")) {
      list.push_back(-1);
    } else {
      list.push_back(in_.integer("an integer"));
    }
  } while (in_.take(","));
  in_.expect({&close, 1});
  return list;
}

// array<i64: 1, 2>, array<i1: true>, array<f32: 1.0>; the cursor is behind "array".
Attr TextAttributes::array_attribute() {
  in_.expect("<");
  const DType dtype = tensor_element();
  if (in_.take(">")) return is_float(dtype) ? Attr(Attr::Floats()) : Attr(Attr::Ints());
  if (!is_float(dtype)) return {integers(':', '>')};
  in_.expect(":");
  Attr::Floats floats;
  do {
    const size_t from = in_.at();
    const auto value = float_value(dtype, in_.number("a number"));
    if (!value) in_.fail_at(from, fmt::format("this is no {}", to_string(dtype)));
    floats.push_back(*value);
  } while (in_.take(","));
  in_.expect(">");
  return {std::move(floats)};
}

Attr TextAttributes::list_attribute() {
  in_.expect("[");
  AttrList items;
  if (in_.take("]")) return {std::move(items)};
  do {
    items.push_back(attribute());
  } while (in_.take(","));
  in_.expect("]");
  return list_of(std::move(items));
}

Attr TextAttributes::dict_attribute() {
  in_.expect("{");
  AttrDict items;
  if (in_.take("}")) return {std::move(items)};
  std::unordered_set<std::string> names;
  do {
    const size_t at = in_.at();
    std::string name = in_.name("an attribute's name");
    if (!names.insert(name).second) in_.fail_at(at, fmt::format("the attribute '{}' is given twice", name));
    items.emplace_back(std::move(name), in_.take("=") ? attribute() : Attr(true));
  } while (in_.take(","));
  in_.expect("}");
  return {std::move(items)};
}

void TextAttributes::dictionary(AttrInit& into) {
  const size_t from = in_.at();
  const Attr read = dict_attribute();
  const size_t earlier = into.size();  // properties, or parts of a custom form: few
  for (const auto& [name, value] : *read.get<AttrDict>()) {
    const auto given = std::span(into).first(earlier);
    if (std::ranges::find(given, name, &NamedAttr::name) != given.end()) {
      in_.fail_at(from, fmt::format("the attribute '{}' is given twice", name));
    }
    into.emplace_back(name, value);
  }
}

// dense<literal> : tensor<...>; the cursor is behind "dense".
Attr TextAttributes::dense_attribute() {
  in_.expect("<");
  const size_t from = in_.at();
  const std::string_view literal = in_.skip_balanced('<', '>');
  in_.expect(":");
  const Type* t = type();
  if (!t->is_static()) in_.fail_at(from, "elements need a type whose sizes are numbers");
  std::vector<int64_t> shape;
  for (Dim d : t->dims()) shape.push_back(d.value());
  try {
    return {literal_tensor(t->dtype(), std::move(shape), literal, in_)};
  } catch (const Error& e) {
    if (!e.notes().empty()) throw;
    in_.fail_at(from, e.message(), e.code());
  }
}

// dialect_resources: { builtin: { name: "0x..." } }, external_resources: {...} #-}
void TextAttributes::read_resources() {
  while (!in_.take("#-}")) {
    if (in_.take("}") || in_.take(",")) continue;
    std::string name = in_.name("a resource's name");
    in_.expect(":");
    if (in_.take("{")) continue;
    if (in_.peek() != '"') {
      (void)in_.word("a resource");
      continue;
    }
    const size_t from = in_.at() + 1, end = in_.text().find('"', from);
    if (end == std::string_view::npos) in_.fail("this string has no end");
    resources_->emplace(std::move(name), Resource{in_.text().substr(from, end - from), nullptr});
    in_.seek(end + 1);
  }
}

// dense_resource<name> : tensor<...>; the cursor is behind "dense_resource". The resource's first four bytes
// are its alignment.
Attr TextAttributes::resource_attribute() {
  if (!resources_) {
    resources_.emplace();
    const size_t back = in_.at(), begin = in_.text().rfind("\n{-#");
    if (begin != std::string_view::npos) {
      in_.seek(begin + 4);
      read_resources();
    }
    in_.seek(back);
  }
  in_.expect("<");
  const size_t from = in_.at();
  const std::string name = in_.name("a resource's name");
  in_.expect(">");
  in_.expect(":");
  const Type* t = type();
  const auto at = resources_->find(name);
  if (at == resources_->end()) in_.fail_at(from, fmt::format("the module has no resource '{}'", name));
  Resource& resource = at->second;
  if (resource.bytes == nullptr) {
    auto bytes = hex_bytes(resource.digits);
    if (!bytes || bytes->size() < 4) {
      in_.fail_at(from, fmt::format("the resource '{}' is no string of hexadecimal digits", name));
    }
    resource.bytes = std::make_shared<const std::vector<std::byte>>(std::move(*bytes));
  }
  if (!t->is_static()) in_.fail_at(from, "elements need a type whose sizes are numbers");
  std::vector<int64_t> shape;
  for (Dim d : t->dims()) shape.push_back(d.value());
  try {
    return {stored_tensor(t->dtype(), std::move(shape), {std::span(*resource.bytes).subspan(4), resource.bytes})};
  } catch (const Error& e) {
    in_.fail_at(from, e.message(), e.code());
  }
}

AttrDict TextAttributes::convolution_numbers() {
  // What letters stand for on each side, and the fields' names.
  struct Side {
    std::string_view letters, first, second, spatial;
  };
  static constexpr std::array<Side, 3> kSides = {
      Side{"bf", "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"},
      Side{"io", "kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions"},
      Side{"bf", "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"}};
  AttrDict out;
  for (const Side& side : kSides) {
    const size_t from = in_.at();
    if (&side == &kSides[1]) in_.expect_word("x");
    if (&side == &kSides[2]) in_.expect("->");
    in_.expect("[");
    int64_t axes[2] = {-1, -1};
    std::vector<std::pair<int64_t, int64_t>> spatial;  // spatial axis, axis of the tensor
    int64_t axis = 0;
    do {
      const std::string_view letter = in_.peek_word();
      const size_t which = letter.size() == 1 ? side.letters.find(letter) : std::string_view::npos;
      if (which != std::string_view::npos) {
        (void)in_.word("an axis");
        axes[which] = axis;
      } else if (in_.take("?")) {
        // an axis without meaning
      } else {
        spatial.emplace_back(in_.integer("an axis"), axis);
      }
      ++axis;
    } while (in_.take(","));
    in_.expect("]");
    std::ranges::sort(spatial);
    Attr::Ints ordered;
    for (const auto& [number, at] : spatial) {
      if (number != static_cast<int64_t>(ordered.size())) in_.fail_at(from, "spatial axes are numbered 0, 1, ... once each");
      ordered.push_back(at);
    }
    if (axes[0] < 0 || axes[1] < 0) {
      in_.fail_at(from, fmt::format("expected the axes '{}' and '{}' among these", side.letters[0], side.letters[1]));
    }
    out.emplace_back(side.first, Attr(axes[0]));
    out.emplace_back(side.second, Attr(axes[1]));
    out.emplace_back(side.spatial, Attr(std::move(ordered)));
  }
  return out;
}

// <field = value, ...>, <KEYWORD> or a shorthand; the cursor is behind '<'.
Attr TextAttributes::struct_attribute(std::string_view name) {
  if (name == "conv" && in_.peek() == '[') {
    Attr numbers(convolution_numbers());
    in_.expect(">");
    return numbers;
  }
  (void)in_.take_word("raw");  // #stablehlo.conv<raw ...>
  AttrDict fields;
  if (in_.take(">")) return {std::move(fields)};
  const size_t from = in_.at();
  for (;;) {
    if (!fields.empty() && in_.take(">")) return {std::move(fields)};  // behind a last comma
    const std::string_view field = in_.peek_word();
    if (field.empty()) break;
    in_.seek(in_.at() + field.size());
    if (!in_.take("=")) {
      if (fields.empty() && in_.take(">")) return {field};  // #stablehlo.precision<DEFAULT>
      break;
    }
    if (in_.peek() == '[') {
      fields.emplace_back(field, list_attribute());
    } else if (in_.is_word("true") || in_.is_word("false") || in_.peek() == '-' || (in_.peek() >= '0' && in_.peek() <= '9')) {
      fields.emplace_back(field, attribute());
    } else {
      const size_t begin = in_.at();
      (void)form_attribute();
      fields.emplace_back(field, Attr(OpaqueAttr{std::string(in_.text().substr(begin, in_.at() - begin))}));
    }
    if (in_.take(">")) return {std::move(fields)};
    in_.expect(",");
  }
  in_.seek(from);
  return {OpaqueAttr{fmt::format("#{}<{}>", name, in_.skip_balanced('<', '>'))}};
}

Attr TextAttributes::alias_attribute(std::string_view name) {
  Alias& a = alias(name);
  if (!a.attribute) {
    const uint64_t before = budget_.spent();
    a.attribute = at_alias(a, [&] {
      Attr value = attribute();
      a.weight = 1 + (in_.at() - a.at) / 8 + (budget_.spent() - before);
      return value;
    });
  }
  budget_.spend(a.weight);
  return *a.attribute;
}

// #alias, #stablehlo.gather<...>, #stablehlo<comparison_direction LT>
Attr TextAttributes::hash_attribute() {
  const std::string_view name = in_.sigil_name('#', "an attribute");
  if (aliases_.contains(name)) return alias_attribute(name);
  const size_t dot = name.find('.');
  if (!in_.take("<")) {
    if (dot == std::string_view::npos) (void)alias(name);  // says that nothing defines it
    return {OpaqueAttr{std::string(name)}};
  }
  if (dot != std::string_view::npos) return struct_attribute(name.substr(dot + 1));
  const std::string_view kind = in_.word("the kind of attribute");
  if (in_.take("<")) {
    Attr value = struct_attribute(kind);
    in_.expect(">");
    return value;
  }
  const std::string_view value = in_.word("a keyword");
  in_.expect(">");
  return {value};
}

Attr TextAttributes::attribute() {
  const Nested nested(*this);
  switch (in_.peek()) {
    case '"': return {in_.string("a string")};
    case '[': return list_attribute();
    case '{': return dict_attribute();
    case '#': return hash_attribute();
    case '(': {
      const size_t from = in_.at();
      (void)function_type();
      return {OpaqueAttr{std::string(in_.text().substr(from, in_.at() - from))}};
    }
    case '@': {
      std::string name = in_.symbol();
      while (in_.take("::")) name += "::" + in_.symbol();
      return {std::move(name)};
    }
    default: break;
  }
  const std::string_view word = in_.peek_word();
  if (word.empty()) {
    if (in_.peek() == '!') return {type()};
    return number_attribute();
  }
  if (word == "tensor") return {type()};
  if (in_.take_word("true")) return {true};
  if (in_.take_word("false")) return {false};
  if (in_.take_word("unit")) return {true};
  if (in_.take_word("array")) return array_attribute();
  if (in_.take_word("dense")) return dense_attribute();
  if (in_.take_word("dense_resource")) return resource_attribute();
  if (word == "loc") {
    (void)optional_location();
    return {OpaqueAttr{"loc"}};
  }
  if (element_type(word) || word == "complex") return {tensor_element()};
  return {OpaqueAttr{std::string(in_.word("an attribute"))}};
}

Attr TextAttributes::form_attribute() {
  const char c = in_.peek();
  if (c == '[') return {integers('[', ']')};
  if (c == '-' || (c >= '0' && c <= '9')) {
    const size_t from = in_.at();
    const std::string_view digits = in_.number("a number");
    int64_t value = 0;
    if (parse_integer(digits, value)) return {value};
    const auto real = float_value(DType::kF64, digits);
    if (!real) in_.fail_at(from, fmt::format("'{}' is no number", digits));
    return {*real};
  }
  static constexpr std::string_view kOthers[] = {"dense", "dense_resource", "array", "true", "false", "unit"};
  const std::string_view word = in_.peek_word();
  if (!word.empty() && std::ranges::find(kOthers, word) == std::end(kOthers)) return {in_.word("a keyword")};
  return attribute();
}

// --- locations

uint32_t TextAttributes::optional_location() {
  if (!in_.take_word("loc")) return 0;
  in_.expect("(");
  if (in_.peek() == '#') {
    const std::string_view name = in_.sigil_name('#', "a location");
    in_.expect(")");
    Alias& a = alias(name);
    if (!a.location) a.location = at_alias(a, [this] { return optional_location(); });
    return *a.location;
  }
  Location l = location_body();
  in_.expect(")");
  return l == Location() ? 0 : builder_.add_location(std::move(l));
}

// "name", "name"(inner), "file":1:2 or "file":1:2 to 3:4
Location TextAttributes::named_or_file_location() {
  std::string text = in_.string("a name or a file");
  Location l;
  if (in_.take(":")) {
    const int64_t line = in_.integer("a line");
    in_.expect(":");
    (void)in_.integer("a column");
    if (in_.take_word("to")) {
      if (in_.peek() != ':') (void)in_.integer("a line");
      in_.expect(":");
      (void)in_.integer("a column");
    }
    return file_location(std::move(text), static_cast<uint64_t>(std::max<int64_t>(line, 0)));
  }
  if (in_.take("(")) {
    l = location_body();
    in_.expect(")");
  }
  return named_location(std::move(text), l);
}

Location TextAttributes::location_body() {
  const Nested nested(*this);
  if (in_.peek() == '"') return named_or_file_location();
  if (in_.peek() == '#') {
    const std::string_view name = in_.sigil_name('#', "a location");
    Alias& a = alias(name);
    if (!a.location) {
      Location l = at_alias(a, [&] {
        in_.expect_word("loc");
        in_.expect("(");
        return location_body();
      });
      a.location = l == Location() ? 0 : builder_.add_location(std::move(l));
    }
    return builder_.location(*a.location);
  }
  if (in_.take_word("unknown")) return {};
  if (in_.take_word("callsite")) {
    in_.expect("(");
    const Location callee = location_body();
    in_.expect_word("at");
    const Location caller = location_body();
    in_.expect(")");
    return call_location(callee, caller);
  }
  if (in_.take_word("fused")) {
    if (in_.take("<")) (void)in_.skip_balanced('<', '>');
    in_.expect("[");
    std::vector<Location> parts;
    do {
      parts.push_back(location_body());
    } while (in_.take(","));
    in_.expect("]");
    return fused_location(parts);
  }
  in_.expected("a location");
}

}  // namespace sardonyx::mlir
