#include "passes/mincut/family.h"

#include <algorithm>
#include <unordered_map>

namespace sardonyx::layout {
namespace {

const std::unordered_map<std::string_view, const Family*>& families() {
  static const std::unordered_map<std::string_view, const Family*> all = {
      {"Clip", &kFirstOperand},
      {"CastLike", &kFirstOperand},
      {"MatMul", &kMatMul},
      {"LayerNormalization", &kLayerNormalization},
      {"RMSNormalization", &kLayerNormalization},
      {"Shape", &kShape},
      {"Size", &kSize},
      {"ReduceL1", &kReduce},
      {"ReduceL2", &kReduce},
      {"ReduceLogSum", &kReduce},
      {"ReduceLogSumExp", &kReduce},
      {"ReduceMax", &kReduce},
      {"ReduceMean", &kReduce},
      {"ReduceMin", &kReduce},
      {"ReduceProd", &kReduce},
      {"ReduceSum", &kReduce},
      {"ReduceSumSquare", &kReduce},
      {"ArgMax", &kArgReduce},
      {"ArgMin", &kArgReduce},
      {"Softmax", &kAlongAxis},
      {"LogSoftmax", &kAlongAxis},
      {"Hardmax", &kAlongAxis},
      {"LpNormalization", &kAlongAxis},
      {"CumSum", &kCumSum},
      {"CumProd", &kCumSum},
      {"TopK", &kTopK},
      {"Concat", &kConcat},
      {"Split", &kSplit},
      {"Gather", &kGather},
      {"GatherElements", &kGatherElements},
      {"ScatterElements", &kGatherElements},
      {"QuantizeLinear", &kQuantize},
      {"DequantizeLinear", &kQuantize},
      {"Slice", &kSlice},
      {"Pad", &kPad},
      {"Tile", &kTile},
      {"Expand", &kExpand},
      {"Resize", &kResize},
      {"Squeeze", &kSqueeze},
      {"Unsqueeze", &kUnsqueeze},
      {"Reshape", &kReshape},
      {"Flatten", &kReshape},
  };
  return all;
}

bool is_one_element(const Value& v) {
  return std::ranges::all_of(v.type()->dims(), [](Dim d) { return d.is(1); });
}

}  // namespace

const Family* family_of(const Node& n) {
  const Op& op = n.op();
  if (!op.known) return nullptr;  // no operator of other domains that is known has such a name
  if (op.has(Trait::kUnary) || op.has(Trait::kBroadcasts)) return &kElementwise;
  const auto at = families().find(op.name);
  return at == families().end() ? nullptr : at->second;
}

std::optional<size_t> rank_of(const Value* v) {
  if (v == nullptr || !v->ranked() || v->type()->rank() > Layout::kMaxRank) return std::nullopt;
  return v->type()->rank();
}

std::optional<int64_t> axis_in(std::optional<int64_t> axis, size_t rank) {
  if (!axis) return std::nullopt;
  return *axis < 0 ? *axis + static_cast<int64_t>(rank) : *axis;
}

Ints axes_in(Ints axes, size_t rank) {
  for (int64_t& a : axes) a = *axis_in(a, rank);
  return axes;
}

Ints positions(const Layout& l, const Ints& axes) {
  Ints out;
  for (int64_t a : axes) out.push_back(static_cast<int64_t>(l.position(static_cast<size_t>(a))));
  return out;
}

Ints sorted(Ints v) {
  std::sort(v.begin(), v.end());
  return v;
}

bool same(Move& m, const Layout& l) {
  m.operands[0] = m.main = l;
  std::fill(m.results.begin(), m.results.end(), l);
  return true;
}

bool drop_axes(const Change& c, const Ints& axes, std::optional<int64_t> keepdims, Move& m) {
  if (!keepdims) return false;
  if (*keepdims != 0) return same(m, c.given);
  m.main = c.forward ? c.given : with_axes(c.given, axes);
  m.operands[0] = m.main;
  m.results[0] = c.forward ? without_axes(c.given, axes) : c.given;
  return true;
}

Layout broadcast(const Value& v, const Layout& l) {
  Layout out;
  if (is_one_element(v)) return out;
  out.rank = 0;
  const int missing = static_cast<int>(l.rank - v.type()->rank());
  for (size_t k = 0; k < l.rank; ++k) {
    const int axis = l.from[k] - missing;
    if (axis >= 0 || out.rank > 0) out.from[out.rank++] = static_cast<int8_t>(std::max<int>(axis, Layout::kNew));
  }
  return out;
}

double along(const Layout& l, int64_t axis, size_t rank) {
  const bool was_last = axis == static_cast<int64_t>(rank) - 1;
  const bool is_last = l.from[rank - 1] == axis;
  return was_last == is_last ? 0 : (was_last ? 2 : -2);
}

std::optional<Ints> constant_ints(PassContext& context, const Node& n, size_t slot) {
  const Value* v = n.input(slot);
  return v != nullptr && v->is_constant() ? context.ints(v) : std::nullopt;
}

bool is_list_of(const Value* v, size_t length) {
  return v != nullptr && v->ranked() && v->type()->rank() == 1 && v->type()->dim(0).is(static_cast<int64_t>(length));
}

bool has_axes_attr(const Node& n) {
  return n.attr("axes") != nullptr && std::ranges::any_of(n.op().attrs, [](const AttrSpec& a) { return a.name == "axes"; });
}

std::optional<Ints> axes_of(PassContext& context, const Node& n, size_t slot, size_t rank) {
  std::optional<Ints> axes;
  if (n.input(slot) != nullptr) {
    axes = constant_ints(context, n, slot);
  } else if (has_axes_attr(n)) {
    axes = ints_attr(n, "axes");
  }
  return axes ? std::optional(axes_in(std::move(*axes), rank)) : std::nullopt;
}

void set_axes(const Node& n, size_t slot, Ints axes, Spelling& s) {
  if (n.input(slot) != nullptr) {
    s.operands[slot] = list_like(*n.input(slot), axes, s.b);
  } else {
    s.attrs.emplace_back("axes", std::move(axes));
  }
}

Value* list_like(const Value& like, const Ints& v, OnnxBuilder& b) {
  if (like.dtype() != DType::kI32) return b.i64s(v);
  const std::vector<int32_t> narrow(v.begin(), v.end());
  return b.constant(Tensor::of<int32_t>(DType::kI32, {static_cast<int64_t>(v.size())}, narrow));
}

void spell_axis(const Node& n, const Move& m, Spelling& s) {
  const auto axis = axis_in(int_attr(n, "axis"), *rank_of(n.input(0)));
  s.attrs.emplace_back("axis", static_cast<int64_t>(m.main.position(static_cast<size_t>(*axis))));
}

}  // namespace sardonyx::layout
