// How operators get operands and attributes that fit together. Names of slots and attributes are those of the op tables, so one recipe
// serves all versions of an operator.
#include <algorithm>

#include "random/generator.h"

namespace sardonyx::fuzz {
namespace {

constexpr uint64_t bits(std::initializer_list<DType> types) {
  uint64_t set = 0;
  for (DType t : types) set |= uint64_t{1} << static_cast<int>(t);
  return set;
}
constexpr uint64_t kInts = bits({DType::kI32, DType::kI64});

// The first operand: a tensor that the operator takes.
Value* first(Generator& g, Draft& d, size_t min_rank, size_t max_rank = 6) {
  Value* v = g.pick_or_make(d.op->inputs[0].types.tensor, min_rank, max_rank);
  if (v != nullptr) d.in = {v};
  return v;
}
int64_t rank_of(const Value& v) { return static_cast<int64_t>(v.type()->rank()); }
Dim dim(const Value& v, int64_t axis) { return v.type()->dim(static_cast<size_t>(axis)); }
std::vector<Dim> dims_of(const Value& v) { return {v.type()->dims().begin(), v.type()->dims().end()}; }
// A random axis; sometimes counted from the end, where the version allows that.
int64_t spelled(Generator& g, int64_t axis, int64_t rank) { return g.opset() >= 11 && g.chance(40) ? axis - rank : axis; }

bool transpose(Generator& g, Draft& d) {
  Value* x = first(g, d, 1);
  if (x == nullptr) return false;
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < rank_of(*x); ++i) perm.push_back(i);
  if (g.chance(20)) return true;  // without a perm: reversed
  for (size_t i = perm.size(); i > 1; --i) std::swap(perm[i - 1], perm[static_cast<size_t>(g.below(static_cast<int64_t>(i)))]);
  d.set("perm", Attr(perm));
  return true;
}

// Sizes of some of the axes as a computed tensor.
Value* size_of(Generator& g, Value& x, int64_t axis) {
  Value* shape = g.add_one("Shape", {&x});
  if (shape == nullptr) return nullptr;
  if (g.chance(50)) return g.add_one("Gather", {shape, g.ints({axis})}, {attr("axis", Attr(0))});
  if (g.opset() < 10)
    return g.add_one("Slice", {shape}, {attr("starts", Attr(Attr::Ints{axis})), attr("ends", Attr(Attr::Ints{axis + 1}))});
  return g.add_one("Slice", {shape, g.ints({axis}), g.ints({axis + 1}), g.ints({0})});
}

bool reshape(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr || g.opset() < 5) return false;
  std::vector<int64_t> target;
  const auto dims = x->type()->dims();
  const int64_t r = rank_of(*x);
  if (g.chance(15) && r > 0) {  // computed at run time
    std::vector<Value*> parts;
    const int64_t flat = g.below(r);
    for (int64_t i = 0; i < r; ++i) {
      Value* p = i == flat ? g.ints({-1}) : size_of(g, *x, i);
      if (p == nullptr) return false;
      parts.push_back(p);
    }
    Value* shape = g.add_one("Concat", parts, {attr("axis", Attr(0))});
    d.in = {x, shape};
    return shape != nullptr;
  }
  if (g.chance(10)) {  // the shape of something else
    Value* like = g.pick(~uint64_t{0});
    Value* shape = like == nullptr ? nullptr : g.add_one("Shape", {like});
    d.in = {x, shape};
    return shape != nullptr;
  }
  const bool all_known = x->type()->is_static();
  if (g.chance(40) && all_known) {
    int64_t n = 1;
    for (Dim s : dims) n *= s.value();
    for (int64_t k = g.between(0, 3); k > 0 && n > 1; --k) {
      std::vector<int64_t> divisors;
      for (int64_t q = 1; q <= n; ++q) {
        if (n % q == 0) divisors.push_back(q);
      }
      target.push_back(g.one_of(divisors));
      n /= target.back();
    }
    target.push_back(n);
  } else {
    // Axes kept, joined or split.
    bool free = true;
    for (int64_t i = 0; i < r; ++i) {
      if (g.chance(25)) target.push_back(1);
      if (dim(*x, i).is_int() && dim(*x, i).value() % 2 == 0 && g.chance(30)) {
        target.insert(target.end(), {2, dim(*x, i).value() / 2});
      } else if (i + 1 < r && g.chance(30) && free) {
        target.push_back(-1);
        free = false;
        ++i;
      } else if (dim(*x, i).is_int() && g.chance(70)) {
        target.push_back(dim(*x, i).value());
      } else if (free) {
        target.push_back(-1);
        free = false;
      } else if (static_cast<int64_t>(target.size()) == i) {
        target.push_back(0);
      } else {
        return false;
      }
    }
  }
  if (g.chance(20) && !target.empty() && std::find(target.begin(), target.end(), -1) == target.end() &&
      std::find(target.begin(), target.end(), 0) == target.end())
    target[static_cast<size_t>(g.below(static_cast<int64_t>(target.size())))] = -1;
  d.in = {x, g.ints(target)};
  if (g.chance(5)) d.set("allowzero", Attr(1));
  return true;
}

