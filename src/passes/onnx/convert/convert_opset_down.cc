// Lowering for convert_opset: rewrites operators that changed or did not exist yet in older operators.
//
//   opset 13: x, [1] ── Squeeze ── y     =>   opset 11: x ── Squeeze<axes=[1]> ── y
//
// Operands that used to be attributes must be constant. Follows the changes that the schemas of the `onnx`
// package describe.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "dialects/onnx/readers.h"
#include "passes/onnx/convert/convert_opset.h"

namespace sardonyx::onnx {
namespace {

// The opsets that introduced operators that the older spellings need.
constexpr int kMaxBroadcasts = 8, kWhereAndOrderedIntegers = 9, kUpsampleIsResize = 10, kFloatsAreEqual = 11,
              kClipHasOperands = 11;

// Same operator; the operands and attributes fit as they are.
std::vector<Value*> same(Rewriter& b, Node& n, OpsetConversion&) {
  return results_of(b.node(n.op().name, operands_of(n), n.num_results(), attrs_of(n)));
}

std::optional<int64_t> rank_of(const Value* v) {
  if (v == nullptr || !v->ranked()) return std::nullopt;
  return static_cast<int64_t>(v->type()->rank());
}

// The constant integers of operand `i`. If `rank` is known, negative entries are counted from the front.
std::optional<std::vector<int64_t>> axes_of(const Node& n, size_t i, std::optional<int64_t> rank, OpsetConversion& c) {
  auto axes = c.context().ints(n.input(i));
  if (axes && rank) {
    for (int64_t& axis : *axes) axis += axis < 0 ? *rank : 0;
  }
  return axes;
}

// --- operands that become attributes

std::vector<Value*> reduced_axes_to_attribute(Rewriter& b, Node& n, OpsetConversion& c) {
  AttrInit attrs = attrs_of(n, {"axes", "noop_with_empty_axes"});
  const bool reduces_none = int_attr(n, "noop_with_empty_axes") != 0;
  if (n.input(1) == nullptr) {
    if (reduces_none) return c.refuse(n, "it reduces no axis");
  } else {
    const auto axes = axes_of(n, 1, rank_of(n.input(0)), c);
    if (!axes) return c.refuse(n, "its axes are not constant");
    if (axes->empty() && reduces_none) return c.refuse(n, "it reduces no axis");
    if (!axes->empty()) attrs.push_back({"axes", *axes});
  }
  return {b.op(n.op().name, {n.input(0)}, std::move(attrs))};
}

// For Squeeze and Unsqueeze.
std::vector<Value*> unit_axes_to_attribute(Rewriter& b, Node& n, OpsetConversion& c) {
  AttrInit attrs;
  if (n.input(1) != nullptr) {
    const auto axes = axes_of(n, 1, rank_of(n.is("Squeeze") ? n.input(0) : n.result()), c);
    if (!axes) return c.refuse(n, "its axes are not constant");
    attrs.push_back({"axes", *axes});
  }
  return {b.op(n.op().name, {n.input(0)}, std::move(attrs))};
}

// The sizes of the pieces of a Split into equal parts; nullopt if they are not known.
std::optional<std::vector<int64_t>> sizes_of_pieces(const Node& n) {
  const auto axis = read::Split(n).axis();
  if (!axis || !rank_of(n.input(0))) return std::nullopt;
  const Dim size = n.input(0)->type()->dim(*axis);
  if (!size.is_int()) return std::nullopt;
  const auto count = static_cast<int64_t>(n.num_results()), piece = (size.value() + count - 1) / count;
  std::vector<int64_t> sizes(n.num_results(), piece);
  sizes.back() = size.value() - piece * (count - 1);
  if (sizes.back() < 0) return std::nullopt;
  return sizes;
}

std::vector<Value*> split_without_count(Rewriter& b, Node& n, OpsetConversion& c) {
  if (n.attr("num_outputs") == nullptr) return same(b, n, c);
  const auto sizes = sizes_of_pieces(n);
  if (!sizes) return c.refuse(n, "the size of its pieces is not known");
  return results_of(
      b.node("Split", std::vector<Value*>{n.input(0), b.i64s(*sizes)}, n.num_results(), attrs_of(n, {"num_outputs"})));
}

std::vector<Value*> split_to_attribute(Rewriter& b, Node& n, OpsetConversion& c) {
  count_axes_from_front(n);
  AttrInit attrs = attrs_of(n, {"num_outputs"});
  if (n.input(1) != nullptr || n.attr("num_outputs") != nullptr) {
    const auto sizes = n.input(1) != nullptr ? c.context().ints(n.input(1)) : sizes_of_pieces(n);
    if (!sizes) return c.refuse(n, "the size of its pieces is not known");
    attrs.push_back({"split", *sizes});
  }
  return results_of(b.node("Split", std::vector<Value*>{n.input(0)}, n.num_results(), std::move(attrs)));
}

// The indices that a Slice takes along an axis of `size` elements.
std::vector<int64_t> sliced(int64_t start, int64_t end, int64_t step, int64_t size) {
  const auto bounded = [&](int64_t i) { return std::clamp(i < 0 ? i + size : i, int64_t{step < 0 ? -1 : 0}, size); };
  std::vector<int64_t> indices;
  if (step > 0) {
    for (int64_t i = bounded(start); i < bounded(end); i += step) indices.push_back(i);
  } else {
    for (int64_t i = std::min(bounded(start), size - 1); i > (end < -size ? -1 : bounded(end)); i += step) indices.push_back(i);
  }
  return indices;
}

// Makes one Slice for all axes with step 1 and one Gather for each other axis.
std::vector<Value*> slice_to_attributes(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto starts = c.context().ints(n.input(1)), ends = c.context().ints(n.input(2));
  if (!starts || !ends) return c.refuse(n, "its bounds are not constant");
  std::optional<std::vector<int64_t>> axes(starts->size()), steps(std::vector<int64_t>(starts->size(), 1));
  std::iota(axes->begin(), axes->end(), 0);
  if (n.input(3) != nullptr) axes = axes_of(n, 3, rank_of(n.input(0)), c);
  if (n.input(4) != nullptr) steps = c.context().ints(n.input(4));
  if (!axes || !steps) return c.refuse(n, "its axes or steps are not constant");
  Value* x = n.input(0);
  Attr::Ints unit_starts, unit_ends, unit_axes;
  for (size_t i = 0; i < starts->size(); ++i) {
    const int64_t axis = (*axes)[i], step = (*steps)[i];
    if (step == 1) {
      unit_starts.push_back((*starts)[i]);
      unit_ends.push_back((*ends)[i]);
      unit_axes.push_back(axis);
      continue;
    }
    const Dim size = axis >= 0 && x->ranked() && axis < rank_of(x) ? x->type()->dim(static_cast<size_t>(axis)) : Dim();
    if (!size.is_int() || step == 0) return c.refuse(n, "its step is not 1 along an axis of unknown size");
    x = b.Gather(x, b.i64s(sliced((*starts)[i], (*ends)[i], step, size.value())), {.axis = axis});
  }
  if (!unit_axes.empty()) x = b.op("Slice", {x}, {{"starts", unit_starts}, {"ends", unit_ends}, {"axes", unit_axes}});
  return {x == n.input(0) ? b.Identity(x) : x};
}

// The pads before and after every axis, including axes that the node does not name; nullopt if they are not
// constant.
std::optional<std::vector<int64_t>> pads_of_all_axes(const Node& n, OpsetConversion& c) {
  auto pads = c.context().ints(n.input(1));
  if (n.input(3) == nullptr || !pads) return pads;
  const auto rank = rank_of(n.input(0));
  const auto axes = axes_of(n, 3, rank, c);
  if (!rank || !axes || pads->size() != 2 * axes->size()) return std::nullopt;
  std::vector<int64_t> all(static_cast<size_t>(2 * *rank), 0);
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t axis = (*axes)[i];
    if (axis < 0 || axis >= *rank) return std::nullopt;
    all[static_cast<size_t>(axis)] = (*pads)[i];
    all[static_cast<size_t>(axis + *rank)] = (*pads)[i + axes->size()];
  }
  return all;
}

std::vector<Value*> pad_all_axes(Rewriter& b, Node& n, OpsetConversion& c) {
  if (n.input(3) == nullptr) return same(b, n, c);
  const auto pads = pads_of_all_axes(n, c);
  if (!pads) return c.refuse(n, "its pads or axes are not constant");
  std::vector<Value*> operands{n.input(0), b.i64s(*pads)};
  if (n.input(2) != nullptr) operands.push_back(n.input(2));
  return {b.op("Pad", operands, attrs_of(n))};
}

std::vector<Value*> pad_to_attributes(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto pads = pads_of_all_axes(n, c);
  if (!pads) return c.refuse(n, "its pads or axes are not constant");
  AttrInit attrs = attrs_of(n);
  attrs.push_back({"pads", *pads});
  if (n.input(2) != nullptr) {
    const auto value = c.context().splat(n.input(2));
    if (!value) return c.refuse(n, "its value is not constant");
    attrs.push_back({"value", static_cast<float>(*value)});
  }
  return {b.op("Pad", {n.input(0)}, std::move(attrs))};
}

// Before opset 11 TopK takes only floats, only the largest, and always sorts. f64 holds all 32-bit integers,
// and negation turns the smallest into the largest.
std::vector<Value*> largest_floats(Rewriter& b, Node& n, OpsetConversion& c) {
  count_axes_from_front(n);
  const auto k = c.context().ints(n.input(1));
  if (c.to() < 10 && (!k || k->size() != 1)) return c.refuse(n, "its k is not constant");
  const DType own = n.input(0)->dtype();
  if (own == DType::kI64 || own == DType::kU64) return c.refuse(n, "it orders 64-bit integers");
  const bool is_smallest = int_attr(n, "largest") == 0;
  if (is_smallest && is_float(own)) return c.refuse(n, "it takes the smallest floats, and NaN has no negative");
  const auto cast = [&](Value* v, DType to) {
    return v->dtype() == to ? v : b.op("Cast", {v}, {attr("to", static_cast<int64_t>(to))});
  };
  Value* x = is_float(own) ? n.input(0) : cast(n.input(0), DType::kF64);
  std::vector<Value*> operands{is_smallest ? b.Neg(x) : x};
  AttrInit attrs = attrs_of(n, {"largest", "sorted"});
  if (c.to() < 10) {
    attrs.push_back({"k", k->front()});
  } else {
    operands.push_back(n.input(1));
  }
  std::vector<Value*> results = results_of(b.node("TopK", operands, n.num_results(), std::move(attrs)));
  if (is_smallest) results[0] = b.Neg(results[0]);
  results[0] = cast(results[0], own);
  return results;
}

std::vector<Value*> dropout_to_attribute(Rewriter& b, Node& n, OpsetConversion& c) {
  if (n.input(2) != nullptr && c.context().splat(n.input(2)) != 0) return c.refuse(n, "it may be in training mode");
  const bool reads_mask = n.num_results() > 1 && n.result(1)->has_uses();
  if (reads_mask && c.to() < 10) return c.refuse(n, "its mask would be of the type of its operand");
  AttrInit attrs = attrs_of(n, {"seed"});
  if (n.input(1) != nullptr) {
    const auto ratio = c.context().splat(n.input(1));
    if (!ratio) return c.refuse(n, "its ratio is not constant");
    attrs.push_back({"ratio", static_cast<float>(*ratio)});
  }
  // onnxruntime's older Dropout returns a mask of zeros.
  const auto is_kept = [&] {
    return b.op("ConstantOfShape", {b.Shape(n.input(0))}, {attr("value", Tensor::full(DType::kBool, {1}, 1))});
  };
  return {b.op("Dropout", {n.input(0)}, std::move(attrs)), reads_mask ? is_kept() : nullptr};
}

std::vector<Value*> dft_to_attribute(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto axis = n.input(2) != nullptr ? c.context().ints(n.input(2)) : std::vector<int64_t>{-2};
  if (!axis) return c.refuse(n, "its axis is not constant");
  std::vector<Value*> operands{n.input(0)};
  if (n.input(1) != nullptr) operands.push_back(n.input(1));
  AttrInit attrs = attrs_of(n);
  attrs.push_back({"axis", axis->front()});
  return {b.op("DFT", operands, std::move(attrs))};
}

// --- comparisons, for which older versions take fewer types

// Before opset 9 only floats can be ordered. f64 holds all integers of up to 32 bits.
Value* with_order(Rewriter& b, Value* v, OpsetConversion& c) {
  if (c.to() >= kWhereAndOrderedIntegers || is_float(v->dtype())) return v;
  if (v->dtype() == DType::kI64 || v->dtype() == DType::kU64) return v;  // the operator that takes it will refuse
  return b.op("Cast", {v}, {attr("to", static_cast<int64_t>(DType::kF64))});
}

Value* less(Rewriter& b, Value* x, Value* y, OpsetConversion& c) { return b.Less(with_order(b, x, c), with_order(b, y, c)); }

// True where v is not NaN.
Value* is_number(Rewriter& b, Value* v) {
  return b.Or(b.Less(v, b.scalar(v->dtype(), 1)), b.Greater(v, b.scalar(v->dtype(), -1)));
}

Value* equal(Rewriter& b, Value* x, Value* y, OpsetConversion& c) {
  const DType t = x->dtype();
  if (c.to() >= kFloatsAreEqual || t == DType::kBool || t == DType::kI32 || t == DType::kI64) return b.Equal(x, y);
  if (!is_float(t)) {
    const auto wide = [&](Value* v) { return b.op("Cast", {v}, {attr("to", static_cast<int64_t>(DType::kI64))}); };
    return b.Equal(wide(x), wide(y));
  }
  Value* differ = b.Or(b.Less(x, y), b.Greater(x, y));
  return b.And(b.Not(differ), b.And(is_number(b, x), is_number(b, y)));
}

std::vector<Value*> equality(Rewriter& b, Node& n, OpsetConversion& c) { return {equal(b, n.input(0), n.input(1), c)}; }

std::vector<Value*> order(Rewriter& b, Node& n, OpsetConversion& c) {
  return {b.op(n.op().name, {with_order(b, n.input(0), c), with_order(b, n.input(1), c)})};
}

std::vector<Value*> greater_or_equal(Rewriter& b, Node& n, OpsetConversion& c) {
  Value *x = n.input(0), *y = n.input(1);
  if (n.is("LessOrEqual")) std::swap(x, y);
  if (!is_float(x->dtype())) return {b.Not(less(b, x, y, c))};
  return {b.Or(b.Greater(x, y), equal(b, x, y, c))};
}

// Max and Min of integers, by comparison.
std::vector<Value*> extreme(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto operands = operands_of(n);
  if (is_float(n.result()->dtype())) {
    const bool broadcasts = std::ranges::any_of(operands, [&](const Value* v) { return v->type() != n.result()->type(); });
    if (c.to() < kMaxBroadcasts && broadcasts) return c.refuse(n, "its operands would be broadcast");
    return {b.op(n.op().name, operands)};
  }
  if (c.to() < kWhereAndOrderedIntegers) return c.refuse(n, "it compares integers");
  Value* best = operands.front();
  for (Value* v : std::span(operands).subspan(1)) best = b.Where(n.is("Max") ? b.Less(best, v) : b.Less(v, best), v, best);
  return {best};
}

// Whether an f32 attribute can hold the bound.
bool is_number_of_f32(const Value* bound, OpsetConversion& c) {
  if (bound == nullptr) return true;
  const auto v = c.context().splat(bound);
  return v && (static_cast<double>(static_cast<float>(*v)) == *v || std::isnan(*v));
}

// Clip with attributes if they can hold the bounds, else with comparisons.
std::vector<Value*> clip(Rewriter& b, Node& n, OpsetConversion& c) {
  if (is_float(n.result()->dtype()) && c.to() >= kClipHasOperands) return same(b, n, c);
  Value *x = n.input(0), *low = nullptr, *high = nullptr;
  if (n.num_inputs() > 1) low = n.input(1);
  if (n.num_inputs() > 2) high = n.input(2);
  if (is_float(x->dtype()) && is_number_of_f32(low, c) && is_number_of_f32(high, c)) {
    AttrInit attrs;
    if (low != nullptr) attrs.push_back({"min", static_cast<float>(*c.context().splat(low))});
    if (high != nullptr) attrs.push_back({"max", static_cast<float>(*c.context().splat(high))});
    return {b.op("Clip", {x}, std::move(attrs))};
  }
  if (c.to() < kWhereAndOrderedIntegers) return c.refuse(n, "its bounds are not f32 constants");
  if (low != nullptr) x = b.Where(b.Less(x, low), low, x);
  if (high != nullptr) x = b.Where(b.Less(high, x), high, x);
  return {x == n.input(0) ? b.Identity(x) : x};
}

// --- operators whose meaning changed

// Before opset 13 the operator flattened the axes from `axis` on. Only the last axis means the same, so
// others are transposed there.
std::vector<Value*> softmax_of_last_axis(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto rank = rank_of(n.input(0));
  const auto axis = rank ? read::OpReader(n).axis_in("axis", static_cast<size_t>(*rank)) : std::nullopt;
  if (!axis) return c.refuse(n, "its axis is not known");
  const int64_t last = *rank - 1;
  const auto of_last = [&](Value* v) { return b.op(n.op().name, {v}, {{"axis", last}}); };
  if (static_cast<int64_t>(*axis) == last) return {of_last(n.input(0))};
  std::vector<int64_t> swap(static_cast<size_t>(*rank));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[*axis], swap[static_cast<size_t>(last)]);
  return {b.Transpose(of_last(b.Transpose(n.input(0), {.perm = swap})), {.perm = swap})};
}

