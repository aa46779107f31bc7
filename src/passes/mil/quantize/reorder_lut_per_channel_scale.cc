//   constexpr_lut_to_dense ── constexpr_blockwise_shift_scale ── linear(x, ·, bias)
//     =>    constexpr_lut_to_dense ── linear(x, ·, bias / scale) ── mul(scale)
//
// The Neural Engine wants the scale after the product. Also for conv, and for matmul on either side. All
// users of the scaled weights must be such ops, take them as weights, and agree on the axis of the result's
// channels; the scale varies along no other axis, and there is no offset. A bias must be constant, and its
// quotient finite. Numerics: the products are scaled after they are summed. After coremltools' pass of this
// name, which checks only the type of the users.
#include <algorithm>
#include <cmath>
#include <map>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

// How one op uses the weights.
struct User {
  Node* node;
  std::string_view slot;
  size_t channels;            // the axis of the weights that becomes the result's channels
  std::vector<int64_t> wide;  // the scale's shape after the op
};

std::optional<User> user(const Use& use, size_t rank, int64_t count, PassContext& context) {
  Node& n = *use.owner;
  const Type* out = n.num_results() == 1 ? n.result()->type() : nullptr;
  if (n.unchecked() || out == nullptr || !out->ranked()) return std::nullopt;
  User r{&n, slot_of(n.op(), n.operand_index(use), n.num_inputs())->name, 0, {}};
  if (n.is("linear") && r.slot == "weight") {
    r.wide = out->rank() == 1 ? std::vector<int64_t>{count} : std::vector<int64_t>{1, count};
    return r;
  }
  if (n.is("conv") && r.slot == "weight") {
    r.wide.assign(out->rank(), 1);
    r.wide[1] = count;
    return r;
  }
  const auto product = Matmul::of(n, context.facts);
  if (!product || rank < 2 || out->rank() < rank || product->x() == product->y()) return std::nullopt;
  const bool left = r.slot == "x", flipped = left ? product->transpose_x() : product->transpose_y();
  r.channels = left != flipped ? rank - 2 : rank - 1;
  r.wide.assign(rank, 1);
  r.wide[rank - (left ? 2 : 1)] = count;
  return r;
}

// bias / scale; null unless all of it is finite.
TensorPtr quotient(const Tensor& bias, const std::vector<double>& scale) {
  std::vector<double> out = doubles(bias);
  if (scale.size() != 1 && scale.size() != out.size()) return nullptr;
  for (size_t i = 0; i < out.size(); ++i) out[i] /= scale.size() == 1 ? scale[0] : scale[i];
  TensorPtr rounded = tensor_of(bias.dtype(), {bias.shape().begin(), bias.shape().end()}, out);
  const std::vector<double> back = doubles(*rounded);
  return std::ranges::all_of(back, [](double v) { return std::isfinite(v); }) ? rounded : nullptr;
}

bool reorder(Node& look_up, PassContext& context, const std::function<Rewriter&(Graph&)>& builder) {
  Value* table = look_up.result();
  if (!table->has_one_use()) return false;
  Node& shift = *(*table->uses().begin()).owner;
  const auto shifted = ConstexprBlockwiseShiftScale::of(shift, context.facts);
  if (!shifted || !is_float(table->dtype())) return false;
  const Value *scale = shifted->scale(), *offset = shifted->offset();
  if (!scale->is_constant() || (offset != nullptr && context.splat(offset) != 0)) return false;
  const auto shape = scale->constant()->shape();
  const std::vector<double> factors = doubles(*scale->constant());
  std::vector<User> users;
  std::vector<TensorPtr> biases;
  for (const Use& u : shift.result()->uses()) {
    const auto r = user(u, shape.size(), scale->constant()->size(), context);
    if (!r || (!users.empty() && users[0].channels != r->channels)) return false;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (axis != r->channels && shape[axis] != 1) return false;
    }
    const Value* bias = operand(*r->node, context, "bias");
    if (bias != nullptr) {
      if (!bias->is_constant()) return false;
      biases.push_back(quotient(*bias->constant(), factors));
      if (biases.back() == nullptr) return false;
    } else {
      biases.push_back(nullptr);
    }
    users.push_back(*r);
  }
  if (users.empty()) return false;
  for (size_t i = users.size(); i-- > 0;) {
    Node& n = *users[i].node;
    Graph& g = *n.graph();
    Rewriter& b = builder(g);
    b.set_insertion_point(&n);
    b.set_provenance(b.model().merge_provenance(n.provenance(), shift.provenance()));
    Value* product =
        biases[i] != nullptr ? b.like(n, {{users[i].slot, table}, {"bias", biases[i]}}) : b.like(n, {{users[i].slot, table}});
    product->set_type(n.result()->type());
    Value* made = b.mul(product, scale->constant()->reshaped(users[i].wide));
    made->set_type(n.result()->type());
    made->set_name(n.result()->name());
    g.replace_uses(*n.result(), *made);
    g.erase(n);
  }
  shift.graph()->erase(shift);
  return true;
}

}  // namespace

Pass reorder_lut_per_channel_scale() {
  return Pass::on_graph(Numerics::kRounds, needs({"constexpr_lut_to_dense"}), [](Graph& top, PassContext& context) {
    size_t changed = 0;
    std::map<Graph*, Rewriter> builders;
    const auto builder = [&](Graph& g) -> Rewriter& { return builders.try_emplace(&g, g, context).first->second; };
    for (Graph* g : graphs_in(top)) {
      for (Node& n : g->nodes()) {
        if (n.is("constexpr_lut_to_dense") && !n.unchecked() && reorder(n, context, builder)) ++changed;
      }
    }
    context.log.count("reordered", changed);
    return changed > 0;
  });
}

}  // namespace sardonyx::mil
