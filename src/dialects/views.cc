#include "dialects/views.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "dialects/mil/ops.h"
#include "dialects/onnx/ops.h"

namespace sardonyx::view {
namespace {

using Ints = std::vector<int64_t>;

bool is_mil(const Node& n) { return n.op().dialect == DialectId::kMil; }
bool is_onnx(const Node& n, std::string_view name) {
  return n.op().dialect == DialectId::kOnnx && n.op().domain.empty() && n.op().known && n.op().name == name;
}
bool is_mil(const Node& n, mil::Family family) {
  return n.op().dialect == DialectId::kMil && n.op().known && mil::is(n.op(), family);
}

std::optional<Ints> ints_of(const Value* v) {
  if (v == nullptr || !v->is_constant()) return std::nullopt;
  return v->constant()->to_ints();
}

// What the table says of a slot or attribute that the node does not give.
const AttrSpec* default_of(const Node& n, std::string_view name) {
  for (const AttrSpec& s : n.op().attrs) {
    if (s.name == name && s.has_default) return &s;
  }
  return nullptr;
}

size_t slot_of_name(const Node& n, std::string_view name) {
  const auto slots = n.op().inputs;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == name) return i;
  }
  return SIZE_MAX;
}

// A mil parameter; null when absent.
Value* param(const Node& n, std::string_view name) { return n.input(slot_of_name(n, name)); }

// Each of these: nullopt when it is not known, and the default, or `otherwise`, when it is not given.
std::optional<Ints> ints_param(const Node& n, std::string_view name, Ints otherwise) {
  if (is_mil(n)) {
    const Value* v = param(n, name);
    return v != nullptr ? ints_of(v) : std::optional(std::move(otherwise));
  }
  const Attr* a = n.attr(name);
  if (a == nullptr) return otherwise;
  const auto* list = a->get<Attr::Ints>();
  return list != nullptr ? std::optional(*list) : std::nullopt;
}

std::optional<int64_t> int_param(const Node& n, std::string_view name, int64_t otherwise) {
  const AttrSpec* s = default_of(n, name);
  if (s != nullptr) otherwise = s->default_int;
  if (is_mil(n)) {
    const Value* v = param(n, name);
    if (v == nullptr) return otherwise;
    const auto list = ints_of(v);
    return list && list->size() == 1 ? std::optional((*list)[0]) : std::nullopt;
  }
  const Attr* a = n.attr(name);
  if (a == nullptr) return otherwise;
  const auto* i = a->get<int64_t>();
  return i != nullptr ? std::optional(*i) : std::nullopt;
}

std::optional<double> float_param(const Node& n, std::string_view name, double otherwise) {
  const AttrSpec* s = default_of(n, name);
  if (s != nullptr) otherwise = s->default_float;
  if (is_mil(n)) {
    const Value* v = param(n, name);
    if (v == nullptr) return otherwise;
    const bool known = v->is_constant() && v->constant()->size() == 1 && is_float(v->constant()->dtype());
    return known ? std::optional(v->constant()->as_double(0)) : std::nullopt;
  }
  const Attr* a = n.attr(name);
  if (a == nullptr) return otherwise;
  const auto* f = a->get<double>();
  return f != nullptr ? std::optional(*f) : std::nullopt;
}

std::optional<std::string> text_param(const Node& n, std::string_view name, std::string_view otherwise) {
  const AttrSpec* s = default_of(n, name);
  if (s != nullptr && s->kind == AttrKind::kString) otherwise = s->default_string;
  if (is_mil(n)) {
    const Value* v = param(n, name);
    if (v == nullptr) return std::string(otherwise);
    if (!v->is_constant() || v->constant()->string_values().size() != 1) return std::nullopt;
    return v->constant()->string_values()[0];
  }
  const Attr* a = n.attr(name);
  if (a == nullptr) return std::string(otherwise);
  const auto* text = a->get<std::string>();
  return text != nullptr ? std::optional(*text) : std::nullopt;
}