// Pooling without dilation. Older versions have no dilations.
std::vector<Value*> pool_of_neighbors(Rewriter& b, Node& n, OpsetConversion& c) {
  if (n.attr("dilations") != nullptr) {
    const auto dilations = ints_attr(n, "dilations");
    if (!dilations || std::ranges::any_of(*dilations, [](int64_t d) { return d != 1; }))
      return c.refuse(n, "its windows are dilated");
  }
  AttrInit attrs = attrs_of(n, {"dilations"});
  if (c.to() < 10 || n.is("LpPool")) {
    if (n.attr("ceil_mode") != nullptr && int_attr(n, "ceil_mode") != 0) return c.refuse(n, "it rounds sizes up");
    attrs = attrs_of(n, {"dilations", "ceil_mode"});
  }
  return results_of(b.node(n.op().name, operands_of(n), n.num_results(), std::move(attrs)));
}

// Before opset 11 Gemm requires a bias.
std::vector<Value*> gemm_with_bias(Rewriter& b, Node& n, OpsetConversion& c) {
  if (n.num_inputs() > 2 && n.input(2) != nullptr) return same(b, n, c);
  return {b.op("Gemm", {n.input(0), n.input(1), b.scalar(n.result()->dtype(), 0)}, attrs_of(n))};
}

