//   constexpr_affine_dequantize(d) ── transpose ── expand_dims ── y    =>    constexpr_affine_dequantize(d transposed and reshaped) ── y
//
// With one scale for all elements, transposes and ops that only reshape are applied to the integers; with one
// scale per channel only transposes are, and the axis moves along. A chain of ops with one user each ends at
// another user, a result of the block, or another constexpr op on the same integers. After coremltools' pass
// of this name.
#include <algorithm>

#include "ir/tensor/tensor_transform.h"
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

// The integers, transposed and reshaped by the chain so far.
struct Integers {
  TensorPtr data;
  int64_t axis;
};

std::optional<Integers> through(Node& n, const Integers& from, bool per_tensor, PassContext& context) {
  const Type* type = n.result()->type();
  if (type == nullptr || !type->ranked() || type->rank() == 0) return std::nullopt;
  if (const auto transpose = Transpose::of(n, context.facts)) {
    const auto perm = transpose->perm();
    if (!perm) return std::nullopt;
    const auto at = std::ranges::find(*perm, from.axis);
    return Integers{transposed(from.data, *perm), per_tensor ? from.axis : at - perm->begin()};
  }
  if (!per_tensor || !(n.is("reshape") || n.is("expand_dims") || n.is("squeeze"))) return std::nullopt;
  std::vector<int64_t> shape;
  for (Dim d : type->dims()) {
    if (!d.is_int()) return std::nullopt;
    shape.push_back(d.value());
  }
  return Integers{from.data->reshaped(shape), from.axis < static_cast<int64_t>(shape.size()) ? from.axis : 0};
}

bool merge(Node& n, Rewriter& b, PassContext& context) {
  const ConstexprAffineDequantize op(n, context.facts);
  const Value *data = op.quantized_data(), *scale = op.scale(), *zero = op.zero_point();
  const auto axis = op.axis();
  if (data == nullptr || !data->is_constant() || !data->has_one_use() || data->constant()->is_promise() || !axis ||
      !scale->ranked() || !zero->ranked())
    return false;
  const bool per_tensor = scale->type()->rank() == 0 && zero->type()->rank() == 0;
  const auto first_axis = static_cast<int64_t>(*axis);
  Integers now{data->constant(), first_axis};
  std::vector<Node*> chain{&n};
  for (;;) {
    const Value* v = chain.back()->result();
    if (!v->has_one_use()) break;
    Node& user = *(*v->uses().begin()).owner;
    if (user.is_boundary() || user.graph() != n.graph() || user.unchecked()) break;
    const auto next = through(user, now, per_tensor, context);
    if (!next) break;
    now = *next;
    chain.push_back(&user);
  }
  if (chain.size() == 1) return false;
  Node& last = *chain.back();
  b.set_insertion_point(&last);
  b.set_provenance(n.model().merge_provenance(n.provenance(), last.provenance()));
  Value* same_axis = op.value_in("axis");
  Value* made =
      b.like(n, {{"quantized_data", now.data}, {"axis", now.axis == first_axis ? Rewriter::Ints(same_axis) : now.axis}});
  made->set_name(last.result()->name());
  made->def()->set_name(last.result()->name());
  n.graph()->replace_uses(*last.result(), *made);
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) (*at)->graph()->erase(**at);
  return true;
}

}  // namespace

Pass merge_affine_dequantize_with_consecutive_ops() {
  return Pass::on_graph(Numerics::kExact, needs({"constexpr_affine_dequantize"}), [](Graph& top, PassContext& context) {
    size_t merged = 0;
    for (Graph* g : graphs_in(top)) {
      Rewriter b(*g, context);
      for (Node& n : g->nodes()) {
        if (n.is("constexpr_affine_dequantize") && !n.unchecked() && merge(n, b, context)) ++merged;
      }
    }
    context.log.count("merged", merged);
    return merged > 0;
  });
}

}  // namespace sardonyx::mil