// Axes counted from the front and in order; nullopt when one is out of range or there twice.
std::optional<Ints> sorted_axes(std::optional<Ints> axes, size_t rank) {
  if (!axes) return std::nullopt;
  for (int64_t& a : *axes) {
    if (a < 0) a += static_cast<int64_t>(rank);
    if (a < 0 || a >= static_cast<int64_t>(rank)) return std::nullopt;
  }
  std::ranges::sort(*axes);
  if (std::ranges::adjacent_find(*axes) != axes->end()) return std::nullopt;
  return axes;
}

std::optional<size_t> rank_of(const Value* v) {
  return v != nullptr && v->ranked() ? std::optional(v->type()->rank()) : std::nullopt;
}

// The axes operand of an onnx node, or the attribute that older versions have.
std::optional<Ints> onnx_axes(const Node& n, int operand_since, bool* none) {
  *none = false;
  if (n.op().since_version >= operand_since) {
    if (n.input(1) != nullptr) return ints_of(n.input(1));
    *none = true;
    return Ints();
  }
  if (n.attr("axes") == nullptr) *none = true;
  return ints_param(n, "axes", {});
}

bool in_mil(const Builder& b) { return b.model().dialect() == DialectId::kMil; }

int onnx_version(const Builder& b) { return static_cast<int>(b.model().opset_version("").value_or(0)); }

Value* i32s(Builder& b, std::span<const int64_t> v) {
  std::vector<int32_t> narrow(v.begin(), v.end());
  return b.constant(Tensor::of<int32_t>(DType::kI32, {static_cast<int64_t>(v.size())}, narrow));
}
Value* i32(Builder& b, int64_t v) { return b.scalar_int(DType::kI32, v); }
Value* boolean(Builder& b, bool v) { return b.scalar_int(DType::kBool, v); }
Value* text(Builder& b, std::string_view s) { return b.constant(Tensor::strings({}, {std::string(s)})); }

struct Named {
  std::string_view slot;
  Value* value;
};

// A mil op with one result, operands by slot.
Value* mil_op(Builder& b, std::string_view name, std::initializer_list<Named> operands, std::span<Value* const> list = {}) {
  const Op& op = b.model().op("", name);
  std::vector<Value*> in;
  for (const Slot& s : op.inputs) {
    if (s.arity == Arity::kVariadic) break;
    const auto at = std::ranges::find(operands, s.name, &Named::slot);
    in.push_back(at == operands.end() ? nullptr : at->value);
  }
  in.insert(in.end(), list.begin(), list.end());
  while (list.empty() && !in.empty() && in.back() == nullptr) in.pop_back();
  return b.make(op, in, 1, {}).result();
}

// ---------------------------------------------------------------------------------------------------------------------
// Names

struct Shared {
  std::string_view mil, onnx;
};
constexpr Shared kShared[] = {
#define SX_SHARED_OP(mil, onnx) {#mil, #onnx},
#include "dialects/views.def"
#undef SX_SHARED_OP
};

}  // namespace

std::string_view shared_name(const Op& op) {
  if (!op.known || !op.domain.empty()) return {};
  for (const Shared& s : kShared) {
    if (op.dialect == DialectId::kMil ? op.name == s.mil : op.dialect == DialectId::kOnnx && op.name == s.onnx) return s.mil;
  }
  return {};
}

const Op* shared_op(Model& m, std::string_view name) {
  for (const Shared& s : kShared) {
    if (s.mil != name) continue;
    const Op& op = m.op("", m.dialect() == DialectId::kMil ? s.mil : s.onnx);
    return op.known ? &op : nullptr;
  }
  return nullptr;
}

// ---------------------------------------------------------------------------------------------------------------------
// Moving elements