std::vector<Value*> batch_normalization(Rewriter& b, Node& n, OpsetConversion& c) {
  if (n.attr("training_mode") != nullptr && int_attr(n, "training_mode") != 0) return c.refuse(n, "it is in training mode");
  std::vector<Value*> results(n.num_results(), nullptr);
  results[0] = b.op("BatchNormalization", operands_of(n), attrs_of(n, {"training_mode"}));
  return results;
}

// Resize of opset 10 and Upsample have only this coordinate mode.
std::vector<Value*> asymmetric_resize(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto mode = string_attr(n, "mode");
  if (string_attr(n, "coordinate_transformation_mode") != "asymmetric" || (mode != "nearest" && mode != "linear"))
    return c.refuse(n, "its samples are not placed asymmetrically");
  if (mode == "nearest" && string_attr(n, "nearest_mode") != "floor") return c.refuse(n, "its nearest_mode is not floor");
  Value* scales = n.num_inputs() > 2 ? n.input(2) : nullptr;
  if (scales == nullptr || n.attr("axes") != nullptr || int_attr(n, "antialias").value_or(0) != 0)
    return c.refuse(n, "its scales are not given for all axes");
  AttrInit attrs{{"mode", *mode}};
  if (c.to() >= kUpsampleIsResize) return {b.op("Resize", {n.input(0), scales}, std::move(attrs))};
  if (c.to() == 9) return {b.op("Upsample", {n.input(0), scales}, std::move(attrs))};
  const TensorPtr& payload = scales->constant();
  if (!payload || payload->dtype() != DType::kF32) return c.refuse(n, "its scales are not constant");
  Attr::Floats values;
  for (int64_t i = 0; i < payload->size(); ++i) values.push_back(static_cast<float>(payload->as_double(i)));
  attrs.push_back({"scales", Attr(std::move(values))});
  return {b.op("Upsample", {n.input(0)}, std::move(attrs))};
}

