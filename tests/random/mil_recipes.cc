// Recipes that draw operands and parameters of Core ML ops so that they fit together. Slots are named as in
// the op table, so one recipe serves all versions of an op.
#include "random/recipes.h"

namespace sardonyx::fuzz {
namespace {

using Ints = std::vector<int64_t>;

constexpr uint64_t kFloats = bits({DType::kF16, DType::kF32});
constexpr uint64_t kNumbers = bits({DType::kF16, DType::kF32, DType::kI32});

Value* i32(Generator& g, int64_t v) { return g.scalar(DType::kI32, static_cast<double>(v)); }
Value* flag(Generator& g, bool v) { return g.scalar(DType::kBool, v ? 1 : 0); }
Value* text(Generator& g, std::string s) { return g.constant(Tensor::strings({}, {std::move(s)})); }
Value* flags(Generator& g, const std::vector<uint8_t>& v) {
  return g.constant(Tensor::of<uint8_t>(DType::kBool, {static_cast<int64_t>(v.size())}, v));
}

int64_t spelled(Generator& g, int64_t axis, int64_t rank) { return g.chance(40) ? axis - rank : axis; }

// Draws the first operand: a tensor that the op takes.
Value* first(Generator& g, Draft& d, size_t min_rank, size_t max_rank = 5) {
  Value* v = g.pick_or_make(d.op->inputs[0].types.tensor & (kNumbers | bits({DType::kBool})), min_rank, max_rank);
  if (v != nullptr && std::ranges::any_of(v->type()->dims(), [](Dim s) { return s.is(0); })) return nullptr;
  if (v != nullptr) d.set_slot(d.op->inputs[0].name, v);
  return v;
}
// A constant of those sizes, which must all be known.
Value* fixed(Generator& g, DType t, const std::vector<Dim>& dims) {
  Ints shape;
  for (Dim s : dims) {
    if (!s.is_int()) return nullptr;
    shape.push_back(s.value());
  }
  return g.constant(t, shape);
}
// A dtype for parameters that may be of another float type than x.
DType other_float(Generator& g, const Draft& d, const Value& x) {
  const auto at = d.slot("beta");
  const bool own = at && d.op->inputs[*at].type_var != d.op->inputs[0].type_var;
  return own && g.chance(10) ? (x.dtype() == DType::kF16 ? DType::kF32 : DType::kF16) : x.dtype();
}

bool transpose(Generator& g, Draft& d) {
  Value* x = first(g, d, 1);
  if (x == nullptr) return false;
  Ints perm;
  for (int64_t i = 0; i < rank_of(*x); ++i) perm.push_back(i);
  for (size_t i = perm.size(); i > 1; --i) std::swap(perm[i - 1], perm[static_cast<size_t>(g.below(static_cast<int64_t>(i)))]);
  for (int64_t& p : perm) p = g.chance(10) ? p - rank_of(*x) : p;
  d.set_slot("perm", g.ints(perm));
  return true;
}

bool reshape(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  const int64_t r = rank_of(*x);
  if (g.chance(20) && r > 0) {  // computed at run time
    Value* sizes = g.add_one("shape", {x});
    if (sizes == nullptr) return false;
    std::vector<Value*> parts{i32(g, 0), flag(g, false)};
    const int64_t flat = g.below(r);
    for (int64_t i = 0; i < r; ++i) {
      parts.push_back(i == flat ? g.ints({-1}) : g.add_one("slice_by_size", {sizes, g.ints({i}), g.ints({1})}));
      if (parts.back() == nullptr) return false;
    }
    Value* shape = g.add_one("concat", parts);
    d.set_slot("shape", shape);
    return shape != nullptr;
  }
  Ints target;
  bool free = true;
  for (int64_t i = 0; i < r; ++i) {
    if (g.chance(20)) target.push_back(1);
    const auto n = g.known(dim(*x, i));
    if (n && *n % 2 == 0 && g.chance(30)) {
      target.insert(target.end(), {2, *n / 2});
    } else if (n && i + 1 < r && g.known(dim(*x, i + 1)) && g.chance(40)) {
      target.push_back(*n * *g.known(dim(*x, i + 1)));
      ++i;
    } else if (i + 1 < r && g.chance(30) && free) {
      target.push_back(-1);
      free = false;
      ++i;
    } else if (n && g.chance(80)) {
      target.push_back(*n);
    } else if (free) {
      target.push_back(-1);
      free = false;
    } else if (n) {
      target.push_back(*n);
    } else {
      return false;
    }
  }
  if (target.empty()) target.assign(static_cast<size_t>(g.between(1, 2)), 1);
  d.set_slot("shape", g.ints(target));
  return true;
}

bool squeeze(Generator& g, Draft& d) {
  Value* x = first(g, d, 2);
  if (x == nullptr) return false;
  Ints axes;
  for (int64_t i = 0; i < rank_of(*x); ++i) {
    if (dim(*x, i).is(1) && g.chance(70)) axes.push_back(spelled(g, i, rank_of(*x)));
  }
  if (axes.empty()) return false;
  d.set_slot("axes", g.ints(axes));
  return true;
}

bool expand_dims(Generator& g, Draft& d) {
  Value* x = first(g, d, 0, 3);
  if (x == nullptr) return false;
  const int64_t r = rank_of(*x), n = g.between(1, 2);
  Ints axes{g.below(r + n)};
  if (n == 2) axes.push_back((axes[0] + 1 + g.below(r + 1)) % (r + 2));
  for (int64_t& a : axes) a = spelled(g, a, r + n);
  d.set_slot("axes", g.ints(axes));
  return true;
}

bool reduce(Generator& g, Draft& d) {
  Value* x = first(g, d, 1);
  if (x == nullptr) return false;
  Ints axes;
  for (int64_t i = 0; i < rank_of(*x); ++i) {
    if (g.chance(45)) axes.push_back(spelled(g, i, rank_of(*x)));
  }
  if (!axes.empty()) d.set_slot("axes", g.ints(axes));
  if (g.chance(80)) d.set_slot("keep_dims", flag(g, g.chance(50)));
  return true;
}

bool cast(Generator& g, Draft& d) {
  if (first(g, d, 0) == nullptr) return false;
  static constexpr const char* kOld[] = {"fp32", "fp16", "int32", "bool"};
  static constexpr const char* kNew[] = {"fp32", "fp16", "fp32", "fp16", "int32", "bool", "int16", "int8", "uint8", "uint16"};
  d.set_slot("dtype", text(g, d.op->since_version >= 8 ? g.one_of(kNew) : g.one_of(kOld)));
  return true;
}

bool clip(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  const double low = static_cast<double>(g.between(-2, 0));
  d.set_slot("alpha", g.scalar(x->dtype(), low));
  d.set_slot("beta", g.scalar(x->dtype(), low + static_cast<double>(g.between(1, 6))));
  return true;
}

bool matmul(Generator& g, Draft& d) {
  Value* a = first(g, d, 2, 4);
  if (a == nullptr || !is_float(a->dtype())) return false;
  const bool tx = g.chance(25), ty = g.chance(35);
  const int64_t r = rank_of(*a);
  const Dim k = dim(*a, tx ? r - 2 : r - 1), n = Dim::of(g.between(1, 5));
  std::vector<Dim> y = ty ? std::vector<Dim>{n, k} : std::vector<Dim>{k, n};
  if (r > 2 && g.chance(30)) {
    const auto batch = dims_of(*a);
    y.insert(y.begin(), batch.begin(), batch.end() - 2);
  }
  Value* w = g.known(k) && g.chance(50) ? fixed(g, a->dtype(), y) : nullptr;
  if (w == nullptr) w = g.exactly(a->dtype(), y);
  d.set_slot("y", w);
  if (tx || g.chance(30)) d.set_slot("transpose_x", flag(g, tx));
  if (ty || g.chance(30)) d.set_slot("transpose_y", flag(g, ty));
  return w != nullptr;
}

bool linear(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr || !is_float(x->dtype())) return false;
  const Dim in = dim(*x, rank_of(*x) - 1), out = Dim::of(g.between(1, 5));
  Value* w = fixed(g, x->dtype(), {out, in});
  d.set_slot("weight", w);
  if (g.chance(60)) d.set_slot("bias", fixed(g, x->dtype(), {out}));
  return w != nullptr;
}

// Draws strides, dilations and pads for `spatial` axes.
void window(Generator& g, Draft& d, size_t spatial, bool with_same) {
  Ints strides, dilations, pad;
  for (size_t i = 0; i < spatial; ++i) {
    strides.push_back(g.between(1, 2));
    dilations.push_back(g.chance(20) ? 2 : 1);
    pad.insert(pad.end(), {g.below(2), g.below(2)});
  }
  if (g.chance(60)) d.set_slot("strides", g.ints(strides));
  if (g.chance(40)) d.set_slot("dilations", g.ints(dilations));
  const int64_t kind = g.below(with_same ? 3 : 2);
  d.set_slot("pad_type", text(g, kind == 0 ? "valid" : kind == 1 ? "custom" : "same"));
  if (kind == 1) d.set_slot("pad", g.ints(pad));
}

bool conv(Generator& g, Draft& d) {
  Value* x = first(g, d, 3, 4);
  if (x == nullptr || !is_float(x->dtype())) return false;
  const bool transposed = d.op->name == "conv_transpose";
  const auto c = g.known(dim(*x, 1));
  if (!c) return false;
  const int64_t groups = g.chance(25) ? *c : 1, out = groups * g.between(1, 3);
  std::vector<Dim> w =
      transposed ? std::vector<Dim>{Dim::of(*c), Dim::of(out / groups)} : std::vector<Dim>{Dim::of(out), Dim::of(*c / groups)};
  for (int64_t i = 2; i < rank_of(*x); ++i) w.push_back(Dim::of(g.between(1, 3)));
  d.set_slot("weight", fixed(g, x->dtype(), w));
  if (g.chance(50)) d.set_slot("bias", fixed(g, x->dtype(), {Dim::of(out)}));
  window(g, d, w.size() - 2, !transposed);
  if (groups != 1 || g.chance(30)) d.set_slot("groups", i32(g, groups));
  return true;
}

bool pool(Generator& g, Draft& d) {
  Value* x = first(g, d, 3, 4);
  if (x == nullptr) return false;
  Ints kernel;
  for (int64_t i = 2; i < rank_of(*x); ++i) kernel.push_back(g.between(1, 3));
  d.set_slot("kernel_sizes", g.ints(kernel));
  if (g.chance(20)) {  // no specification defines windows that begin beyond the end
    d.set_slot("ceil_mode", flag(g, true));
    d.set_slot("strides", g.ints(kernel));
    d.set_slot("pad_type", text(g, "valid"));
  } else {
    window(g, d, kernel.size(), true);
  }
  if (g.chance(30)) d.set_slot("exclude_padding_from_average", flag(g, true));
  return true;
}

bool batch_norm(Generator& g, Draft& d) {
  Value* x = first(g, d, 3, 4);
  if (x == nullptr || !g.known(dim(*x, 1))) return false;
  const DType t = other_float(g, d, *x);
  const std::vector<Dim> c{dim(*x, 1)};
  if (d.slot("mean")) {
    d.set_slot("mean", fixed(g, t, c));
    d.set_slot("variance", g.constant(Tensor::full(t, {c[0].value()}, g.chance(50) ? 1 : 0.5)));
  }
  if (g.chance(70)) {
    d.set_slot("gamma", fixed(g, t, c));
    d.set_slot("beta", fixed(g, t, c));
  }
  if (g.chance(50)) d.set_slot("epsilon", g.scalar(t, 0.001));
  return true;
}

bool layer_norm(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  const int64_t axis = g.below(rank_of(*x));
  const DType t = other_float(g, d, *x);
  Ints axes;
  std::vector<Dim> shape;
  for (int64_t i = axis; i < rank_of(*x); ++i) {
    axes.push_back(spelled(g, i, rank_of(*x)));
    shape.push_back(dim(*x, i));
  }
  d.set_slot("axes", g.ints(axes));
  if (g.chance(60)) d.set_slot("gamma", fixed(g, t, shape));
  if (g.chance(60)) d.set_slot("beta", fixed(g, t, shape));
  d.set_slot("epsilon", g.scalar(t, 0.001));
  return true;
}

// Draws one number per channel for every parameter.
bool per_channel(Generator& g, Draft& d) {
  Value* x = first(g, d, 3, 4);
  if (x == nullptr || !g.known(dim(*x, 1))) return false;
  const DType t = other_float(g, d, *x);
  for (std::string_view slot : {"alpha", "beta"}) {
    if (!d.slot(slot)) continue;
    d.set_slot(slot, g.constant(Tensor::full(t, {dim(*x, 1).value()}, g.chance(50) ? 1 : 0.25)));
  }
  return true;
}

bool concat(Generator& g, Draft& d) {
  Value* x = g.pick_or_make(kNumbers, 1, 4);
  if (x == nullptr) return false;
  const int64_t axis = g.below(rank_of(*x));
  const bool interleave = g.chance(10);
  d.in = {i32(g, spelled(g, axis, rank_of(*x))), interleave || g.chance(40) ? flag(g, interleave) : nullptr, x};
  for (int64_t k = g.below(3); k > 0; --k) {
    auto dims = dims_of(*x);
    if (!interleave && g.chance(40)) dims[static_cast<size_t>(axis)] = Dim::of(g.between(1, 3));
    Value* v = g.chance(20) && dims == dims_of(*x) ? x : g.exactly(x->dtype(), dims);
    if (v == nullptr) return false;
    d.in.push_back(v);
  }
  return true;
}

bool stack(Generator& g, Draft& d) {
  Value* x = g.pick_or_make(kNumbers, 0, 3);
  if (x == nullptr) return false;
  d.in = {i32(g, spelled(g, g.below(rank_of(*x) + 1), rank_of(*x) + 1)), x};
  for (int64_t k = g.below(3); k > 0; --k) {
    Value* v = g.exactly(x->dtype(), dims_of(*x));
    if (v == nullptr) return false;
    d.in.push_back(v);
  }
  return true;
}

bool split(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  const int64_t axis = g.below(rank_of(*x));
  const auto n = g.known(dim(*x, axis));
  if (!n || *n < 1) return false;
  if (*n == 1 || g.chance(10)) {
    d.set_slot("num_splits", i32(g, 1));
  } else if (g.chance(50)) {
    const int64_t a = g.between(1, *n - 1);
    d.set_slot("split_sizes", g.ints({a, *n - a}));
    d.results = 2;
  } else {
    const int64_t parts = *n % 2 == 0 && g.chance(50) ? 2 : *n;
    d.set_slot("num_splits", i32(g, parts));
    d.results = static_cast<size_t>(parts);
  }
  d.set_slot("axis", i32(g, spelled(g, axis, rank_of(*x))));
  return true;
}

// Draws begin, end and stride of a slice. Axes of unknown size stay whole.
void bounds(Generator& g, Draft& d, const Value& x, bool may_squeeze) {
  Ints begin, end, stride;
  std::vector<uint8_t> begin_mask, end_mask, squeeze_mask;
  bool any_mask = false, any_squeeze = false;
  for (int64_t i = 0; i < rank_of(x); ++i) {
    const auto n = g.known(dim(x, i));
    const bool whole = n.value_or(0) < 1 || g.chance(30);
    const int64_t from = whole ? 0 : g.below(*n), to = whole ? 1 : g.between(from + 1, *n);
    const bool squeezed = may_squeeze && n && g.chance(10);
    begin.push_back(g.chance(20) && n ? from - *n : from);
    end.push_back(to);
    stride.push_back(!whole && g.chance(30) ? 2 : 1);
    begin_mask.push_back(whole ? 1 : 0);
    end_mask.push_back(whole ? 1 : 0);
    squeeze_mask.push_back(squeezed ? 1 : 0);
    any_mask |= whole;
    any_squeeze |= squeezed;
  }
  d.set_slot("begin", g.ints(begin));
  d.set_slot("end", g.ints(end));
  if (g.chance(50)) d.set_slot("stride", g.ints(stride));
  if (any_mask || g.chance(20)) {
    d.set_slot("begin_mask", flags(g, begin_mask));
    d.set_slot("end_mask", flags(g, end_mask));
  }
  if (any_squeeze) d.set_slot("squeeze_mask", flags(g, squeeze_mask));
}

bool slice_by_index(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 5);
  if (x == nullptr) return false;
  bounds(g, d, *x, /*may_squeeze=*/true);
  return true;
}

