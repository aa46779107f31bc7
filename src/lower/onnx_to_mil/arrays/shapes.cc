// Operators that move elements or compute sizes.
#include <fmt/format.h>

#include <algorithm>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {
namespace {

// MIL's ops on lists of values do not take bools: these are cast to i32 and back.
Value* concat(Lowering& ctx, std::vector<Value*> xs, int64_t axis) {
  const DType own = xs[0]->dtype();
  const bool through = !ctx.takes("concat", own);
  if (through && own != DType::kBool) ctx.unsupported(fmt::format("Core ML's concat takes no {}", to_string(own)));
  for (Value*& x : xs) x = through ? ctx.cast(x, DType::kI32) : x;
  Value* y = xs.size() == 1 ? xs[0] : ctx.b.concat(xs, {.axis = axis, .interleave = false});
  return through ? ctx.b.not_equal(y, ctx.like(y, 0)) : y;
}

// The operands without this axis, if each is an Unsqueeze and all have one type before it; else empty.
std::vector<Value*> stacked(Lowering& ctx, const std::vector<Value*>& xs, size_t axis) {
  std::vector<Value*> found;
  for (Value* x : xs) {
    const Node* n = x->def();
    if (n == nullptr || !n->is("expand_dims") || n->input(1) == nullptr || !n->input(1)->is_constant()) return {};
    const auto added = n->input(1)->constant()->to_ints();
    Value* before = n->input(0);
    if (!added || added->size() != 1 || from_front((*added)[0], x->type()->rank()) != axis || before->type()->rank() == 0 ||
        (!found.empty() && before->type() != found[0]->type()) || !ctx.takes("stack", before->dtype()))
      return {};
    found.push_back(before);
  }
  return found;
}

}  // namespace

std::vector<Value*> lower_Concat(Lowering& ctx) {
  const size_t axis = from_front(ctx.int_attr("axis", 0), ctx.rank(0));
  std::vector<Value*> xs;
  for (Value* x : ctx.operands()) {
    if (!x->ranked() || !x->type()->dim(axis).is(0)) xs.push_back(x);  // skips empty operands
  }
  if (xs.empty()) xs.push_back(ctx.in(0));
  if (const auto pieces = stacked(ctx, xs, axis); pieces.size() > 1) return {ctx.b.stack(pieces, {.axis = as_int(axis)})};
  return {concat(ctx, xs, as_int(axis))};
}

std::vector<Value*> lower_ConstantOfShape(Lowering& ctx) {
  const Attr* given = ctx.node.attr("value");
  const TensorPtr* value = given != nullptr ? given->get<TensorPtr>() : nullptr;
  const DType d = stored_dtype(ctx.out_dtype());
  if (d == DType::kUndefined || d == DType::kString) ctx.unsupported("Core ML fills with numbers only");
  const double v = value != nullptr ? (*value)->as_double(0) : 0;
  if (ctx.out_type()->is_static()) {
    std::vector<int64_t> shape;
    for (Dim size : ctx.out_dims()) shape.push_back(size.value());
    return {ctx.b.full(d, shape, v)};
  }
  const TensorPtr one = Tensor::full(d == DType::kBool ? DType::kI32 : d, {}, v);
  Value* y = ctx.b.fill(ctx.in(0), {.value = one});
  return {d == DType::kBool ? ctx.b.not_equal(y, ctx.like(y, 0)) : y};
}

std::vector<Value*> lower_Expand(Lowering& ctx) {
  Value* x = ctx.in(0);
  const Type* out = ctx.node.result()->type();
  if (out != nullptr && out->ranked() && out->is_static()) return {ctx.expand(x, ctx.out_dims())};
  // Multiplies by ones of the requested shape, which broadcasts as Expand does.
  Value* shape = ctx.in(1);
  if (x->dtype() == DType::kBool) return {ctx.b.logical_and(x, ctx.b.not_equal(ctx.b.fill(shape, {.value = 1}), ctx.b.i32(0)))};
  const TensorPtr one = Tensor::full(x->dtype(), {}, 1);
  return {ctx.b.mul(x, ctx.b.fill(shape, {.value = one}))};
}