// Before opset 13 Resize requires a region even if it does not use it.
std::vector<Value*> resize_with_region(Rewriter& b, Node& n, OpsetConversion&) {
  std::vector<Value*> operands = operands_of(n);
  if (operands.size() < 2) operands.resize(2, nullptr);
  Value* none = b.constant(Tensor::own(DType::kF32, {0}, {}));
  for (size_t i : {1, 2}) {
    if (i < operands.size() && operands[i] == nullptr) operands[i] = none;
  }
  return {b.op("Resize", operands, attrs_of(n))};
}

std::vector<Value*> scatter(Rewriter& b, Node& n, OpsetConversion& c) {
  if (n.attr("reduction") != nullptr && string_attr(n, "reduction") != "none") return c.refuse(n, "it reduces");
  count_axes_from_front(n);
  return {b.op("Scatter", operands_of(n), attrs_of(n, {"reduction"}))};
}

std::vector<Value*> shape_of_all_axes(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto start = int_attr(n, "start"), end = int_attr(n, "end");
  if (!start || (n.attr("end") != nullptr && !end)) return c.refuse(n, "its bounds are set by the function's calls");
  Value* shape = b.op("Shape", {n.input(0)});
  const int64_t stop = end.value_or(std::numeric_limits<int64_t>::max());
  if (*start == 0 && n.attr("end") == nullptr) return {shape};
  if (c.to() >= 10) return {b.op("Slice", {shape, b.i64s({*start}), b.i64s({stop})})};
  return {b.op("Slice", {shape}, {{"starts", Attr::Ints{*start}}, {"ends", Attr::Ints{stop}}, {"axes", Attr::Ints{0}}})};
}

