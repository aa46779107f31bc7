#include "cli/options/shape_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "cli/commands.h"
#include "ir/dims/dim_facts.h"
#include "sardonyx/dim.h"

namespace sardonyx::cli {
namespace {

std::optional<int64_t> number_of(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(n) : std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// The sizes between commas that are in no parentheses; none for an empty text.
std::vector<std::string_view> sizes_in(std::string_view text) {
  std::vector<std::string_view> sizes;
  size_t first = 0;
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (text[at] != ',' || depth > 0) continue;
    sizes.push_back(trimmed(text.substr(first, at - first)));
    first = at + 1;
  }
  if (!trimmed(text).empty()) sizes.push_back(trimmed(text.substr(first)));
  return sizes;
}

AxisSize axis_of(std::string_view text) {
  if (text == "-1" || text == "?") return {};
  if (const auto number = number_of(text)) return *number;
  return std::string(text);
}

}  // namespace

InputShape input_shape_of(const std::string& text) {
  const auto malformed = [&] { refuse(fmt::format("'{}' is not an input shape", text), {"expected x=f32[1,3,B] or x:1,3,B"}); };
  InputShape made;
  std::string_view sizes = text;
  // Names may contain colons ("input:0"): the last separator counts.
  if (const size_t equals = text.rfind('='); equals != std::string::npos && equals > 0) {
    const size_t bracket = text.find('[', equals);
    if (bracket == std::string::npos || !text.ends_with(']')) malformed();
    if (bracket > equals + 1) {
      const std::optional<DType> dtype = parse_dtype(text.substr(equals + 1, bracket - equals - 1));
      if (!dtype) malformed();
      made.dtype = *dtype;
    }
    made.input = text.substr(0, equals);
    sizes = sizes.substr(bracket + 1, text.size() - bracket - 2);
  } else {
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0) malformed();
    made.input = text.substr(0, colon);
    sizes.remove_prefix(colon + 1);
  }
  for (std::string_view size : sizes_in(sizes)) {
    if (size.empty()) malformed();
    made.sizes.push_back(axis_of(size));
  }
  return made;
}

std::vector<InputShape> input_shapes_of(const std::vector<std::string>& texts) {
  std::vector<InputShape> shapes;
  for (const std::string& text : texts) shapes.push_back(input_shape_of(text));
  return shapes;
}

void add_enumerated_shape(std::vector<EnumeratedShapes>& to, const std::string& text) {
  const InputShape given = input_shape_of(text);
  std::vector<int64_t> shape;
  for (const AxisSize& axis : given.sizes) {
    const auto* number = std::get_if<int64_t>(&axis);
    if (number == nullptr) refuse(fmt::format("'{}' is not the shape of an input", text), {"expected x:1,3,7,7"});
    shape.push_back(*number);
  }
  const auto at = std::ranges::find(to, given.input, &EnumeratedShapes::input);
  if (at == to.end()) {
    to.push_back({given.input, {std::move(shape)}});
  } else {
    at->shapes.push_back(std::move(shape));
  }
}

SizeBounds size_bounds_of(const std::string& text) {
  const auto fail = [&] {
    refuse(fmt::format("'{}' gives no range of one size", text), {"expected a relation such as \"T <= 512\" or \"B >= 2\""});
  };
  const size_t sign = text.find_first_of("<>=");
  if (sign == std::string::npos) fail();
  const size_t second = std::min(text.find_first_not_of("<>=", sign), text.size());
  Dims dims;
  std::set<std::string> names;
  for (const std::string& side : {text.substr(0, sign), text.substr(second)}) {
    for (std::string& name : dims.symbols(dims.parse(side))) names.insert(std::move(name));
  }
  if (names.size() != 1) fail();
  const std::string name = *names.begin();
  dims.set_range(name, {});
  if (!assume(dims, text)) fail();
  const DimRange range = dims.symbol_range(name);
  return {name, range.min, range.max};
}

bool is_default_size(const std::string& text) {
  const size_t equals = text.find('=');
  return equals != std::string::npos && text.find_first_of("<>!") == std::string::npos && text.find("==") == std::string::npos;
}

DefaultSize default_size_of(const std::string& text) {
  const auto [name, size] = at_equals(text, "a size as T=128");
  const std::optional<int64_t> number = number_of(size);
  if (!number) refuse(fmt::format("expected a size as T=128, found '{}'", size));
  return {name, *number};
}

}  // namespace sardonyx::cli