bool expand(Generator& g, Draft& d) {
  Value* x = first(g, d, 0, 3);
  if (x == nullptr) return false;
  if (g.chance(30)) {
    Value* like = g.partner(*x);
    Value* shape = like == nullptr ? nullptr : g.add_one("Shape", {like});
    d.in = {x, shape};
    return shape != nullptr;
  }
  std::vector<int64_t> target;
  for (Dim s : x->type()->dims())
    target.push_back(s.is(1) && g.chance(50) ? g.between(1, 4) : s.is_int() && g.chance(60) ? s.value() : 1);
  while (target.size() < 4 && g.chance(40)) target.insert(target.begin(), g.between(1, 3));
  if (!target.empty() && g.chance(15)) target.erase(target.begin());
  d.in = {x, g.ints(target)};
  return true;
}

bool squeeze(Generator& g, Draft& d) {
  Value* x = first(g, d, 1);
  if (x == nullptr) return false;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank_of(*x); ++i) {
    if (dim(*x, i).is(1) && g.chance(60)) axes.push_back(spelled(g, i, rank_of(*x)));
  }
  if (axes.empty()) return false;
  if (g.chance(85)) g.put_ints(d, "axes", axes);
  return true;
}

bool unsqueeze(Generator& g, Draft& d) {
  Value* x = first(g, d, 0, 4);
  if (x == nullptr) return false;
  const int64_t r = rank_of(*x), n = g.between(1, 2);
  std::vector<int64_t> axes{g.below(r + n)};
  if (n == 2) axes.push_back((axes[0] + 1 + g.below(r + 1)) % (r + 2));
  for (int64_t& a : axes) a = spelled(g, a, r + n);
  g.put_ints(d, "axes", axes);
  return true;
}

bool reduce(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank_of(*x); ++i) {
    if (g.chance(40)) axes.push_back(spelled(g, i, rank_of(*x)));
  }
  if (!axes.empty() || (g.opset() >= 18 && g.chance(20))) g.put_ints(d, "axes", axes);
  if (g.chance(10)) d.set("noop_with_empty_axes", Attr(1));
  d.set("keepdims", Attr(g.below(2)));
  return true;
}

bool matmul(Generator& g, Draft& d) {
  Value* a = first(g, d, 1, 4);
  if (a == nullptr) return false;
  const Dim k = dim(*a, rank_of(*a) - 1);
  std::vector<Dim> b{k};
  if (g.chance(85)) b.push_back(Dim::of(g.between(1, 5)));
  if (b.size() == 2 && g.chance(25)) {
    auto batch = dims_of(*a);
    if (batch.size() > 2) b.insert(b.begin(), batch.begin(), batch.end() - 2);
  }
  Value* w = g.exactly(a->dtype(), b);
  d.in = {a, w};
  return w != nullptr;
}