Transpose::Transpose(Node& n) {
  if (!is_onnx(n, "Transpose") && !is_mil(n, mil::kFamily_transpose)) return;
  const auto rank = rank_of(n.input(0));
  const bool reversed = !is_mil(n) && n.attr("perm") == nullptr;
  if (reversed && !rank) return;
  Ints all(reversed ? *rank : 0);
  std::iota(all.rbegin(), all.rend(), 0);
  auto perm = reversed ? std::optional(all) : ints_param(n, "perm", {});
  if (!perm || (rank && *rank != perm->size())) return;
  for (int64_t& p : *perm) p += p < 0 ? static_cast<int64_t>(perm->size()) : 0;
  const size_t size = perm->size();
  if (!sorted_axes(*perm, size)) return;
  perm_ = std::move(*perm);
  node_ = &n;
}

Value* Transpose::make(Builder& b, Value* x, std::span<const int64_t> perm) {
  if (in_mil(b)) return mil_op(b, "transpose", {{"x", x}, {"perm", i32s(b, perm)}});
  return b.op("Transpose", {x}, {attr("perm", Ints(perm.begin(), perm.end()))});
}

Reshape::Reshape(Node& n) {
  static constexpr std::string_view kOnnx[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};
  static constexpr mil::Family kMil[] = {mil::kFamily_reshape, mil::kFamily_flatten2d, mil::kFamily_squeeze,
                                         mil::kFamily_expand_dims, mil::kFamily_reshape_like};
  const bool is = std::ranges::any_of(kOnnx, [&](std::string_view name) { return is_onnx(n, name); }) ||
                  std::ranges::any_of(kMil, [&](mil::Family f) { return is_mil(n, f); });
  if (is && n.input(0) != nullptr) node_ = &n;
}

std::optional<std::vector<int64_t>> Reshape::shape() const {
  const Value* v = result();
  if (!v->ranked()) return std::nullopt;
  Ints out;
  size_t open = 0;
  for (Dim d : v->type()->dims()) {
    out.push_back(d.is_int() ? d.value() : -1);
    open += d.is_int() ? 0 : 1;
  }
  if (open > 1 || (open == 1 && std::ranges::find(out, 0) != out.end())) return std::nullopt;
  return out;
}

Value* Reshape::make(Builder& b, Value* x, std::span<const int64_t> shape) {
  if (std::ranges::find(shape, 0) != shape.end()) return nullptr;
  if (in_mil(b)) return mil_op(b, "reshape", {{"x", x}, {"shape", i32s(b, shape)}});
  if (onnx_version(b) < 5) return nullptr;
  return b.op("Reshape", {x, b.i64s(shape)});
}

ExpandDims::ExpandDims(Node& n) {
  std::optional<Ints> axes;
  if (is_onnx(n, "Unsqueeze")) {
    bool none = false;
    axes = onnx_axes(n, 13, &none);
    if (none) return;
  } else if (is_mil(n, mil::kFamily_expand_dims)) {
    axes = ints_param(n, "axes", {});
  } else {
    return;
  }
  const auto rank = rank_of(n.input(0));
  if (!axes || !rank) return;
  const size_t out = *rank + axes->size();
  axes = sorted_axes(std::move(axes), out);
  if (!axes) return;
  axes_ = std::move(*axes);
  node_ = &n;
}

Value* ExpandDims::make(Builder& b, Value* x, std::span<const int64_t> axes) {
  if (in_mil(b)) return mil_op(b, "expand_dims", {{"x", x}, {"axes", i32s(b, axes)}});
  if (onnx_version(b) < 13) return b.op("Unsqueeze", {x}, {attr("axes", Ints(axes.begin(), axes.end()))});
  return b.op("Unsqueeze", {x, b.i64s(axes)});
}