bool slice_update(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  bounds(g, d, *x, /*may_squeeze=*/false);
  Draft part{.op = g.find("slice_by_index"), .in = {x}};
  for (std::string_view slot : {"begin", "end", "stride", "begin_mask", "end_mask"}) {
    const size_t at = *d.slot(slot);
    if (at < d.in.size() && d.in[at] != nullptr) part.set_slot(slot, d.in[at]);
  }
  Value* now = g.add_draft(part);
  Value* update = now == nullptr ? nullptr : g.exactly(x->dtype(), dims_of(*now));
  d.set_slot("update", update);
  return update != nullptr;
}

bool slice_by_size(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  Ints begin, size;
  for (int64_t i = 0; i < rank_of(*x); ++i) {
    const auto n = g.known(dim(*x, i));
    begin.push_back(n ? g.below(*n) : 0);
    size.push_back(!n || g.chance(30) ? -1 : g.between(1, *n - begin.back()));
  }
  d.set_slot("begin", g.ints(begin));
  d.set_slot("size", g.ints(size));
  return true;
}

bool gather(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  const int64_t axis = g.below(rank_of(*x)), n = g.known(dim(*x, axis)).value_or(1);
  Ints shape;
  if (d.op->name == "gather_along_axis") {
    for (int64_t i = 0; i < rank_of(*x); ++i) {
      const auto size = g.known(dim(*x, i));
      if (!size) return false;
      shape.push_back(i == axis ? g.between(1, 4) : *size);
    }
  } else {
    for (int64_t k = g.below(3); k > 0; --k) shape.push_back(g.between(1, 4));
  }
  d.set_slot("indices", g.indices(shape, n));
  if (axis != 0 || g.chance(50)) d.set_slot("axis", i32(g, spelled(g, axis, rank_of(*x))));
  return true;
}