std::vector<Value*> reshape_without_zeros(Rewriter& b, Node& n, OpsetConversion& c) {
  if (n.attr("allowzero") != nullptr && int_attr(n, "allowzero") != 0) {
    const auto shape = c.context().ints(n.input(1));
    if (!shape || std::ranges::find(*shape, 0) != shape->end()) return c.refuse(n, "its sizes may be zero");
  }
  return {b.op("Reshape", operands_of(n), attrs_of(n, {"allowzero"}))};
}

// Expand of axes of one element is a Tile.
std::vector<Value*> expand(Rewriter& b, Node& n, OpsetConversion& c) {
  const Value *x = n.input(0), *y = n.result();
  if (!x->ranked() || !y->ranked()) return c.refuse(n, "its sizes are not known");
  const size_t added = y->type()->rank() - x->type()->rank();
  std::vector<int64_t> shape(added, 1), repeats;
  for (size_t i = 0; i < y->type()->rank(); ++i) {
    const Dim from = i < added ? Dim::of(1) : x->type()->dim(i - added), to = y->type()->dim(i);
    const bool is_kept = from == to;
    if (!is_kept && !(from.is(1) && to.is_int())) return c.refuse(n, "its sizes are not known");
    repeats.push_back(is_kept ? 1 : to.value());
  }
  for (const Dim d : x->type()->dims()) {
    if (!d.is_int()) return c.refuse(n, "its sizes are not known");
    shape.push_back(d.value());
  }
  Value* whole = added == 0 ? n.input(0) : b.Reshape(n.input(0), b.i64s(shape));
  return {b.Tile(whole, b.i64s(repeats))};
}