std::vector<Value*> lower_Flatten(Lowering& ctx) {
  const auto dims = ctx.in_dims(0);
  const size_t cut = from_front(ctx.int_attr("axis", 1), dims.size());
  const std::vector<Dim> shape{ctx.dims().product(dims.first(cut)), ctx.dims().product(dims.subspan(cut))};
  return {ctx.via("reshape", ctx.in(0), [&](Value* x) { return ctx.reshape(x, shape); })};
}

namespace {

struct Padding {
  std::vector<int64_t> before, after;  // at each axis; negative ones crop
  bool adds() const { return std::ranges::any_of(before, above) || std::ranges::any_of(after, above); }
  bool cuts() const { return std::ranges::any_of(before, below) || std::ranges::any_of(after, below); }
  static bool above(int64_t n) { return n > 0; }
  static bool below(int64_t n) { return n < 0; }
};

Padding padding_of(Lowering& ctx) {
  const size_t rank = ctx.rank(0);
  const auto given = ctx.need_ints(1, "pads", "the padding");
  std::vector<int64_t> axes = iota(rank);
  if (ctx.has(3)) axes = ctx.need_ints(3, {}, "the axes");
  if (given.size() != 2 * axes.size())
    throw Error(ErrorCode::kInvalidModel, fmt::format("{} pads for {} axes", given.size(), axes.size()));
  Padding p{std::vector<int64_t>(rank), std::vector<int64_t>(rank)};
  for (size_t i = 0; i < axes.size(); ++i) {
    p.before[from_front(axes[i], rank)] = given[i];
    p.after[from_front(axes[i], rank)] = given[i + axes.size()];
  }
  return p;
}

// Crops x by the negative padding, and leaves the rest in `p`.
Value* cut(Lowering& ctx, Value* x, Padding& p) {
  if (!p.cuts()) return x;
  std::vector<int64_t> begin, end;
  std::vector<bool> whole;
  for (size_t i = 0; i < p.before.size(); ++i) {
    begin.push_back(std::max<int64_t>(-p.before[i], 0));
    end.push_back(std::min<int64_t>(p.after[i], 0));
    whole.push_back(end[i] == 0);
    p.before[i] = std::max<int64_t>(p.before[i], 0);
    p.after[i] = std::max<int64_t>(p.after[i], 0);
  }
  return ctx.via("slice_by_index", x, [&](Value* v) { return ctx.b.slice_by_index(v, begin, end, {.end_mask = whole}); });
}

// The index of the element that padding of this mode copies to index i of an axis of n elements; i may be out
// of range.
int64_t padded_from(const std::string& mode, int64_t i, int64_t n) {
  if (mode == "edge") return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == "wrap") return (i % n + n) % n;
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1), k = (i % period + period) % period;
  return k < n ? k : period - k;
}

// Gathers along each axis at constant indices: any mode but constant, any axis, any element type.
Value* gathered(Lowering& ctx, Value* x, const Padding& p, const std::string& mode) {
  for (size_t axis = 0; axis < p.before.size(); ++axis) {
    if (p.before[axis] == 0 && p.after[axis] == 0) continue;
    const Dim size = x->type()->dim(axis);
    if (!size.is_int()) ctx.unsupported(fmt::format("padding of mode {} along an axis of open size", mode));
    std::vector<int32_t> indices;
    for (int64_t i = -p.before[axis]; i < size.value() + p.after[axis]; ++i)
      indices.push_back(static_cast<int32_t>(padded_from(mode, i, size.value())));
    Value* at = ctx.b.constant(Tensor::of<int32_t>(DType::kI32, {static_cast<int64_t>(indices.size())}, indices));
    x = ctx.b.gather(x, at, {.axis = as_int(axis)});
  }
  return x;
}