bool gather_nd(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr || d.slot("x") != 0) return false;
  d.set_slot("indices", g.constant(Tensor::full(DType::kI32, {g.between(1, 4), g.between(1, rank_of(*x))}, 0)));
  return true;
}

std::string mode(Generator& g) {
  static constexpr const char* kModes[] = {"add", "update", "update", "mul", "min", "max", "sub"};
  return g.one_of(kModes);
}

bool scatter(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr || !x->type()->is_static()) return false;
  const int64_t axis = g.below(rank_of(*x)), n = dim(*x, axis).value(), count = g.between(1, n);
  Ints at;
  for (int64_t i = 0; i < n; ++i) at.push_back(i);
  for (size_t i = at.size(); i > 1; --i) std::swap(at[i - 1], at[static_cast<size_t>(g.below(static_cast<int64_t>(i)))]);
  at.resize(static_cast<size_t>(count));
  auto dims = dims_of(*x);
  dims[static_cast<size_t>(axis)] = Dim::of(count);
  Value* updates = g.exactly(x->dtype(), dims);
  if (d.op->name == "scatter") {
    d.set_slot("indices", g.ints(at));
  } else {
    Ints shape;
    int64_t inner = 1, size = 1;
    for (Dim s : dims) shape.push_back(s.value());
    for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) inner *= shape[i];
    for (int64_t s : shape) size *= s;
    std::vector<int32_t> all;
    for (int64_t i = 0; i < size; ++i) all.push_back(static_cast<int32_t>(at[static_cast<size_t>(i / inner % count)]));
    d.set_slot("indices", g.constant(Tensor::of<int32_t>(DType::kI32, shape, all)));
  }
  d.set_slot("updates", updates);
  d.set_slot("axis", i32(g, spelled(g, axis, rank_of(*x))));
  d.set_slot("mode", text(g, mode(g)));
  return updates != nullptr;
}