bool gemm(Generator& g, Draft& d) {
  Value* a = first(g, d, 2, 2);
  if (a == nullptr) return false;
  const int64_t ta = g.below(2), tb = g.below(2);
  const Dim k = dim(*a, ta != 0 ? 0 : 1), m = dim(*a, ta != 0 ? 1 : 0), n = Dim::of(g.between(1, 5));
  const std::vector<Dim> b = tb != 0 ? std::vector<Dim>{n, k} : std::vector<Dim>{k, n};
  Value* w = g.exactly(a->dtype(), b);
  if (w == nullptr) return false;
  d.in = {a, w};
  if (g.opset() < 11 || g.chance(60)) {
    const std::vector<Dim> full{m, n}, row{n}, none;
    Value* c = g.exactly(a->dtype(), g.chance(50) ? row : g.chance(50) ? full : none);
    if (c == nullptr) return false;
    d.in.push_back(c);
  }
  if (ta != 0) d.set("transA", Attr(1));
  if (tb != 0) d.set("transB", Attr(1));
  return true;
}

bool conv(Generator& g, Draft& d) {
  Value* x = first(g, d, 3, 4);
  if (x == nullptr) return false;
  const bool transposed = d.op->name == "ConvTranspose";
  const auto c = g.known(dim(*x, 1));
  if (!c || *c < 1) return false;
  const int64_t spatial = rank_of(*x) - 2;
  const int64_t group = g.chance(25) ? *c : 1, out = group * g.between(1, 3);
  std::vector<Dim> w =
      transposed ? std::vector<Dim>{Dim::of(*c), Dim::of(out / group)} : std::vector<Dim>{Dim::of(out), Dim::of(*c / group)};
  std::vector<int64_t> kernel, strides, pads, dilations;
  for (int64_t i = 0; i < spatial; ++i) {
    kernel.push_back(g.between(1, 3));
    w.push_back(Dim::of(kernel.back()));
    strides.push_back(g.between(1, 2));
    dilations.push_back(g.chance(20) ? 2 : 1);
  }
  for (int64_t i = 0; i < 2 * spatial; ++i) pads.push_back(g.below(3));
  Value* weight = g.exactly(x->dtype(), w);
  if (weight == nullptr) return false;
  d.in = {x, weight};
  if (g.chance(50)) {
    const std::vector<Dim> bias{Dim::of(out)};
    Value* b = g.exactly(x->dtype(), bias);
    if (b == nullptr) return false;
    d.in.push_back(b);
  }
  if (group != 1) d.set("group", Attr(group));
  if (g.chance(50)) d.set("kernel_shape", Attr(kernel));
  if (g.chance(40)) d.set("strides", Attr(strides));
  if (g.chance(15)) d.set("dilations", Attr(dilations));
  if (g.chance(50)) {
    d.set("pads", Attr(pads));
  } else if (g.chance(20)) {
    d.set("auto_pad", Attr(g.chance(50) ? "SAME_UPPER" : "VALID"));
  }
  return true;
}

bool pool(Generator& g, Draft& d) {
  Value* x = first(g, d, 3, 4);
  if (x == nullptr) return false;
  std::vector<int64_t> kernel, strides, pads;
  for (int64_t i = 2; i < rank_of(*x); ++i) {
    kernel.push_back(g.between(1, 3));
    strides.push_back(g.between(1, 2));
  }
  for (size_t i = 0; i < 2 * kernel.size(); ++i) pads.push_back(g.below(kernel[i % kernel.size()]));
  d.set("kernel_shape", Attr(kernel));
  if (g.chance(50)) d.set("strides", Attr(strides));
  if (g.chance(40)) d.set("pads", Attr(pads));
  return true;
}