Squeeze::Squeeze(Node& n) {
  std::optional<Ints> axes;
  bool all = false;
  if (is_onnx(n, "Squeeze")) {
    axes = onnx_axes(n, 13, &all);
  } else if (is_mil(n, mil::kFamily_squeeze)) {
    all = param(n, "axes") == nullptr;
    axes = ints_param(n, "axes", {});
  } else {
    return;
  }
  const Value* x = n.input(0);
  const auto rank = rank_of(x);
  if (!axes || !rank) return;
  if (all) {
    axes->clear();
    for (size_t i = 0; i < *rank; ++i) {
      if (!x->type()->dim(i).is_int()) return;
      if (x->type()->dim(i).is(1)) axes->push_back(static_cast<int64_t>(i));
    }
  }
  axes = sorted_axes(std::move(axes), *rank);
  if (!axes) return;
  for (int64_t a : *axes) {
    if (!x->type()->dim(static_cast<size_t>(a)).is(1)) return;
  }
  axes_ = std::move(*axes);
  node_ = &n;
}

Value* Squeeze::make(Builder& b, Value* x, std::span<const int64_t> axes) {
  if (in_mil(b)) return mil_op(b, "squeeze", {{"x", x}, {"axes", i32s(b, axes)}});
  if (onnx_version(b) < 13) return b.op("Squeeze", {x}, {attr("axes", Ints(axes.begin(), axes.end()))});
  return b.op("Squeeze", {x, b.i64s(axes)});
}

namespace {

constexpr std::pair<std::string_view, DType> kMilDTypes[] = {
    {"fp16", DType::kF16},  {"fp32", DType::kF32}, {"fp64", DType::kF64},   {"int8", DType::kI8},   {"int16", DType::kI16},
    {"int32", DType::kI32}, {"uint8", DType::kU8}, {"uint16", DType::kU16}, {"bool", DType::kBool}, {"int64", DType::kI64},
};

}  // namespace

Cast::Cast(Node& n) {
  if (is_onnx(n, "Cast")) {
    const auto number = int_param(n, "to", 0);
    if (!number || *number <= 0 || *number >= 48) return;
    to_ = static_cast<DType>(*number);
  } else if (is_mil(n, mil::kFamily_cast)) {
    const auto name = text_param(n, "dtype", {});
    if (!name) return;
    const auto at = std::ranges::find(kMilDTypes, *name, [](const auto& row) { return row.first; });
    if (at == std::end(kMilDTypes)) return;
    to_ = at->second;
  } else {
    return;
  }
  node_ = &n;
}

Value* Cast::make(Builder& b, Value* x, DType to) {
  if (!in_mil(b)) return b.op("Cast", {x}, {attr("to", static_cast<int64_t>(to))});
  const auto at = std::ranges::find(kMilDTypes, to, [](const auto& row) { return row.second; });
  if (at == std::end(kMilDTypes)) return nullptr;
  return mil_op(b, "cast", {{"x", x}, {"dtype", text(b, at->first)}});
}

Concat::Concat(Node& n) {
  const bool mil_concat = is_mil(n, mil::kFamily_concat);
  if (!mil_concat && !is_onnx(n, "Concat")) return;
  if (mil_concat && int_param(n, "interleave", 0) != 0) return;
  first_ = mil_concat ? slot_of_name(n, "values") : 0;
  const auto axis = int_param(n, "axis", n.op().since_version < 4 ? 1 : 0);
  const auto rank = rank_of(n.input(first_));
  if (!axis || !rank || *rank == 0) return;
  const auto axes = sorted_axes(Ints{*axis}, *rank);
  if (!axes) return;
  axis_ = (*axes)[0];
  node_ = &n;
}

std::vector<Value*> Concat::values() const {
  std::vector<Value*> out;
  for (size_t i = first_; i < node_->num_inputs(); ++i) out.push_back(node_->input(i));
  return out;
}

Value* Concat::make(Builder& b, std::span<Value* const> values, int64_t axis) {
  if (in_mil(b)) return mil_op(b, "concat", {{"axis", i32(b, axis)}, {"interleave", boolean(b, false)}}, values);
  return b.op("Concat", values, {attr("axis", axis)});
}

// ---------------------------------------------------------------------------------------------------------------------
// Windows and normalizations