bool scatter_nd(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr || !x->type()->is_static()) return false;
  auto dims = dims_of(*x);
  d.set_slot("indices", g.constant(Tensor::full(DType::kI32, {1, 1}, static_cast<double>(g.below(dims[0].value())))));
  dims[0] = Dim::of(1);
  Value* updates = g.exactly(x->dtype(), dims);
  d.set_slot("updates", updates);
  d.set_slot("mode", text(g, mode(g)));
  return updates != nullptr;
}

bool tile(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr) return false;
  Ints reps;
  for (int64_t i = 0; i < rank_of(*x); ++i) reps.push_back(g.chance(60) ? 1 : g.between(1, 3));
  d.set_slot("reps", g.ints(reps));
  return true;
}

bool pad(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  const int64_t r = rank_of(*x), kind = g.below(4);
  const int64_t count = kind < 2 && r > 1 && g.chance(50) ? r : std::min<int64_t>(r, 2);
  Ints pads;
  for (int64_t i = 0; i < 2 * count; ++i) {
    const auto n = g.known(dim(*x, r - count + i / 2));
    pads.push_back(g.chance(40) ? 0 : std::min<int64_t>(g.between(0, 2), kind == 2 ? n.value_or(1) - 1 : 2));
  }
  d.set_slot("pad", g.ints(pads));
  if (kind > 0) d.set_slot("mode", text(g, kind == 1 ? "constant" : kind == 2 ? "reflect" : "replicate"));
  if (kind < 2) d.set_slot("constant_val", g.scalar(x->dtype(), static_cast<double>(g.between(-1, 2))));
  return true;
}

