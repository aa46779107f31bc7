#include "lower/jax_to_onnx/check_equation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "sardonyx/error.h"

namespace sardonyx::jax_to_onnx {
namespace {

using Axes = std::vector<int64_t>;

// The rank of v, or -1 if unknown.
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

// Checks that `axes` are distinct axes of a value of that rank.
void check_axes(const Node& eqn, std::string_view name, const Axes& axes, int64_t rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank)
      contradicts(eqn, fmt::format("'{}' names axis {} of a value with {} axes", name, axes[i], rank));
    if (std::find(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), axes[i]) !=
        axes.begin() + static_cast<std::ptrdiff_t>(i))
      contradicts(eqn, fmt::format("'{}' names axis {} twice", name, axes[i]));
  }
}

void check_count(const Node& eqn, std::string_view name, size_t found, int64_t rank) {
  if (static_cast<int64_t>(found) != rank)
    contradicts(eqn, fmt::format("'{}' has {} entries for a value with {} axes", name, found, rank));
}

// ((contracting axes of the first operand, of the second), (batch axes of the first, of the second))
void check_dot(const Node& eqn, const AttrList& numbers) {
  Axes all[2];
  for (const Attr& pair : numbers) {
    const auto* sides = pair.get<AttrList>();
    if (sides == nullptr) continue;
    if (sides->size() != 2 && !sides->empty()) contradicts(eqn, "'dimension_numbers' must have two sides");
    std::vector<size_t> lengths;
    for (size_t i = 0; i < sides->size(); ++i) {
      const auto axes = ints((*sides)[i]);
      if (!axes) return;  // the lowering reports what it expected
      all[i].insert(all[i].end(), axes->begin(), axes->end());
      lengths.push_back(axes->size());
    }
    if (lengths.size() == 2 && lengths[0] != lengths[1]) contradicts(eqn, "'dimension_numbers' pairs unequal numbers of axes");
  }
  for (size_t i = 0; i < 2; ++i) {
    if (const int64_t rank = rank_of(eqn.input(i)); rank >= 0) check_axes(eqn, "dimension_numbers", all[i], rank);
  }
}

// GatherDimensionNumbers and ScatterDimensionNumbers. Windows are in the result of a gather and in the
// updates of a scatter; index vectors lie along the last axis of the indices.
void check_indexing(const Node& eqn, const AttrDict& numbers) {
  const bool is_gather = eqn.is("gather");
  const Value* windowed = is_gather ? eqn.result(0) : eqn.input(2);
  const int64_t operand = rank_of(eqn.input(0)), indices = rank_of(eqn.input(1)), windows = rank_of(windowed);
  if (operand < 0 || indices < 0 || windows < 0) return;
  if (indices == 0) contradicts(eqn, "the indices have no axis of index vectors");
  const auto field = [&](std::string_view name, int64_t rank) {
    const auto at = std::ranges::find(numbers, name, &AttrDict::value_type::first);
    const auto axes = at == numbers.end() ? std::nullopt : ints(at->second);
    if (!axes) return Axes{};  // the lowering reports what it expected
    check_axes(eqn, name, *axes, rank);
    return *axes;
  };
  const Axes window = field(is_gather ? "offset_dims" : "update_window_dims", windows);
  const Axes dropped = field(is_gather ? "collapsed_slice_dims" : "inserted_window_dims", operand);
  const Axes batching = field("operand_batching_dims", operand);
  const Axes of_indices = field(is_gather ? "start_indices_batching_dims" : "scatter_indices_batching_dims", indices - 1);
  const Axes indexed = field(is_gather ? "start_index_map" : "scatter_dims_to_operand_dims", operand);
  if (batching.size() != of_indices.size()) contradicts(eqn, "'dimension_numbers' pairs unequal numbers of batch axes");
  for (int64_t a : batching) {
    if (std::ranges::find(dropped, a) != dropped.end() || std::ranges::find(indexed, a) != indexed.end())
      contradicts(eqn, fmt::format("'dimension_numbers' uses axis {} for a batch and for windows", a));
  }
  if (const Dim count = eqn.input(1)->type()->dim(static_cast<size_t>(indices - 1));
      count.is_int() && !std::cmp_equal(count.value(), indexed.size()))
    contradicts(eqn, fmt::format("index vectors have {} entries for {} axes", count.value(), indexed.size()));
  check_count(eqn, "dimension_numbers", window.size() + dropped.size() + batching.size(), operand);
  check_count(eqn, "dimension_numbers", window.size() + static_cast<size_t>(indices - 1), windows);
}

}  // namespace

bool has_known_axes(std::string_view primitive) {
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
                                                             "reduce",
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
                                                             "scatter",
                                                             "scatter-add",
                                                             "scatter-max",
                                                             "scatter-min",
                                                             "scatter-mul",
                                                             "scatter-sub",
                                                             "slice",
                                                             "sort",
                                                             "split",
                                                             "squeeze",
                                                             "transpose"};
  return names.contains(primitive);
}