// Pads integers by concatenating constant blocks: Core ML's pad takes no integers.
Value* surrounded(Lowering& ctx, Value* x, const Padding& p, Value* number) {
  MilBuilder& b = ctx.b;
  for (size_t axis = 0; axis < p.before.size(); ++axis) {
    std::vector<Value*> pieces;
    std::vector<Dim> dims(x->type()->dims().begin(), x->type()->dims().end());
    const auto block = [&](int64_t n) {
      dims[axis] = Dim::of(n);
      if (n > 0) pieces.push_back(ctx.expand(number, dims));
    };
    block(p.before[axis]);
    pieces.push_back(x);
    block(p.after[axis]);
    if (pieces.size() > 1) x = b.concat(pieces, {.axis = as_int(axis), .interleave = false});
  }
  return x;
}

}  // namespace

namespace {

// Pads floats by sizes known only at run time. Negative ones crop.
Value* padded_by_computed(Lowering& ctx, const std::string& mode) {
  MilBuilder& b = ctx.b;
  Value* x = ctx.in(0);
  if (mode != "constant" || !ctx.takes("pad", x->dtype()))
    ctx.unsupported(fmt::format("padding of {} by mode {} that is computed at run time", to_string(ctx.in_dtype(0)), mode));
  const size_t rank = ctx.rank(0);
  std::vector<int64_t> axes = iota(rank);
  if (ctx.has(3)) axes = ctx.need_ints(3, {}, "the axes");
  std::vector<Value*> ends(2 * rank, b.i32s(std::vector<int64_t>{0})), befores(rank, ends[0]), afters(rank, ends[0]);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = from_front(axes[i], rank);
    const int64_t first = as_int(i), second = as_int(i + axes.size());
    befores[axis] = ends[2 * axis] = b.slice_by_index(ctx.in(1), {first}, {first + 1});
    afters[axis] = ends[2 * axis + 1] = b.slice_by_index(ctx.in(1), {second}, {second + 1});
  }
  Value* pads = ctx.join(ends);
  if (!ctx.is_never_negative(1)) {
    const auto cut_by = [&](std::vector<Value*>& by) { return b.maximum(b.sub(b.i32(0), ctx.join(by)), b.i32(0)); };
    x = b.slice_by_index(x, cut_by(befores), b.sub(ctx.shape_of(x), cut_by(afters)));
    pads = b.maximum(pads, b.i32(0));
  }
  const auto number = ctx.has(2) ? ctx.splat_value(2) : 0.0;
  if (number) return b.pad(x, pads, {.constant_val = ctx.like(x, *number), .mode = mode});
  Value* y = b.pad(x, pads, {.constant_val = ctx.like(x, 0), .mode = mode});
  Value* inside =
      b.pad(b.fill(ctx.shape_of(x), {.value = ctx.like(x, 1)}), pads, {.constant_val = ctx.like(x, 0), .mode = mode});
  return b.select(b.not_equal(inside, ctx.like(x, 0)), y, ctx.reshape(ctx.in(2), {}));
}

}  // namespace

std::vector<Value*> lower_Pad(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const std::string mode = ctx.string_attr("mode", "constant");
  if (ctx.has(1) && !ctx.ints(1)) return {padded_by_computed(ctx, mode)};
  Padding p = padding_of(ctx);
  Value* x = cut(ctx, ctx.in(0), p);
  if (!p.adds()) return {x};
  const size_t rank = ctx.rank(0);
  size_t first = 0;
  while (p.before[first] == 0 && p.after[first] == 0) ++first;
  const bool is_float_type = ctx.takes("pad", x->dtype());
  if (mode != "constant" && (mode == "wrap" || rank - first > 2 || !is_float_type))
    return {ctx.via("gather", x, [&](Value* v) { return gathered(ctx, v, p, mode); })};
  std::vector<int64_t> pads;
  for (size_t i = 0; i < rank; ++i) pads.insert(pads.end(), {p.before[i], p.after[i]});
  const auto known = ctx.has(2) ? ctx.splat_value(2) : std::optional<double>(ctx.float_attr("value", 0));
  if (x->dtype() == DType::kBool && known)
    return {
        b.not_equal(b.pad(ctx.cast(x, DType::kF32), pads, {.constant_val = *known, .mode = mode}), b.scalar(DType::kF32, 0))};
  if (!is_float_type || !known) {
    Value* number = ctx.has(2) ? ctx.in(2) : b.scalar(x->dtype(), *known);
    if (number->type()->rank() != 0) number = b.squeeze(number);
    return {ctx.via("concat", x, [&](Value* v) { return surrounded(ctx, v, p, ctx.cast(number, v->dtype())); })};
  }
  return {b.pad(x, pads, {.constant_val = ctx.like(x, *known), .mode = mode == "edge" ? "replicate" : mode})};
}