bool one_hot(Generator& g, Draft& d) {
  Value* ids = g.chance(50) ? g.indices({g.between(1, 3), g.between(1, 4)}, 3) : g.pick(bits({DType::kI32}), 0, 3);
  if (ids == nullptr) return false;
  const DType t = g.random_dtype(kFloats);
  d.set_slot("indices", ids);
  d.set_slot("one_hot_vector_size", i32(g, g.between(3, 5)));
  if (g.chance(50)) d.set_slot("axis", i32(g, g.chance(70) ? -1 : rank_of(*ids)));
  d.set_slot("on_value", g.scalar(t, g.chance(80) ? 1 : 2));
  d.set_slot("off_value", g.scalar(t, 0));
  return true;
}

bool topk(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  const int64_t axis = g.below(rank_of(*x));
  d.set_slot("k", i32(g, g.between(1, g.known(dim(*x, axis)).value_or(1))));
  d.set_slot("axis", i32(g, spelled(g, axis, rank_of(*x))));
  if (g.chance(50)) d.set_slot("ascending", flag(g, g.chance(50)));
  d.results = 2;
  return true;
}

bool range_1d(Generator& g, Draft& d) {
  const DType t = g.random_dtype(kNumbers);
  const double start = static_cast<double>(g.between(-2, 2));
  d.set_slot("start", g.scalar(t, start));
  d.set_slot("end", g.scalar(t, start + static_cast<double>(g.between(1, 7))));
  d.set_slot("step", g.scalar(t, static_cast<double>(g.between(1, 2))));
  return true;
}

bool fill(Generator& g, Draft& d) {
  Value* like = g.chance(50) ? g.pick(kNumbers, 1, 4) : nullptr;
  Value* shape = like != nullptr ? g.add_one("shape", {like}) : g.ints({g.between(1, 4), g.between(1, 5)});
  d.set_slot("shape", shape);
  static constexpr double kNice[] = {0, 1, -1, 0.5};
  const DType t = g.random_dtype(kNumbers);
  d.set_slot("value", g.scalar(t, t == DType::kI32 ? static_cast<double>(g.below(2)) : g.one_of(kNice)));
  return shape != nullptr;
}

bool reverse(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  if (g.chance(80)) d.set_slot("axes", g.ints({spelled(g, g.below(rank_of(*x)), rank_of(*x))}));
  return true;
}

bool band_part(Generator& g, Draft& d) {
  if (first(g, d, 2, 4) == nullptr) return false;
  d.set_slot("lower", i32(g, g.between(-1, 2)));
  d.set_slot("upper", i32(g, g.between(-1, 2)));
  return true;
}

// Draws an image whose channels are known and divisible by the op's block.
Value* image(Generator& g, Draft& d, int64_t channels, int64_t height, int64_t width) {
  const std::vector<Dim> dims{g.random_dims(1)[0], Dim::of(channels), Dim::of(height), Dim::of(width)};
  Value* x = g.exactly(g.random_dtype(kFloats), dims);
  if (x != nullptr) d.set_slot("x", x);
  return x;
}

