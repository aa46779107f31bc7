#include "passes/deferred_node.h"

#include <algorithm>
#include <optional>

#include "ir/tensor/half.h"
#include "ir/tensor/tensor_view.h"
#include "sardonyx/eval.h"

namespace sardonyx {
namespace {

// A copy of a node in a model of its own, so that it can be evaluated after the original model is gone.
struct HeldNode {
  explicit HeldNode(const Node& n) : model(n.op().dialect) {
    const std::vector<Value*> absent(n.num_inputs(), nullptr);
    const auto items = n.attrs().items();
    node = &model.new_node(n.op(), absent, n.num_results(), model.attrs(AttrInit(items.begin(), items.end())));
  }
  Model model;
  Node* node = nullptr;
};

// The permutation of a transpose; nullopt if `n` is not a transpose or its permutation is invalid.
std::optional<std::vector<int64_t>> transposed_axes(const Node& n, std::span<const TensorPtr> operands) {
  if (operands.empty() || operands[0] == nullptr) return {};
  std::optional<std::vector<int64_t>> axes;
  if (n.is("transpose") && operands.size() > 1 && operands[1] != nullptr) axes = operands[1]->to_ints();
  if (n.is("Transpose")) axes = n.attr_ints("perm");
  const auto rank = static_cast<int64_t>(operands[0]->rank());
  if (!axes || static_cast<int64_t>(axes->size()) != rank) return {};
  std::vector<bool> seen(axes->size(), false);
  for (int64_t& a : *axes) {
    if (a < 0) a += rank;
    if (a < 0 || a >= rank || seen[static_cast<size_t>(a)]) return {};
    seen[static_cast<size_t>(a)] = true;
  }
  return axes;
}

std::vector<int64_t> shape_of(const Type& t) {
  std::vector<int64_t> shape;
  for (Dim d : t.dims()) shape.push_back(d.value());
  return shape;
}

// Transposes without copying, through any casts; null if the elements are not in memory.
TensorPtr transposed_view_or_cast(const TensorPtr& x, std::span<const int64_t> axes) {
  const TensorPtr source = cast_source(x);
  if (source == nullptr) return transposed_view(x, axes);
  const TensorPtr moved = transposed_view_or_cast(source, axes);  // recurses once per nested cast; passes make at most three
  if (moved == nullptr) return nullptr;
  return x->dtype() == DType::kF16 ? as_half(moved) : as_single(moved);
}

}  // namespace

TensorPtr view_by_node(const Node& n, std::span<const TensorPtr> operands, const Type& t) {
  if (operands.empty() || operands[0] == nullptr || operands[0]->dtype() != t.dtype()) return nullptr;
  const TensorPtr& x = operands[0];
  if (const auto axes = transposed_axes(n, operands)) return transposed_view_or_cast(x, *axes);
  static constexpr std::string_view kSameOrder[] = {"reshape", "squeeze", "expand_dims", "identity"};
  const bool same_order =
      n.op().dialect == DialectId::kMil && std::ranges::find(kSameOrder, n.op().name) != std::end(kSameOrder);
  if (!same_order || x->is_deferred() || x->is_splat() || bit_width(x->dtype()) < 8) return nullptr;
  if (t.static_size() != x->size()) return nullptr;
  return x->reshaped(shape_of(t));
}

TensorPtr half_by_node(const Node& n, std::span<const TensorPtr> operands, const Type& t) {
  const bool is_cast = n.is("cast") || n.is("Cast");
  if (!is_cast || operands.empty() || operands[0] == nullptr || t.static_size() != operands[0]->size()) return nullptr;
  const TensorPtr& x = operands[0];
  if (x->dtype() == DType::kF32 && t.dtype() == DType::kF16) return as_half(x);
  return x->dtype() == DType::kF16 && t.dtype() == DType::kF32 ? as_single(x) : nullptr;
}

TensorPtr defer_node(const Node& n, std::vector<TensorPtr> operands, const Type& t, uint64_t memory_cap) {
  if (TensorPtr view = view_by_node(n, operands, t)) return view;
  if (TensorPtr half = half_by_node(n, operands, t)) return half;
  auto held = std::make_shared<HeldNode>(n);
  auto compute = [held, memory_cap, operands = std::move(operands)] {
    const auto results = evaluate_node(*held->node, operands, memory_cap);
    SX_CHECK(results && results->front() != nullptr, "a constant that was folded cannot be computed");
    std::vector<std::byte> scratch;
    const auto bytes = results->front()->bytes(scratch);
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  return Tensor::defer(t.dtype(), shape_of(t), std::move(compute));
}

}  // namespace sardonyx