Conv::Conv(Node& n) {
  const bool mil_conv = is_mil(n, mil::kFamily_conv), mil_transposed = is_mil(n, mil::kFamily_conv_transpose);
  transposed_ = mil_transposed || is_onnx(n, "ConvTranspose");
  if (!mil_conv && !transposed_ && !is_onnx(n, "Conv")) return;
  const auto rank = rank_of(n.input(0));
  if (!rank || *rank < 3 || n.input(1) == nullptr) return;
  const size_t spatial = *rank - 2;
  const bool mil_op = is_mil(n);
  const auto strides = ints_param(n, "strides", Ints(spatial, 1)), dilations = ints_param(n, "dilations", Ints(spatial, 1));
  const auto pads = ints_param(n, mil_op ? "pad" : "pads", Ints(2 * spatial, 0));
  const auto groups = int_param(n, mil_op ? "groups" : "group", 1);
  const auto mode = text_param(n, mil_op ? "pad_type" : "auto_pad", mil_op ? "valid" : "NOTSET");
  if (!strides || !dilations || !pads || !groups || !mode) return;
  if (strides->size() != spatial || dilations->size() != spatial || pads->size() != 2 * spatial) return;
  // What else decides the size of the result.
  if (transposed_ &&
      (mil_op ? param(n, "output_shape") != nullptr : n.attr("output_shape") != nullptr || n.attr("output_padding") != nullptr))
    return;
  before_.assign(spatial, 0);
  after_.assign(spatial, 0);
  if (*mode == "same" || *mode == "SAME_UPPER") {
    pad_mode_ = PadMode::kSame;
  } else if (*mode == "same_lower" || *mode == "SAME_LOWER") {
    pad_mode_ = PadMode::kSameLower;
  } else if (*mode == "custom" || *mode == "NOTSET") {
    for (size_t i = 0; i < spatial; ++i) {  // mil: begin and end of each axis; onnx: all begins, then all ends
      before_[i] = (*pads)[mil_op ? 2 * i : i];
      after_[i] = (*pads)[mil_op ? 2 * i + 1 : spatial + i];
    }
  } else if (*mode != "valid" && *mode != "VALID") {
    return;
  }
  bias_ = mil_op ? param(n, "bias") : n.input(2);
  groups_ = *groups;
  strides_ = *strides;
  dilations_ = *dilations;
  node_ = &n;
}

BatchNorm::BatchNorm(Node& n) {
  const bool mil_norm = is_mil(n, mil::kFamily_batch_norm);
  if (!mil_norm && !is_onnx(n, "BatchNormalization")) return;
  // With more results, or told so, it trains.
  if (!mil_norm && (n.op().since_version < 7 || n.attr_int("training_mode", 0) != 0 || n.num_results() != 1)) return;
  const auto epsilon = float_param(n, "epsilon", 1e-5);
  if (!epsilon) return;
  epsilon_ = *epsilon;
  gamma_ = mil_norm ? param(n, "gamma") : n.input(1);
  beta_ = mil_norm ? param(n, "beta") : n.input(2);
  mean_ = mil_norm ? param(n, "mean") : n.input(3);
  variance_ = mil_norm ? param(n, "variance") : n.input(4);
  if (mean_ != nullptr && variance_ != nullptr) node_ = &n;
}