bool blocks(Generator& g, Draft& d) {
  const bool to_space = d.op->name == "depth_to_space" || d.op->name == "pixel_shuffle";
  if ((to_space ? image(g, d, 4 * g.between(1, 2), 3, 2) : image(g, d, g.between(1, 3), 4, 2)) == nullptr) return false;
  d.set_slot("block_size", i32(g, 2));
  d.set_slot("upscale_factor", i32(g, 2));
  d.set_slot("downscale_factor", g.scalar(DType::kU32, 2));
  return true;
}

bool space_to_batch(Generator& g, Draft& d) {
  const bool back = d.op->name == "batch_to_space";
  const std::vector<Dim> dims{Dim::of(4), Dim::of(3), Dim::of(4), Dim::of(2)};
  Value* x = g.exactly(g.random_dtype(kFloats), dims);
  d.set_slot("x", x);
  d.set_slot("block_shape", g.ints({2, 2}));
  d.set_slot(back ? "crops" : "paddings", g.constant(Tensor::full(DType::kI32, {2, 2}, 0)));
  return x != nullptr;
}

bool crop(Generator& g, Draft& d) {
  if (image(g, d, g.between(1, 3), 5, 4) == nullptr) return false;
  const bool nothing = g.chance(40);
  d.set_slot("crop_height", nothing ? g.ints({0, 0}) : g.ints({g.below(3), g.below(2)}));
  d.set_slot("crop_width", nothing ? g.ints({0, 0}) : g.ints({g.below(2), g.below(2)}));
  return true;
}

bool sliding_windows(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  const int64_t axis = g.below(rank_of(*x));
  d.set_slot("axis", i32(g, axis));
  d.set_slot("size", i32(g, g.between(1, g.known(dim(*x, axis)).value_or(1))));
  if (g.chance(50)) d.set_slot("stride", i32(g, g.between(1, 2)));
  return true;
}

bool einsum(Generator& g, Draft& d) {
  const DType t = g.random_dtype(kFloats);
  const std::vector<Dim> a{Dim::of(2), Dim::of(3), Dim::of(5), Dim::of(4)}, b{Dim::of(2), Dim::of(4), Dim::of(5), Dim::of(1)};
  d.in = {text(g, "nchw,nwhu->nchu"), g.exactly(t, a), g.exactly(t, b)};
  return d.in[1] != nullptr && d.in[2] != nullptr;
}

bool select(Generator& g, Draft& d) {
  Value* a = g.pick_or_make(kNumbers, 0, 4);
  Value* b = a == nullptr ? nullptr : g.exactly(a->dtype(), dims_of(*a));
  Value* c = a == nullptr ? nullptr : g.exactly(DType::kBool, g.chance(70) ? dims_of(*a) : std::vector<Dim>{});
  d.in = {c, a, b};
  return b != nullptr && c != nullptr;
}

bool quantize(Generator& g, Draft& d) {
  const bool back = d.op->name == "dequantize";
  const DType narrow = g.chance(50) ? DType::kI8 : DType::kU8;
  Value* x = back ? g.pick(bits({DType::kI8, DType::kU8}), 1, 4) : g.pick_or_make(kFloats, 1, 4);
  if (x == nullptr && back) x = g.constant(narrow, {g.between(1, 3), g.between(1, 4)});
  if (x == nullptr) return false;
  const DType zero = back ? x->dtype() : narrow;
  d.set_slot("input", x);
  const DType wide = back ? g.random_dtype(kFloats) : x->dtype();  // drawn first, as in recipes.cc
  d.set_slot("scale", g.scalar(wide, g.chance(50) ? 0.5 : 1));
  if (g.chance(60)) d.set_slot("zero_point", g.scalar(zero, static_cast<double>(g.below(3))));
  if (!back) d.set_slot("output_dtype", text(g, narrow == DType::kI8 ? "int8" : "uint8"));
  return true;
}

bool affine_dequantize(Generator& g, Draft& d) {
  const DType narrow = g.chance(50) ? DType::kI8 : DType::kU8;
  d.set_slot("quantized_data", g.constant(narrow, {g.between(1, 4), g.between(1, 5)}));
  d.set_slot("zero_point", g.scalar(narrow, static_cast<double>(g.below(3))));
  d.set_slot("scale", g.scalar(g.random_dtype(kFloats), 0.5));
  d.set_slot("axis", i32(g, 0));
  return true;
}

bool constexpr_cast(Generator& g, Draft& d) {
  d.set_slot("source_val", g.constant(DType::kF16, {g.between(1, 4), g.between(1, 5)}));
  d.set_slot("output_dtype", text(g, "fp32"));
  return true;
}

bool attention(Generator& g, Draft& d) {
  const DType t = g.random_dtype(kFloats);
  const std::vector<Dim> q{Dim::of(2), Dim::of(3), Dim::of(4)}, kv{Dim::of(2), Dim::of(5), Dim::of(4)},
      mask{Dim::of(3), Dim::of(5)};
  d.in = {g.exactly(t, q), g.exactly(t, kv), g.exactly(t, kv)};
  if (g.chance(40)) d.in.push_back(g.exactly(g.chance(50) ? DType::kBool : t, mask));
  return std::none_of(d.in.begin(), d.in.end(), [](Value* v) { return v == nullptr; });
}