std::vector<Value*> no_such_meaning(Rewriter&, Node& n, OpsetConversion& c) {
  return c.refuse(n, "no operator of the other opset has its meaning");
}

constexpr RespellingStep kDown[] = {
    {"Expand", 8, false, expand},
    {"BatchNormalization", 14, false, batch_normalization},
    {"Greater", 9, false, order},
    {"Less", 9, false, order},
    {"Slice", 10, false, slice_to_attributes},
    {"TopK", 11, false, largest_floats},
    {"Equal", 11, false, equality},
    {"Gemm", 11, false, gemm_with_bias},
    {"Pad", 11, false, pad_to_attributes},
    {"Resize", 11, false, asymmetric_resize},
    {"ScatterElements", 11, false, scatter},
    {"Clip", 12, false, clip},
    {"Dropout", 12, false, dropout_to_attribute},
    {"GreaterOrEqual", 12, false, greater_or_equal},
    {"LessOrEqual", 12, false, greater_or_equal},
    {"Max", 12, false, extreme},
    {"Min", 12, false, extreme},
    {"Hardmax", 13, false, softmax_of_last_axis},
    {"LogSoftmax", 13, false, softmax_of_last_axis},
    {"ReduceSum", 13, false, reduced_axes_to_attribute},
    {"Resize", 13, false, resize_with_region},
    {"Softmax", 13, false, softmax_of_last_axis},
    {"Split", 13, false, split_to_attribute},
    {"Squeeze", 13, false, unit_axes_to_attribute},
    {"Unsqueeze", 13, false, unit_axes_to_attribute},
    {"Reshape", 14, false, reshape_without_zeros},
    {"Shape", 15, false, shape_of_all_axes},
    {"LpPool", 18, false, pool_of_neighbors},
    {"MaxPool", 10, false, pool_of_neighbors},
    {"Pad", 18, false, pad_all_axes},
    {"ReduceL1", 18, false, reduced_axes_to_attribute},
    {"ReduceL2", 18, false, reduced_axes_to_attribute},
    {"ReduceLogSum", 18, false, reduced_axes_to_attribute},
    {"ReduceLogSumExp", 18, false, reduced_axes_to_attribute},
    {"ReduceMax", 18, false, reduced_axes_to_attribute},
    {"ReduceMean", 18, false, reduced_axes_to_attribute},
    {"ReduceMin", 18, false, reduced_axes_to_attribute},
    {"ReduceProd", 18, false, reduced_axes_to_attribute},
    {"ReduceSumSquare", 18, false, reduced_axes_to_attribute},
    {"Split", 18, false, split_without_count},
    {"AveragePool", 19, false, pool_of_neighbors},
    {"DFT", 20, false, dft_to_attribute},
    {"GridSample", 20, false, grid_sample},
    {"GroupNormalization", 21, false, no_such_meaning},
};

}  // namespace

std::span<const RespellingStep> steps_down() { return kDown; }

void count_axes_from_front(Node& n) {
  const auto rank = rank_of(n.num_inputs() > 0 ? n.input(0) : nullptr);
  if (!rank || n.is("OneHot")) return;  // older versions take -1 here
  const Attrs* attrs = &n.attrs();
  Model& model = n.graph()->model();
  if (const auto axis = n.attr("axis") != nullptr ? int_attr(n, "axis") : std::nullopt; axis && *axis < 0)
    attrs = model.with_attr(*attrs, "axis", *axis + *rank);
  if (auto axes = n.attr("axes") != nullptr ? ints_attr(n, "axes") : std::nullopt) {
    for (int64_t& axis : *axes) axis += axis < 0 ? *rank : 0;
    attrs = model.with_attr(*attrs, "axes", *axes);
  }
  if (attrs != &n.attrs()) n.set_attrs(attrs);
}

}  // namespace sardonyx::onnx