namespace {

// How a parameter of that name refers to axes of the operand or the result.
enum class ParamKind : uint8_t { kOther, kAxes, kPerAxis, kPermutation, kBroadcast, kNumbers };

ParamKind param_kind(std::string_view name) {
  static constexpr std::pair<std::string_view, ParamKind> all[] = {
      {"axes", ParamKind::kAxes},
      {"axis", ParamKind::kAxes},
      {"dimension", ParamKind::kAxes},
      {"dimensions", ParamKind::kAxes},
      {"permutation", ParamKind::kPermutation},
      {"start_indices", ParamKind::kPerAxis},
      {"limit_indices", ParamKind::kPerAxis},
      {"strides", ParamKind::kPerAxis},
      {"padding_config", ParamKind::kPerAxis},
      {"slice_sizes", ParamKind::kPerAxis},
      {"window_dimensions", ParamKind::kPerAxis},
      {"broadcast_dimensions", ParamKind::kBroadcast},
      {"dimension_numbers", ParamKind::kNumbers},
  };
  for (const auto& [known, what] : all) {
    if (known == name) return what;
  }
  return ParamKind::kOther;
}

}  // namespace

void contradicts(const Node& eqn, std::string_view what) {
  throw Error(ErrorCode::kInvalidModel, fmt::format("equation '{}' is inconsistent: {}", eqn.op().name, what),
              {"help: the program was changed after JAX traced it; save it again"});
}

void check_counts(const Node& eqn) {
  const Op& op = eqn.op();
  const auto outside = [](size_t count, int least, int most) {
    return std::cmp_less(count, least) || (most >= 0 && std::cmp_greater(count, most));
  };
  if (outside(eqn.num_inputs(), op.min_inputs, op.max_inputs) || outside(eqn.num_results(), op.min_outputs, op.max_outputs))
    contradicts(eqn, fmt::format("the primitive cannot have {} operands and {} results", eqn.num_inputs(), eqn.num_results()));
}

namespace {

// Operands of one rank, as many initial values, and a body that combines two of each.
void check_reduce(const Node& eqn) {
  const size_t n = eqn.num_inputs() / 2;
  if (eqn.num_inputs() != 2 * n || eqn.num_results() != n || eqn.bodies().size() != 1)
    contradicts(eqn, "it needs an initial value and a result for each operand, and a body");
  const Graph& body = *eqn.bodies()[0].graph;
  if (body.inputs().size() != 2 * n || body.outputs().size() != n)
    contradicts(eqn, fmt::format("its body has {} inputs and {} results", body.inputs().size(), body.outputs().size()));
  for (size_t i = 1; i < n; ++i) {
    if (rank_of(eqn.input(i)) != rank_of(eqn.input(0))) contradicts(eqn, "its operands have different numbers of axes");
  }
}

}  // namespace

void check_equation(const Node& eqn) {
  if (eqn.is("reduce")) check_reduce(eqn);
  const int64_t in = rank_of(eqn.input(0)), out = eqn.num_results() > 0 ? rank_of(eqn.result(0)) : -1;
  for (const NamedAttr& a : eqn.attrs().items()) {
    const ParamKind kind = param_kind(a.name);
    switch (kind) {
      case ParamKind::kOther: break;
      case ParamKind::kAxes:
        // These name axes of their results, the others of their operands.
        if (const auto axes = ints(a.value); axes && (in >= 0 || out >= 0)) {
          const bool is_of_result = eqn.is("iota") || eqn.is("expand_dims") || eqn.is("stack") || in < 0;
          check_axes(eqn, a.name, *axes, is_of_result ? out : in);
        }
        break;
      case ParamKind::kPerAxis:
      case ParamKind::kPermutation: {
        const auto* rows = a.value.get<AttrList>();
        const auto numbers = ints(a.value);
        if (in < 0 || (!numbers && rows == nullptr)) break;
        check_count(eqn, a.name, numbers ? numbers->size() : rows->size(), in);
        if (numbers && kind == ParamKind::kPermutation) check_axes(eqn, a.name, *numbers, in);
        break;
      }
      case ParamKind::kBroadcast:
        if (const auto axes = ints(a.value); axes && in >= 0 && out >= 0) {
          check_count(eqn, a.name, axes->size(), in);
          check_axes(eqn, a.name, *axes, out);
        }
        break;
      case ParamKind::kNumbers:
        if (const auto* numbers = a.value.get<AttrList>(); numbers != nullptr && in >= 0 && eqn.is("dot_general"))
          check_dot(eqn, *numbers);
        if (const auto* numbers = a.value.get<AttrDict>();
            numbers != nullptr && (eqn.is("gather") || (eqn.op().name.starts_with("scatter") && eqn.num_inputs() == 3)))
          check_indexing(eqn, *numbers);
        break;
    }
  }
}

}  // namespace sardonyx::jax_to_onnx