bool upsample(Generator& g, Draft& d) {
  if (first(g, d, 3, 4) == nullptr) return false;
  d.set_slot("scale_factor_height", i32(g, g.between(1, 2)));
  d.set_slot("scale_factor_width", i32(g, g.between(1, 2)));
  if (g.chance(50)) d.set_slot("align_corners", flag(g, g.chance(50)));
  return true;
}

// Resizes to drawn sizes, sometimes to the image's own.
bool resize(Generator& g, Draft& d) {
  Value* x = first(g, d, 3, 4);
  if (x == nullptr || !is_float(x->dtype())) return false;
  const auto size = [&](int64_t from_end) {
    const auto n = g.known(dim(*x, rank_of(*x) - from_end));
    return n && g.chance(50) ? *n : g.between(1, 6);
  };
  static constexpr const char* kModes[] = {"DEFAULT", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "OFFSET_CORNERS",
                                           "UNALIGN_CORNERS"};
  if (d.op->name == "resize") {
    d.set_slot("shape", g.ints({size(2), size(1)}));
    d.set_slot("resized_dims", g.scalar(DType::kU32, 2));
  } else {
    d.set_slot("target_size_height", i32(g, size(2)));
    d.set_slot("target_size_width", i32(g, size(1)));
  }
  if (d.slot("sampling_mode") && g.chance(70)) d.set_slot("sampling_mode", text(g, g.one_of(kModes)));
  return true;
}

bool recurrent(Generator& g, Draft& d) {
  if (d.op->name == "rnn") {
    d.set_slot("x", g.constant(DType::kF32, {2, 1, 3}));
    d.set_slot("initial_h", g.exactly(DType::kF32, std::vector<Dim>{Dim::of(1), Dim::of(2)}));
    d.set_slot("weight_ih", g.constant(DType::kF32, {2, 3}));
    d.set_slot("weight_hh", g.constant(DType::kF32, {2, 2}));
    d.results = 2;
    return true;
  }
  const bool gru = d.op->name == "gru";
  const int64_t hidden = 2, in = 3, gates = gru ? 3 : 4;
  const DType t = g.random_dtype(kFloats);
  const std::vector<Dim> x{Dim::of(2), Dim::of(1), Dim::of(in)}, h{Dim::of(1), Dim::of(hidden)};
  d.set_slot("x", g.exactly(t, x));
  d.set_slot("initial_h", g.exactly(t, h));
  d.set_slot("initial_c", gru ? nullptr : g.exactly(t, h));
  d.set_slot("weight_ih", g.constant(t, {gates * hidden, in}));
  d.set_slot("weight_hh", g.constant(t, {gates * hidden, hidden}));
  if (g.chance(50)) d.set_slot("bias", g.constant(t, {gates * hidden}));
  d.set_slot("output_sequence", flag(g, g.chance(50)));
  d.results = gru ? 2 : 3;
  return true;
}

bool pow(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  static constexpr double kPowers[] = {2, 3, 1, 0, 0.5, -1};
  const double p = g.one_of(kPowers);
  d.set_slot("y", g.scalar(x->dtype(), is_float(x->dtype()) ? p : 2));
  return true;
}

bool divide(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  // Never divide floats by one: floor_div by one is removed as a no-op, as in coremltools, although it rounds
  // down.
  const bool keeps = d.op->name == "floor_div" && is_float(x->dtype());
  Value* y = !keeps && is_float(x->dtype()) && g.chance(50)
                 ? g.partner(*x)
                 : g.scalar(x->dtype(), static_cast<double>(g.between(keeps ? 2 : 1, 4)));
  d.set_slot("y", y);
  return y != nullptr;
}