// Scale, bias and the like along axis 1 or the last axes.
bool normalization(Generator& g, Draft& d) {
  const bool by_channel =
      d.op->name == "BatchNormalization" || d.op->name == "InstanceNormalization" || d.op->name == "GroupNormalization";
  Value* x = first(g, d, by_channel ? 3 : 1, 4);
  if (x == nullptr) return false;
  std::vector<Dim> shape;
  if (by_channel) {
    const auto c = g.known(dim(*x, 1));
    if (!c) return false;
    shape = {dim(*x, 1)};
    if (d.op->name == "GroupNormalization") {
      d.set("num_groups", Attr(*c));
    }
  } else {
    const int64_t axis = g.below(rank_of(*x));
    for (int64_t i = axis; i < rank_of(*x); ++i) shape.push_back(dim(*x, i));
    d.set("axis", Attr(spelled(g, axis, rank_of(*x))));
  }
  for (size_t i = 1; i < d.op->inputs.size(); ++i) {
    if (d.op->inputs[i].arity == Arity::kOptional && g.chance(40)) break;
    Value* v = nullptr;
    if (d.op->inputs[i].name.find("var") != std::string_view::npos) {  // positive
      std::vector<int64_t> sizes;
      for (Dim s : shape) sizes.push_back(s.value());
      v = g.constant(Tensor::full(x->dtype(), sizes, g.chance(50) ? 1 : 0.5));
    } else {
      v = g.exactly(x->dtype(), shape);
    }
    if (v == nullptr) return false;
    d.in.push_back(v);
  }
  return true;
}

bool concat(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 5);
  if (x == nullptr) return false;
  const int64_t axis = g.below(rank_of(*x));
  for (int64_t k = g.below(3); k > 0; --k) {
    auto dims = dims_of(*x);
    if (g.chance(30)) dims[static_cast<size_t>(axis)] = Dim::of(g.between(1, 3));
    Value* v = g.exactly(x->dtype(), dims);
    if (v == nullptr) return false;
    d.in.push_back(v);
  }
  d.set("axis", Attr(spelled(g, axis, rank_of(*x))));
  return true;
}

bool split(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 5);
  if (x == nullptr) return false;
  const int64_t axis = g.below(rank_of(*x));
  const auto n = g.known(dim(*x, axis));
  if (!n || *n < 1) return false;
  d.set("axis", Attr(spelled(g, axis, rank_of(*x))));
  const int64_t parts = std::min<int64_t>(g.between(1, 3), *n);
  d.results = static_cast<size_t>(parts);
  if (d.op->since_version >= 18 && g.chance(40)) {
    d.set("num_outputs", Attr(parts));
  } else if (*n % parts == 0 && d.op->since_version < 18 && g.chance(40)) {
    return true;
  } else {
    std::vector<int64_t> sizes(static_cast<size_t>(parts), 1);
    sizes[static_cast<size_t>(g.below(parts))] += *n - parts;
    g.put_ints(d, "split", sizes);
  }
  return true;
}

bool slice(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 5);
  if (x == nullptr) return false;
  std::vector<int64_t> starts, ends, axes, steps;
  for (int64_t i = 0; i < rank_of(*x); ++i) {
    if (!g.chance(50)) continue;
    axes.push_back(spelled(g, i, rank_of(*x)));
    const bool back = d.op->since_version >= 10 && g.chance(15);
    static constexpr int64_t kEnds[] = {INT64_MAX, 1, 2, 3, -1, 1000};
    steps.push_back(back ? -1 : d.op->since_version >= 10 && g.chance(20) ? 2 : 1);
    starts.push_back(back ? -1 : g.chance(50) ? 0 : g.between(-3, 2));
    ends.push_back(back ? INT64_MIN : g.one_of(kEnds));
  }
  if (axes.empty()) return false;
  g.put_ints(d, "starts", starts);
  g.put_ints(d, "ends", ends);
  g.put_ints(d, "axes", axes);
  if (d.op->since_version >= 10 && std::any_of(steps.begin(), steps.end(), [](int64_t s) { return s != 1; }))
    g.put_ints(d, "steps", steps);
  return true;
}