Pad::Pad(Node& n) {
  const bool mil_pad = is_mil(n, mil::kFamily_pad);
  if (!mil_pad && (!is_onnx(n, "Pad") || n.op().since_version < 11)) return;
  const auto rank = rank_of(n.input(0));
  if (!rank) return;
  const auto mode = text_param(n, "mode", "constant");
  if (!mode) return;
  if (*mode == "constant") {
    mode_ = Mode::kConstant;
  } else if (*mode == "reflect") {
    mode_ = Mode::kReflect;
  } else if (*mode == "edge" || *mode == "replicate") {
    mode_ = Mode::kEdge;
  } else {
    return;
  }
  const auto pads = ints_of(mil_pad ? param(n, "pad") : n.input(1));
  if (!pads || pads->size() % 2 != 0) return;
  const size_t count = pads->size() / 2;
  before_.assign(*rank, 0);
  after_.assign(*rank, 0);
  std::vector<size_t> axes;
  if (mil_pad) {  // pairs, for the last axes
    if (count > *rank) return;
    for (size_t i = 0; i < count; ++i) axes.push_back(*rank - count + i);
  } else if (n.input(3) != nullptr) {
    const auto given = ints_of(n.input(3));
    if (!given || given->size() != count) return;
    for (int64_t a : *given) {
      a += a < 0 ? static_cast<int64_t>(*rank) : 0;
      if (a < 0 || a >= static_cast<int64_t>(*rank)) return;
      axes.push_back(static_cast<size_t>(a));
    }
  } else {
    if (count != *rank) return;
    for (size_t i = 0; i < count; ++i) axes.push_back(i);
  }
  for (size_t i = 0; i < count; ++i) {
    before_[axes[i]] = (*pads)[mil_pad ? 2 * i : i];
    after_[axes[i]] = (*pads)[mil_pad ? 2 * i + 1 : count + i];
  }
  const Value* value = mil_pad ? param(n, "constant_val") : n.input(2);
  if (mode_ == Mode::kConstant && value != nullptr) {
    if (!value->is_constant() || value->constant()->size() != 1 || value->constant()->dtype() == DType::kString) return;
    value_ = value->constant()->as_double(0);
  }
  node_ = &n;
}

// ---------------------------------------------------------------------------------------------------------------------
// Reductions and products

namespace {

struct ReduceRow {
  Reduce::Kind kind;
  std::string_view onnx, mil;
  int axes_operand_since;  // onnx
};
constexpr ReduceRow kReductions[] = {
    {Reduce::Kind::kSum, "ReduceSum", "reduce_sum", 13},
    {Reduce::Kind::kMean, "ReduceMean", "reduce_mean", 18},
    {Reduce::Kind::kMax, "ReduceMax", "reduce_max", 18},
    {Reduce::Kind::kMin, "ReduceMin", "reduce_min", 18},
    {Reduce::Kind::kProd, "ReduceProd", "reduce_prod", 18},
    {Reduce::Kind::kL1, "ReduceL1", "reduce_l1_norm", 18},
    {Reduce::Kind::kL2, "ReduceL2", "reduce_l2_norm", 18},
    {Reduce::Kind::kLogSum, "ReduceLogSum", "reduce_log_sum", 18},
    {Reduce::Kind::kLogSumExp, "ReduceLogSumExp", "reduce_log_sum_exp", 18},
    {Reduce::Kind::kSumSquare, "ReduceSumSquare", "reduce_sum_square", 18},
};

}  // namespace

Reduce::Reduce(Node& n) {
  if (!n.op().known || !n.op().domain.empty()) return;
  const auto row =
      std::ranges::find_if(kReductions, [&](const ReduceRow& r) { return n.op().name == (is_mil(n) ? r.mil : r.onnx); });
  const auto rank = rank_of(n.input(0));
  if (row == std::end(kReductions) || !rank) return;
  kind_ = row->kind;
  bool none = false;
  std::optional<Ints> axes;
  if (is_mil(n)) {
    const Value* v = param(n, "axes");
    none = v == nullptr;
    axes = none ? std::optional(Ints()) : ints_of(v);
    // The epsilon of reduce_log_sum and its kin is no part of the view.
    const auto epsilon = float_param(n, "epsilon", 0);
    if (slot_of_name(n, "epsilon") != SIZE_MAX && epsilon != 0) return;
  } else {
    axes = onnx_axes(n, row->axes_operand_since, &none);
    // An empty list means all axes, unless the node says that it means none.
    if (axes && axes->empty()) {
      if (n.attr_int("noop_with_empty_axes", 0) != 0) return;
      none = true;
    }
  }
  const auto keep = int_param(n, is_mil(n) ? "keep_dims" : "keepdims", is_mil(n) ? 0 : 1);
  if (!axes || !keep) return;
  if (none) {
    axes->resize(*rank);
    std::iota(axes->begin(), axes->end(), 0);
  }
  axes = sorted_axes(std::move(axes), *rank);
  if (!axes) return;
  axes_ = std::move(*axes);
  keep_dims_ = *keep != 0;
  node_ = &n;
}