constexpr Recipe kRecipes[] = {
    {"transpose", transpose, 10},
    {"reshape", reshape, 10},
    {"squeeze", squeeze, 5},
    {"expand_dims", expand_dims, 6},
    {"reduce_sum", reduce, 4},
    {"reduce_mean", reduce, 4},
    {"reduce_max", reduce, 2},
    {"reduce_min", reduce, 1},
    {"reduce_prod", reduce, 1},
    {"reduce_l1_norm", reduce, 1},
    {"reduce_l2_norm", reduce, 1},
    {"reduce_log_sum", reduce, 1},
    {"reduce_log_sum_exp", reduce, 1},
    {"reduce_sum_square", reduce, 1},
    {"cast", cast, 9},
    {"clip", clip, 3},
    {"matmul", matmul, 8},
    {"linear", linear, 6},
    {"conv", conv, 7},
    {"conv_transpose", conv, 3},
    {"max_pool", pool, 2},
    {"avg_pool", pool, 2},
    {"l2_pool", pool, 1},
    {"batch_norm", batch_norm, 4},
    {"instance_norm", batch_norm, 2},
    {"layer_norm", layer_norm, 3},
    {"prelu", per_channel, 2},
    {"softplus_parametric", per_channel, 1},
    {"concat", concat, 6},
    {"stack", stack, 3},
    {"split", split, 4},
    {"slice_by_index", slice_by_index, 7},
    {"slice_by_size", slice_by_size, 3},
    {"slice_update", slice_update, 1},
    {"gather", gather, 4},
    {"gather_along_axis", gather, 2},
    {"gather_nd", gather_nd, 1},
    {"scatter", scatter, 1},
    {"scatter_along_axis", scatter, 1},
    {"scatter_nd", scatter_nd, 1},
    {"tile", tile, 3},
    {"pad", pad, 6},
    {"one_hot", one_hot, 2},
    {"topk", topk, 2},
    {"range_1d", range_1d, 2},
    {"fill", fill, 3},
    {"reverse", reverse, 1},
    {"band_part", band_part, 1},
    {"depth_to_space", blocks, 1},
    {"space_to_depth", blocks, 1},
    {"pixel_shuffle", blocks, 2},
    {"pixel_unshuffle", blocks, 1},
    {"space_to_batch", space_to_batch, 1},
    {"batch_to_space", space_to_batch, 1},
    {"crop", crop, 1},
    {"sliding_windows", sliding_windows, 1},
    {"einsum", einsum, 1},
    {"select", select, 5},
    {"quantize", quantize, 3},
    {"dequantize", quantize, 4},
    {"constexpr_affine_dequantize", affine_dequantize, 2},
    {"constexpr_cast", constexpr_cast, 1},
    {"scaled_dot_product_attention", attention, 2},
    {"upsample_bilinear", upsample, 1},
    {"upsample_nearest_neighbor", upsample, 1},
    {"resize_bilinear", resize, 2},
    {"resize_nearest_neighbor", resize, 1},
    {"resize", resize, 1},
    {"rnn", recurrent, 1},
    {"lstm", recurrent, 1},
    {"gru", recurrent, 1},
    {"pow", pow, 3},
    {"real_div", divide, 6},
    {"floor_div", divide, 2},
    {"mod", divide, 1},
    {"add", nullptr, 12},
    {"mul", nullptr, 12},
    {"sub", nullptr, 8},
    {"maximum", nullptr, 4},
    {"minimum", nullptr, 2},
    {"relu", nullptr, 6},
    {"sigmoid", nullptr, 2},
    {"tanh", nullptr, 3},
    {"exp", nullptr, 2},
    {"softmax", nullptr, 3},
    {"identity", nullptr, 5},
    {"shape", nullptr, 3},
    {"leaky_relu", nullptr, 2},
    {"equal", nullptr, 2},
    {"greater", nullptr, 3},
    {"less", nullptr, 2},
    {"logical_and", nullptr, 2},
    {"logical_not", nullptr, 2},
};

}  // namespace

const Recipe* find_mil_recipe(std::string_view op) { return find_in(kRecipes, op); }

// Draws the parameters that chance can draw: numbers, flags, axes. Returns false if a required one is of
// another kind.
bool fill_mil_parameters(Generator& g, Draft& d) {
  const Value* x = d.in.empty() ? nullptr : d.in.front();
  const int64_t rank = x != nullptr && x->ranked() ? rank_of(*x) : 0;
  const DType own = x != nullptr ? x->dtype() : DType::kF32;
  const DType other = g.chance(12) ? (own == DType::kF16 ? DType::kF32 : DType::kF16) : own;
  for (const Slot& s : d.op->inputs) {
    if (!s.parameter || s.arity == Arity::kVariadic) continue;
    const bool required = s.arity == Arity::kSingle;
    if (!required && g.chance(50)) continue;
    const auto allows = [&](DType t) { return ((s.types.tensor >> static_cast<int>(t)) & 1) != 0; };
    if (s.name == "axis" && rank > 0) {
      d.set_slot(s.name, i32(g, g.between(-rank, rank - 1)));
    } else if (s.name == "validate_indices") {
      d.set_slot(s.name, flag(g, false));
    } else if (allows(DType::kBool)) {
      d.set_slot(s.name, flag(g, g.chance(50)));
    } else if (s.name == "mode" && d.op->name == "gelu") {
      static constexpr const char* kModes[] = {"EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"};
      d.set_slot(s.name, text(g, g.one_of(kModes)));
    } else if (s.name == "size") {
      d.set_slot(s.name, i32(g, g.between(1, 3)));
    } else if (allows(DType::kF32) || allows(DType::kF16)) {
      const bool same = s.type_var == d.op->inputs[0].type_var;
      const DType t = same ? own : other;
      static constexpr double kNice[] = {0.5, 1, 0.25, 2, 0};
      if (!allows(t)) return false;
      d.set_slot(s.name, g.scalar(t, s.name == "epsilon" ? 0.001 : is_float(t) ? g.one_of(kNice) : 1));
    } else if (required) {
      return false;
    }
  }
  return true;
}

}  // namespace sardonyx::fuzz