// Crops around the center, or pads with zeros.
std::vector<Value*> lower_CenterCropPad(Lowering& ctx) {
  const size_t rank = ctx.rank(0);
  const auto wanted = ctx.need_ints(1, {}, "the shape");
  const auto axes = ctx.node.attr_ints("axes").value_or(iota(rank));
  Padding p{std::vector<int64_t>(rank), std::vector<int64_t>(rank)};
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = from_front(axes[i], rank);
    const Dim size = ctx.in_dims(0)[axis];
    if (!size.is_int()) ctx.unsupported("cropping of an open size");
    const int64_t more = wanted.at(i) - size.value();
    p.before[axis] = more > 0 ? more / 2 : -(-more / 2);
    p.after[axis] = more - p.before[axis];
  }
  Value* x = cut(ctx, ctx.in(0), p);
  return {ctx.via("concat", x, [&](Value* v) { return surrounded(ctx, v, p, ctx.b.scalar(v->dtype(), 0)); })};
}

namespace {

// A shape with several symbolic sizes: 0 copies a size of x, and -1 stands for the remaining one.
Value* copied(Lowering& ctx, Value* x, const std::vector<int64_t>& given) {
  const auto dims = ctx.out_dims();
  bool has_rest = std::ranges::find(given, -1) != given.end();
  std::vector<Value*> pieces;
  for (size_t i = given.size(); i-- > 0;) {
    int64_t size = dims[i].is_int() ? dims[i].value() : given[i];
    if (size == 0 && !dims[i].is_int() && !has_rest) {
      size = -1;
      has_rest = true;
    }
    if (size == 0 && dims[i].is_int())
      ctx.unsupported("tensors without elements cannot be reshaped in Core ML, where 0 copies a size");
    pieces.push_back(size != 0 ? ctx.b.i32s(std::vector<int64_t>{size}) : ctx.size_of(x, i));
  }
  std::ranges::reverse(pieces);
  return ctx.join(pieces);
}

}  // namespace

std::vector<Value*> lower_Reshape(Lowering& ctx) {
  const auto reshaped = [&](Value* x) {
    const Type* out = ctx.node.result()->type();
    if (out == nullptr || !out->is_tensor() || !out->ranked()) ctx.unsupported("the rank of the result is not known");
    const auto dims = ctx.out_dims();
    const auto open = std::ranges::count_if(dims, [](Dim d) { return !d.is_int(); });
    if (open <= 1) return ctx.reshape(x, dims);
    const auto given = ctx.ints(1);
    if (given && given->size() == dims.size()) return ctx.b.reshape(x, copied(ctx, x, *given));
    return ctx.b.reshape(x, ctx.in(1));
  };
  return {ctx.via("reshape", ctx.in(0), reshaped)};
}

std::vector<Value*> lower_Shape(Lowering& ctx) {
  const auto dims = ctx.in_dims(0);
  const auto rank = as_int(dims.size());
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(ctx.int_attr("start", 0)), end = std::max(start, clamp(ctx.int_attr("end", rank)));
  const auto part = dims.subspan(static_cast<size_t>(start), static_cast<size_t>(end - start));
  if (std::ranges::all_of(part, [](Dim d) { return d.is_int(); })) return {ctx.shape(part)};
  Value* shape = ctx.b.shape(ctx.in(0));
  if (end - start < rank) shape = ctx.b.slice_by_index(shape, {start}, {end});
  return {shape};
}