bool pad(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  static constexpr const char* kModes[] = {"constant", "constant", "reflect", "edge"};
  const std::string mode = g.one_of(kModes);
  std::vector<int64_t> pads;
  for (int64_t i = 0; i < 2 * rank_of(*x); ++i) {
    const bool spatial = i % rank_of(*x) >= 2;
    pads.push_back(mode == "constant" ? g.between(g.chance(10) ? -1 : 0, 2) : spatial ? g.below(2) : 0);
  }
  g.put_ints(d, "pads", pads);
  if (mode != "constant" || g.chance(50)) d.set("mode", Attr(mode));
  if (mode == "constant" && g.chance(30) && d.slot("constant_value"))
    d.set_slot("constant_value", g.scalar(x->dtype(), g.between(0, 2)));
  return true;
}

bool tile(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr || d.op->since_version < 6) return false;
  std::vector<int64_t> repeats;
  for (int64_t i = 0; i < rank_of(*x); ++i) repeats.push_back(g.chance(60) ? 1 : g.between(1, 3));
  d.in.push_back(g.ints(repeats));
  return true;
}

bool gather(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  const int64_t axis = g.below(rank_of(*x));
  const int64_t limit = g.known(dim(*x, axis)).value_or(1);
  if (limit < 1) return false;
  std::vector<int64_t> shape;
  if (d.op->name == "GatherElements") {
    for (Dim s : x->type()->dims()) shape.push_back(s.is_int() ? s.value() : 1);
  } else {
    for (int64_t k = g.below(3); k > 0; --k) shape.push_back(g.between(1, 3));
  }
  d.in.push_back(g.indices(shape, limit));
  d.set("axis", Attr(spelled(g, axis, rank_of(*x))));
  return true;
}

bool gather_nd(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr) return false;
  const int64_t n = g.between(1, 2);
  d.in.push_back(g.constant(Tensor::of<int64_t>(DType::kI64, {n, 1}, std::vector<int64_t>(static_cast<size_t>(n), 0))));
  return true;
}

bool scatter_elements(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr || !x->type()->is_static()) return false;
  const int64_t axis = g.below(rank_of(*x));
  std::vector<int64_t> shape;
  for (Dim s : x->type()->dims()) shape.push_back(s.value());
  shape[static_cast<size_t>(axis)] = 1;
  const int64_t limit = dim(*x, axis).value();
  if (limit < 1) return false;
  d.in.push_back(g.indices(shape, limit));
  d.in.push_back(g.constant(x->dtype(), shape));
  d.set("axis", Attr(axis));
  return true;
}

bool scatter_nd(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr || !x->type()->is_static() || dim(*x, 0).value() < 1) return false;
  std::vector<Dim> updates = dims_of(*x);
  updates[0] = Dim::of(1);
  d.in.push_back(g.constant(Tensor::of<int64_t>(DType::kI64, {1, 1}, std::vector<int64_t>{g.below(dim(*x, 0).value())})));
  Value* u = g.exactly(x->dtype(), updates);
  d.in.push_back(u);
  return u != nullptr;
}

bool where(Generator& g, Draft& d) {
  Value* x = g.pick_or_make(d.op->inputs[1].types.tensor);
  if (x == nullptr) return false;
  Value* y = g.partner(*x);
  std::vector<Dim> c = dims_of(*x);
  if (g.chance(40)) c.clear();
  Value* cond = g.exactly(DType::kBool, c);
  d.in = {cond, x, y};
  return y != nullptr && cond != nullptr;
}

bool clip(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  if (d.has_attr("min")) return true;
  d.in.push_back(g.chance(70) ? g.scalar(x->dtype(), static_cast<double>(g.between(0, 1))) : nullptr);
  d.in.push_back(g.chance(70) ? g.scalar(x->dtype(), static_cast<double>(g.between(2, 6))) : nullptr);
  return true;
}

bool cast(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  const DType to = g.random_dtype(d.op->outputs[0].types.tensor & ~bits({DType::kString}));
  if (x == nullptr || to == DType::kUndefined) return false;
  d.set("to", Attr(static_cast<int64_t>(to)));
  return true;
}

