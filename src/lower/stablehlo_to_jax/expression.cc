#include "lower/stablehlo_to_jax/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lower/engine/engine.h"

namespace sardonyx::stablehlo_to_jax {
namespace {

constexpr size_t kMost = 1000;

std::string leaf(const Value& v) {
  const auto n = v.is_constant() ? lower::splat_value(v.constant(), 1) : std::nullopt;
  if (!n) return "?";
  return std::isnan(*n) ? "nan" : fmt::format("{}", *n == 0 ? 0.0 : *n);
}

std::string operator_name(const Node& n) {
  if (!n.is("compare")) return std::string(n.op().name);
  return n.attr_string("comparison_direction", "") + (n.attr_string("compare_type", "") == "TOTALORDER" ? "t" : "");
}

}  // namespace

std::string expression(const Value& v, std::span<const Value* const> names, std::string_view letters) {
  std::string text;
  // What remains to be written, last first: a value, or a text.
  struct Item {
    const Value* value;
    std::string text;
  };
  std::vector<Item> todo{{&v, {}}};
  while (!todo.empty() && text.size() <= kMost) {
    const Item item = std::move(todo.back());
    todo.pop_back();
    if (item.value == nullptr) {
      text += item.text;
      continue;
    }
    const auto at = std::ranges::find(names, item.value);
    const Node* n = item.value->def();
    if (at != names.end()) {
      text += letters[static_cast<size_t>(at - names.begin())];
    } else if (n == nullptr || n->num_results() != 1 || !n->bodies().empty()) {
      text += leaf(*item.value);
    } else {
      text += operator_name(*n) + "(";
      todo.push_back({nullptr, ")"});
      for (size_t i = n->num_inputs(); i-- > 0;) {
        todo.push_back({n->input(i), {}});
        if (i > 0) todo.push_back({nullptr, ","});
      }
    }
  }
  if (text.size() > kMost) {
    text.resize(kMost);
    text += "..";
  }
  return text;
}

}  // namespace sardonyx::stablehlo_to_jax
