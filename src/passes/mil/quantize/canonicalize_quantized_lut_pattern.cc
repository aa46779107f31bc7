//   indices, lut: int8 ── constexpr_lut_to_dense ── constexpr_blockwise_shift_scale ── y
//     =>    lut: int8 ── constexpr_blockwise_shift_scale ── constexpr_lut_to_dense (with the indices) ── y
//
// A table of integers is scaled before the look-up instead of after it: fewer numbers, and the only order
// that Core ML supports up to iOS 18. From iOS 26 on, which supports both, and if dequant_first is false, a
// table with one scale is scaled after the look-up: the weights stay integers. If scales differ along an axis
// and the table has fewer blocks there, the blocks are repeated, one for each scale. Unchanged: integers with
// another user or returned by the block, tables of vectors with several scales, and sizes that do not divide
// each other. After coremltools' pass of this name, which ignores the vector axis.
#include <algorithm>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr int kIos26 = 10;

// The table with the blocks of each axis repeated, so that there are `blocks` of them; null if the counts do
// not divide.
TensorPtr repeated(const TensorPtr& lut, std::span<const int64_t> blocks) {
  std::vector<int64_t> from(lut->shape().begin(), lut->shape().end()), to = from;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (std::max(blocks[i], from[i]) % std::min(blocks[i], from[i]) != 0) return nullptr;
    to[i] = std::max(blocks[i], from[i]);
  }
  if (to == from) return lut;
  const std::vector<double> values = doubles(*lut);
  std::vector<double> out;
  int64_t size = 1;
  for (int64_t d : to) size *= d;
  for (int64_t k = 0; k < size; ++k) {
    int64_t rest = k, place = 0, stride = 1;
    for (size_t i = to.size(); i-- > 0;) {
      place += rest % to[i] / (to[i] / from[i]) * stride;
      rest /= to[i];
      stride *= from[i];
    }
    out.push_back(values[static_cast<size_t>(place)]);
  }
  return tensor_of(lut->dtype(), to, out);
}

// A constant of the same elements with two more axes.
Value* with_table_axes(Rewriter& b, Value* v) {
  if (v == nullptr) return nullptr;
  std::vector<int64_t> shape(v->constant()->shape().begin(), v->constant()->shape().end());
  shape.insert(shape.end(), {1, 1});
  return b.constant(v->constant()->reshaped(shape));
}

// Whether the name is more than the op's type.
bool is_telling(const Node& n) { return n.name().view().find(n.op().name) == std::string_view::npos; }

// `inner` and its user `made` replace `first` and its user `second`, and take their names.
void replace(Node& first, Value& inner, Node& second, Value& made) {
  if (is_telling(first)) {
    inner.def()->set_name(first.name());
    inner.set_name(first.name());
  }
  made.set_name(second.result()->name());
  if (is_telling(second)) made.def()->set_name(second.name());
  Graph& g = *second.graph();
  g.replace_uses(*second.result(), made);
  g.erase(second);
  g.erase(first);
}

bool scale_first(Node& look_up, Rewriter& b, PassContext& context) {
  Value* integers = look_up.result();
  if (!integers->has_one_use()) return false;
  Node& shift = *(*integers->uses().begin()).owner;
  const auto shifted = ConstexprBlockwiseShiftScale::of(shift, context.facts);
  if (!shifted || shift.graph() != look_up.graph()) return false;
  Value *scale = shifted->scale(), *offset = shifted->offset();
  Value* lut = ConstexprLutToDense(look_up, context.facts).lut();
  if (!scale->is_constant() || (offset != nullptr && !offset->is_constant())) return false;  // then the look-up gives `data`
  const auto blocks = scale->constant()->shape();
  if (std::ranges::any_of(blocks, [](int64_t n) { return n != 1; })) {
    if (!lut->is_constant() || lut->constant()->is_promise() || lut->constant()->shape().back() != 1) return false;
    const TensorPtr wide = repeated(lut->constant(), blocks);
    if (wide == nullptr) return false;
    if (wide != lut->constant()) lut = b.constant(wide);
  }
  b.set_insertion_point(&look_up);
  b.set_provenance(b.model().merge_provenance(look_up.provenance(), shift.provenance()));
  scale = with_table_axes(b, scale);
  offset = with_table_axes(b, offset);
  Value* table = b.constexpr_blockwise_shift_scale({.data = lut, .offset = offset, .scale = scale});
  Value* made = b.like(look_up, {{"lut", table}});
  replace(look_up, *table, shift, *made);
  return true;
}

bool scale_last(Node& shift, Rewriter& b, PassContext& context) {
  if (!shift.result()->has_one_use()) return false;
  Node& look_up = *(*shift.result()->uses().begin()).owner;
  if (!look_up.is("constexpr_lut_to_dense") || look_up.graph() != shift.graph() || look_up.unchecked()) return false;
  const auto one = [&](const Value* v) { return v == nullptr || (v->is_constant() && v->constant()->size() == 1); };
  const ConstexprBlockwiseShiftScale shifted(shift, context.facts);
  Value *scale = shifted.scale(), *offset = shifted.offset();
  const Type* out = look_up.result()->type();
  if (!one(scale) || !one(offset) || out == nullptr || !out->ranked()) return false;
  b.set_insertion_point(&look_up);
  b.set_provenance(b.model().merge_provenance(look_up.provenance(), shift.provenance()));
  const auto wide = [&](Value* v) {
    return v == nullptr ? nullptr : v->constant()->reshaped(std::vector<int64_t>(out->rank(), 1));
  };
  Value* integers = b.like(look_up, {{"lut", shifted.data()}});
  integers->set_type(b.types().with_dtype(out, shifted.data()->dtype()));
  Value* made = b.constexpr_blockwise_shift_scale({.data = integers, .offset = wide(offset), .scale = wide(scale)});
  replace(shift, *integers, look_up, *made);
  return true;
}

}  // namespace

Pass canonicalize_quantized_lut_pattern() {
  return Pass::on_graph(Numerics::kExact, needs({"constexpr_lut_to_dense"}),
                        [](Graph& top, PassContext& context) {
                          size_t changed = 0;
                          const bool first = context.options().flag("dequant_first", true);
                          for (Graph* g : graphs_in(top)) {
                            Rewriter b(*g, context);
                            const bool last = b.version() >= kIos26 || !first;
                            for (Node& n : g->nodes()) {
                              if (!n.is(last ? "constexpr_blockwise_shift_scale" : "constexpr_lut_to_dense") || n.unchecked())
                                continue;
                              if (last ? scale_last(n, b, context) : scale_first(n, b, context)) ++changed;
                            }
                          }
                          context.log.count("reordered", changed);
                          return changed > 0;
                        })
      .option("dequant_first", "scale tables before the look-up, as required up to iOS 18 (true)");
}

}  // namespace sardonyx::mil