std::vector<Value*> lower_Size(Lowering& ctx) {
  const Type* t = ctx.in_type(0);
  if (const auto size = t->static_size()) return {ctx.b.i32(static_cast<int32_t>(*size))};
  return {ctx.b.reduce_prod(ctx.b.shape(ctx.in(0)), {.axes = {0}, .keep_dims = false})};
}

std::vector<Value*> lower_Split(Lowering& ctx) {
  const size_t axis = from_front(ctx.int_attr("axis", 0), ctx.rank(0)), n = ctx.node.num_results();
  const Dim whole = ctx.in_dims(0)[axis];
  std::vector<int64_t> sizes;
  if (const auto given = ctx.ints(1, "split")) {
    sizes = *given;
  } else if (ctx.has(1)) {
    ctx.unsupported("the sizes of the pieces are computed, and Core ML wants constants");
  } else if (whole.is_int()) {
    const int64_t piece = (whole.value() + as_int(n) - 1) / as_int(n);
    for (size_t i = 0; i < n; ++i) sizes.push_back(std::min(piece, whole.value() - as_int(i) * piece));
  }
  Value* x = ctx.in(0);
  if (n == 1) return {x};
  const bool through = !ctx.takes("split", x->dtype());
  if (through && x->dtype() != DType::kBool) ctx.unsupported(fmt::format("Core ML's split takes no {}", to_string(x->dtype())));
  if (through) x = ctx.cast(x, DType::kI32);
  if (sizes.empty() && !ctx.dims().divide_exactly(whole, Dim::of(as_int(n))))
    ctx.unsupported(fmt::format("{} pieces of a size that is open and may leave a remainder", n));
  Node& pieces = sizes.empty() ? ctx.b.split(x, n, {.axis = as_int(axis), .num_splits = as_int(n)})
                               : ctx.b.split(x, n, {.axis = as_int(axis), .split_sizes = sizes});
  std::vector<Value*> results;
  for (Value& v : pieces.results()) results.push_back(through ? ctx.b.not_equal(&v, ctx.like(&v, 0)) : &v);
  return results;
}

std::vector<Value*> lower_Squeeze(Lowering& ctx) {
  std::vector<int64_t> axes;
  if (const auto given = ctx.ints(1, "axes")) {
    for (int64_t a : *given) axes.push_back(as_int(from_front(a, ctx.rank(0))));
  } else if (ctx.has(1)) {
    ctx.unsupported("the axes are computed, and Core ML wants constants");
  } else {
    for (size_t i = 0; i < ctx.rank(0); ++i) {
      if (ctx.in_dims(0)[i].is(1)) axes.push_back(as_int(i));
    }
  }
  return {ctx.via("squeeze", ctx.in(0), [&](Value* x) { return ctx.squeeze(x, axes); })};
}

std::vector<Value*> lower_Tile(Lowering& ctx) {
  if (ctx.rank(0) == 0) return {ctx.in(0)};
  const auto known = ctx.ints(1);
  return {ctx.via("tile", ctx.in(0), [&](Value* x) { return known ? ctx.b.tile(x, *known) : ctx.b.tile(x, ctx.in(1)); })};
}

std::vector<Value*> lower_Transpose(Lowering& ctx) {
  std::vector<int64_t> perm = ctx.node.attr_ints("perm").value_or(std::vector<int64_t>());
  if (perm.empty()) {
    perm = iota(ctx.rank(0));
    std::ranges::reverse(perm);
  }
  return {ctx.via("transpose", ctx.in(0), [&](Value* x) { return ctx.transpose(x, perm); })};
}

std::vector<Value*> lower_Unsqueeze(Lowering& ctx) {
  const size_t rank = ctx.out_type()->rank();
  std::vector<int64_t> axes;
  for (int64_t a : ctx.need_ints(1, "axes", "the axes")) axes.push_back(as_int(from_front(a, rank)));
  std::ranges::sort(axes);
  return {ctx.via("expand_dims", ctx.in(0), [&](Value* x) { return ctx.unsqueeze(x, axes); })};
}

}  // namespace sardonyx::onnx_to_mil
