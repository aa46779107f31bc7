#include "lower/check_equation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "sardonyx/error.h"

namespace sardonyx {
namespace {

using Axes = std::vector<int64_t>;

[[noreturn]] void wrong(const Node& eqn, std::string_view what) {
  throw Error(ErrorCode::kInvalidModel, fmt::format("an equation '{}' contradicts itself: {}", eqn.op().name, what),
              {"help: the program was changed after JAX traced it; save it again"});
}

// -1: not known.
int64_t rank_of(const Value* v) {
  if (v == nullptr || !v->ranked() || !v->type()->is_tensor()) return -1;
  return static_cast<int64_t>(v->type()->rank());
}

std::optional<Axes> ints(const Attr& a) {
  if (const auto* one = a.get<int64_t>()) return Axes{*one};
  if (const auto* v = a.get<Attr::Ints>()) return *v;
  if (const auto* v = a.get<AttrList>(); v != nullptr && v->empty()) return Axes{};
  return std::nullopt;
}

// Distinct axes of a value of that rank.
void check_axes(const Node& eqn, std::string_view name, const Axes& axes, int64_t rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank)
      wrong(eqn, fmt::format("'{}' names axis {} of a value with {} axes", name, axes[i], rank));
    if (std::find(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), axes[i]) !=
        axes.begin() + static_cast<std::ptrdiff_t>(i))
      wrong(eqn, fmt::format("'{}' names axis {} twice", name, axes[i]));
  }
}

void check_count(const Node& eqn, std::string_view name, size_t found, int64_t rank) {
  if (static_cast<int64_t>(found) != rank)
    wrong(eqn, fmt::format("'{}' has {} entries for a value with {} axes", name, found, rank));
}

// ((of the first operand, of the second), (batch of the first, of the second))
void check_dot(const Node& eqn, const AttrList& numbers) {
  Axes all[2];
  for (const Attr& pair : numbers) {
    const auto* sides = pair.get<AttrList>();
    if (sides == nullptr) continue;
    if (sides->size() != 2 && !sides->empty()) wrong(eqn, "'dimension_numbers' has no two sides");
    std::vector<size_t> lengths;
    for (size_t i = 0; i < sides->size(); ++i) {
      const auto axes = ints((*sides)[i]);
      if (!axes) return;  // the lowering says what it expected
      all[i].insert(all[i].end(), axes->begin(), axes->end());
      lengths.push_back(axes->size());
    }
    if (lengths.size() == 2 && lengths[0] != lengths[1]) wrong(eqn, "'dimension_numbers' pairs unequal numbers of axes");
  }
  for (size_t i = 0; i < 2; ++i) {
    if (const int64_t rank = rank_of(eqn.input(i)); rank >= 0) check_axes(eqn, "dimension_numbers", all[i], rank);
  }
}

// JAX's own primitives with such parameters: those of other libraries may mean what they like by them.
bool is_known(std::string_view primitive) {
  static const std::unordered_set<std::string_view> names = {"argmax",
                                                             "argmin",
                                                             "broadcast_in_dim",
                                                             "concatenate",
                                                             "cumlogsumexp",
                                                             "cummax",
                                                             "cummin",
                                                             "cumprod",
                                                             "cumsum",
                                                             "dot_general",
                                                             "dynamic_slice",
                                                             "gather",
                                                             "iota",
                                                             "pad",
                                                             "reduce_and",
                                                             "reduce_max",
                                                             "reduce_min",
                                                             "reduce_or",
                                                             "reduce_prod",
                                                             "reduce_sum",
                                                             "reduce_window",
                                                             "reduce_window_max",
                                                             "reduce_window_min",
                                                             "reduce_window_sum",
                                                             "reduce_xor",
                                                             "rev",
                                                             "slice",
                                                             "sort",
                                                             "split",
                                                             "squeeze",
                                                             "transpose"};
  return names.contains(primitive);
}

constexpr std::string_view kAxes[] = {"axes", "axis", "dimension", "dimensions"};
constexpr std::string_view kPerAxis[] = {"permutation",    "start_indices", "limit_indices",    "strides",
                                         "padding_config", "slice_sizes",   "window_dimensions"};

}  // namespace

void check_equation(const Node& eqn) {
  if (!is_known(eqn.op().name)) return;
  const int64_t in = rank_of(eqn.input(0)), out = eqn.num_results() > 0 ? rank_of(eqn.result(0)) : -1;
  for (std::string_view name : kAxes) {
    const Attr* a = eqn.attr(name);
    if (a == nullptr || (in < 0 && out < 0)) continue;
    // iota has no operand; the others lead from more axes to fewer.
    if (const auto axes = ints(*a)) check_axes(eqn, name, *axes, std::max(in, out));
  }
  if (in < 0) return;
  for (std::string_view name : kPerAxis) {
    const Attr* a = eqn.attr(name);
    if (a == nullptr) continue;
    const auto* rows = a->get<AttrList>();
    const auto numbers = ints(*a);
    if (numbers || rows != nullptr) check_count(eqn, name, numbers ? numbers->size() : rows->size(), in);
    if (numbers && name == "permutation") check_axes(eqn, name, *numbers, in);
  }
  if (const Attr* a = eqn.attr("broadcast_dimensions"); a != nullptr && out >= 0) {
    if (const auto axes = ints(*a)) {
      check_count(eqn, "broadcast_dimensions", axes->size(), in);
      check_axes(eqn, "broadcast_dimensions", *axes, out);
    }
  }
  if (const Attr* a = eqn.attr("dimension_numbers"); a != nullptr && eqn.is("dot_general")) {
    if (const auto* numbers = a->get<AttrList>()) check_dot(eqn, *numbers);
  }
}

}  // namespace sardonyx