bool top_k(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  const int64_t axis = g.below(rank_of(*x));
  const int64_t k = g.between(1, std::max<int64_t>(1, g.known(dim(*x, axis)).value_or(1)));
  if (d.has_attr("k")) {
    d.set("k", Attr(k));
  } else {
    d.in.push_back(g.ints({k}));
  }
  d.set("axis", Attr(axis));
  d.results = 2;
  return true;
}

bool one_hot(Generator& g, Draft& d) {
  Value* x = g.pick_or_make(kInts, 0, 3);
  if (x == nullptr) return false;
  const DType t = g.random_dtype(d.op->inputs[2].types.tensor & ~bits({DType::kString}));
  if (bit_width(t) < 8) return false;
  d.in = {x, g.chance(50) ? g.scalar(DType::kI64, 4) : g.ints({3}), g.constant(t, {2})};
  return true;
}

bool range(Generator& g, Draft& d) {
  const DType t = g.random_dtype(d.op->inputs[0].types.tensor);
  d.in = {g.scalar(t, static_cast<double>(g.below(3))), g.scalar(t, static_cast<double>(g.between(3, 8))),
          g.scalar(t, static_cast<double>(g.between(1, 2)))};
  return true;
}

bool constant_of_shape(Generator& g, Draft& d) {
  if (g.chance(50)) {
    Value* like = g.pick(~uint64_t{0}, 0, 4);
    Value* shape = like == nullptr ? nullptr : g.add_one("Shape", {like});
    if (shape == nullptr) return false;
    d.in = {shape};
  } else {
    d.in = {g.ints({g.between(1, 4), g.between(1, 3)})};
  }
  if (g.chance(70)) {
    const DType t = g.random_dtype(bits({DType::kF32, DType::kF64, DType::kI64, DType::kI32, DType::kBool}));
    d.set("value", Attr(Tensor::full(t, {1}, static_cast<double>(g.below(2)))));
  }
  return true;
}

bool cum_sum(Generator& g, Draft& d) {
  Value* x = first(g, d, 1);
  if (x == nullptr) return false;
  const DType t = g.chance(50) ? DType::kI64 : DType::kI32;  // drawn first: compilers evaluate operands in different orders
  d.in.push_back(g.scalar(t, static_cast<double>(g.below(rank_of(*x)))));
  return true;
}

bool trilu(Generator& g, Draft& d) {
  Value* x = first(g, d, 2);
  if (x == nullptr) return false;
  if (g.chance(50)) d.in.push_back(g.scalar(DType::kI64, static_cast<double>(g.between(-2, 2))));
  return true;
}

bool depth_to_space(Generator& g, Draft& d) {
  const std::vector<Dim> shape{Dim::of(g.between(1, 2)), Dim::of(8), Dim::of(4), Dim::of(2)};
  Value* x = g.exactly(g.random_dtype(bits({DType::kF32, DType::kF64})), shape);
  if (x == nullptr) return false;
  d.in = {x};
  d.set("blocksize", Attr(2));
  if (g.chance(50)) d.set("mode", Attr(g.chance(50) ? "CRD" : "DCR"));
  return true;
}

bool einsum(Generator& g, Draft& d) {
  struct Equation {
    const char* text;
    const char* a;
    const char* b;
  };
  static constexpr Equation kEquations[] = {
      {"ij,jk->ik", "ij", "jk"},   {"bij,bjk->bik", "bij", "bjk"}, {"ij->ji", "ij", ""}, {"bhqd,bhkd->bhqk", "bhqd", "bhkd"},
      {"i,j->ij", "i", "j"},       {"ij,ij->", "ij", "ij"},        {"ii->i", "ii", ""},  {"...i,ij->...j", "bi", "ij"},
      {"bij,kj->bik", "bij", "kj"}};
  const Equation& e = g.one_of(kEquations);
  const auto shape = [](std::string_view letters) {
    std::vector<Dim> dims;
    for (char c : letters)
      dims.push_back(Dim::of(c == 'i' ? 3 : c == 'j' ? 5 : c == 'k' ? 2 : c == 'b' ? 2 : c == 'h' ? 1 : c == 'q' ? 3 : 4));
    return dims;
  };
  const DType t = g.random_dtype(bits({DType::kF32, DType::kF64}));
  Value* a = g.exactly(t, shape(e.a));
  if (a == nullptr) return false;
  d.in = {a};
  if (*e.b != 0) {
    Value* b = g.exactly(t, shape(e.b));
    if (b == nullptr) return false;
    d.in.push_back(b);
  }
  d.set("equation", Attr(e.text));
  return true;
}