Value* Reduce::make(Builder& b, Kind kind, Value* x, std::span<const int64_t> axes, bool keep_dims) {
  const auto row = std::ranges::find(kReductions, kind, &ReduceRow::kind);
  if (axes.empty()) return nullptr;  // all axes in one dialect, none in nobody's
  if (in_mil(b)) return mil_op(b, row->mil, {{"x", x}, {"axes", i32s(b, axes)}, {"keep_dims", boolean(b, keep_dims)}});
  AttrInit attrs{attr("keepdims", keep_dims ? 1 : 0)};
  if (onnx_version(b) >= row->axes_operand_since) return b.op(row->onnx, {x, b.i64s(axes)}, std::move(attrs));
  attrs.push_back(attr("axes", Ints(axes.begin(), axes.end())));
  return b.op(row->onnx, {x}, std::move(attrs));
}

Softmax::Softmax(Node& n) {
  const bool mil_softmax = is_mil(n, mil::kFamily_softmax);
  if (!mil_softmax && !is_onnx(n, "Softmax")) return;
  const auto rank = rank_of(n.input(0));
  const auto axis = int_param(n, "axis", -1);
  if (!rank || *rank == 0 || !axis) return;
  const auto axes = sorted_axes(Ints{*axis}, *rank);
  if (!axes || (!mil_softmax && n.op().since_version < 13 && (*axes)[0] + 1 != static_cast<int64_t>(*rank))) return;
  axis_ = (*axes)[0];
  node_ = &n;
}

Value* Softmax::make(Builder& b, Value* x, int64_t axis) {
  if (in_mil(b)) return mil_op(b, "softmax", {{"x", x}, {"axis", i32(b, axis)}});
  if (onnx_version(b) < 13) return nullptr;
  return b.op("Softmax", {x}, {attr("axis", axis)});
}

MatMul::MatMul(Node& n) {
  if (is_mil(n, mil::kFamily_matmul)) {
    const auto x = int_param(n, "transpose_x", 0), y = int_param(n, "transpose_y", 0);
    if (!x || !y) return;
    transpose_x_ = *x != 0;
    transpose_y_ = *y != 0;
  } else if (!is_onnx(n, "MatMul")) {
    return;
  }
  if (n.input(0) != nullptr && n.input(1) != nullptr) node_ = &n;
}

Value* MatMul::make(Builder& b, Value* x, Value* y, bool transpose_x, bool transpose_y) {
  if (!in_mil(b)) return transpose_x || transpose_y ? nullptr : b.op("MatMul", {x, y});
  if (!y->ranked() || y->type()->rank() < 2) return nullptr;
  return mil_op(b, "matmul",
                {{"x", x}, {"y", y}, {"transpose_x", boolean(b, transpose_x)}, {"transpose_y", boolean(b, transpose_y)}});
}

Gelu::Gelu(Node& n) {
  if (is_onnx(n, "Gelu")) {
    tanh_ = n.attr_string("approximate", "none") == "tanh";
  } else if (is_mil(n, mil::kFamily_gelu)) {
    const auto mode = text_param(n, "mode", "EXACT");
    if (!mode || (*mode != "EXACT" && *mode != "TANH_APPROXIMATION")) return;
    tanh_ = *mode == "TANH_APPROXIMATION";
  } else {
    return;
  }
  node_ = &n;
}

Value* Gelu::make(Builder& b, Value* x, bool tanh) {
  if (in_mil(b)) return mil_op(b, "gelu", {{"x", x}, {"mode", text(b, tanh ? "TANH_APPROXIMATION" : "EXACT")}});
  if (onnx_version(b) < 20) return nullptr;
  return b.op("Gelu", {x}, {attr("approximate", tanh ? "tanh" : "none")});
}

}  // namespace sardonyx::view