bool dropout(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  if (d.slot("training_mode") && g.chance(50)) {
    d.in.push_back(g.chance(50) ? g.scalar(x->dtype(), 0.5) : nullptr);
    d.in.push_back(g.chance(70) ? g.scalar(DType::kBool, 0) : nullptr);
  }
  return true;
}

bool mod(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  if (is_float(x->dtype())) d.set("fmod", Attr(1));
  d.in.push_back(g.scalar(x->dtype(), static_cast<double>(g.between(1, 3))));
  return true;
}

bool pow(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  static constexpr double kPowers[] = {2, 3, 1, 0, 0.5, -1};
  const DType t = d.op->since_version >= 12 && g.chance(40) ? DType::kF32 : x->dtype();
  const double p = g.one_of(kPowers);
  d.in.push_back(g.scalar(t, is_float(t) ? p : std::max(0.0, static_cast<double>(static_cast<int64_t>(p)))));
  return true;
}

bool div(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  Value* y = is_float(x->dtype()) ? g.partner(*x) : g.scalar(x->dtype(), static_cast<double>(g.between(1, 3)));
  d.in.push_back(y);
  return y != nullptr;
}

bool attention(Generator& g, Draft& d) {
  const int64_t heads = g.between(1, 2), size = 4;
  const DType t = g.random_dtype(bits({DType::kF32, DType::kF64}));
  const std::vector<Dim> q{Dim::of(2), Dim::of(heads), Dim::of(3), Dim::of(size)},
      kv{Dim::of(2), Dim::of(heads), Dim::of(5), Dim::of(size)};
  d.in = {g.exactly(t, q), g.exactly(t, kv), g.exactly(t, kv)};
  if (g.chance(40)) {
    const std::vector<Dim> mask{Dim::of(3), Dim::of(5)};
    d.in.push_back(g.exactly(g.chance(50) ? DType::kBool : t, mask));
  }
  if (g.chance(30)) d.set("is_causal", Attr(1));
  d.set("scale", Attr(0.5));  // never the others by chance: softcap 0 is off, -1 makes no sense
  return std::none_of(d.in.begin(), d.in.end(), [](Value* v) { return v == nullptr; });
}

bool resize(Generator& g, Draft& d) {
  Value* x = first(g, d, 4, 4);
  if (x == nullptr || d.op->since_version < 11) return false;
  d.in = {x, nullptr, g.constant(Tensor::of<float>(DType::kF32, {4}, std::vector<float>{1, 1, 2, 2}))};
  if (d.op->since_version == 11) d.in[1] = g.constant(Tensor::full(DType::kF32, {0}, 0));
  d.set("mode", Attr(g.chance(70) ? "nearest" : "linear"));
  d.set("cubic_coeff_a", Attr(-0.75));
  return true;
}

bool quantize(Generator& g, Draft& d) {
  const bool back = d.op->name == "DequantizeLinear";
  Value* x = g.pick_or_make(back ? bits({DType::kU8, DType::kI8}) : bits({DType::kF32}));
  if (x == nullptr) return false;
  const DType zero = back ? x->dtype() : g.chance(50) ? DType::kU8 : DType::kI8;
  d.in = {x, g.scalar(DType::kF32, 0.5)};
  if (g.chance(70)) d.in.push_back(g.scalar(zero, 3));
  return true;
}

struct Row {
  std::string_view name;
  Recipe recipe;
  int weight;
};
constexpr Row kRows[] = {
    {"Transpose", transpose, 10},
    {"Reshape", reshape, 10},
    {"Expand", expand, 5},
    {"Squeeze", squeeze, 4},
    {"Unsqueeze", unsqueeze, 5},
    {"ReduceSum", reduce, 5},
    {"ReduceMean", reduce, 5},
    {"ReduceMax", reduce, 3},
    {"ReduceMin", reduce, 2},
    {"ReduceProd", reduce, 2},
    {"ReduceL1", reduce, 1},
    {"ReduceL2", reduce, 2},
    {"ReduceLogSum", reduce, 1},
    {"ReduceLogSumExp", reduce, 1},
    {"ReduceSumSquare", reduce, 2},
    {"MatMul", matmul, 8},
    {"Gemm", gemm, 4},
    {"Conv", conv, 6},
    {"ConvTranspose", conv, 3},
    {"MaxPool", pool, 3},
    {"AveragePool", pool, 3},
    {"LpPool", pool, 1},
    {"BatchNormalization", normalization, 4},
    {"InstanceNormalization", normalization, 2},
    {"GroupNormalization", normalization, 1},
    {"LayerNormalization", normalization, 3},
    {"RMSNormalization", normalization, 2},
    {"Concat", concat, 6},
    {"Split", split, 4},
    {"Slice", slice, 7},
    {"Pad", pad, 5},
    {"Tile", tile, 3},
    {"Gather", gather, 5},
    {"GatherElements", gather, 2},
    {"GatherND", gather_nd, 1},
    {"ScatterElements", scatter_elements, 2},
    {"ScatterND", scatter_nd, 2},
    {"Where", where, 5},
    {"Clip", clip, 4},
    {"Cast", cast, 9},
    {"TopK", top_k, 2},
    {"OneHot", one_hot, 2},
    {"Range", range, 2},
    {"ConstantOfShape", constant_of_shape, 4},
    {"CumSum", cum_sum, 1},
    {"Trilu", trilu, 1},
    {"DepthToSpace", depth_to_space, 1},
    {"SpaceToDepth", depth_to_space, 1},
    {"Einsum", einsum, 3},
    {"Dropout", dropout, 3},
    {"Mod", mod, 1},
    {"Pow", pow, 4},
    {"Div", div, 8},
    {"Attention", attention, 2},
    {"Resize", resize, 1},
    {"QuantizeLinear", quantize, 2},
    {"DequantizeLinear", quantize, 2},
    {"Add", nullptr, 12},
    {"Mul", nullptr, 12},
    {"Sub", nullptr, 8},
    {"Max", nullptr, 3},
    {"Min", nullptr, 3},
    {"Sum", nullptr, 2},
    {"Neg", nullptr, 3},
    {"Relu", nullptr, 4},
    {"Sigmoid", nullptr, 3},
    {"Tanh", nullptr, 3},
    {"Exp", nullptr, 2},
    {"Sqrt", nullptr, 2},
    {"Erf", nullptr, 2},
    {"Softmax", nullptr, 3},
    {"LogSoftmax", nullptr, 2},
    {"Identity", nullptr, 5},
    {"Shape", nullptr, 4},
    {"Equal", nullptr, 3},
    {"Greater", nullptr, 3},
    {"Less", nullptr, 3},
    {"And", nullptr, 2},
    {"Not", nullptr, 3},
    {"Flatten", nullptr, 3},
    {"Size", nullptr, 2},
};

const Row* row_of(std::string_view op) {
  const auto* at = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == op; });
  return at == std::end(kRows) ? nullptr : at;
}

}  // namespace

Recipe find_recipe(std::string_view op) {
  const Row* r = row_of(op);
  return r == nullptr ? nullptr : r->recipe;
}

int weight_of(const Op& op) {
  const Row* r = row_of(op.name);
  return r == nullptr ? 1 : r->weight;
}

}  // namespace sardonyx::fuzz
