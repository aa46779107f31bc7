// Recipes that draw operands and attributes so that they fit together. Slots and attributes are named as in
// the op tables, so one recipe serves all versions of an operator. Operands that are already settled restrict
// the choice.
#include "random/recipes.h"

namespace sardonyx::fuzz {
namespace {

constexpr uint64_t kInts = bits({DType::kI32, DType::kI64});

// Draws a tensor that the operator takes for operand `slot`. Returns null if there is none, or if a settled
// one has another rank.
Value* tensor(Generator& g, Draft& d, size_t slot, size_t min_rank, size_t max_rank = 6) {
  if (d.is_settled(slot)) {
    Value* v = d.settled_tensor(slot);
    return v != nullptr && v->type()->rank() >= min_rank && v->type()->rank() <= max_rank ? v : nullptr;
  }
  Value* v = g.pick_or_make(d.op->inputs[std::min(slot, d.op->inputs.size() - 1)].types.tensor, min_rank, max_rank);
  return d.put(slot, v) ? v : nullptr;
}
Value* first(Generator& g, Draft& d, size_t min_rank, size_t max_rank = 6) { return tensor(g, d, 0, min_rank, max_rank); }

// An axis for an attribute, sometimes counted from the end where the version allows that.
int64_t spelled(Generator& g, int64_t axis, int64_t rank) { return g.opset() >= 11 && g.chance(40) ? axis - rank : axis; }
// The attribute `axis` if it is given. Otherwise draws an axis and sets the attribute.
int64_t axis_of(Generator& g, Draft& d, int64_t rank) {
  if (const auto given = d.given_int("axis")) return (*given % rank + rank) % rank;
  const int64_t axis = g.below(rank);
  d.set("axis", Attr(spelled(g, axis, rank)));
  return axis;
}

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

// Sizes of some of the axes, as a computed tensor.
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
  if (d.is_settled(1)) return true;
  std::vector<int64_t> target;
  const auto dims = x->type()->dims();
  const int64_t r = rank_of(*x);
  if (r > 0 && g.computes(15)) {  // computed at run time
    std::vector<Value*> parts;
    const int64_t flat = g.below(r);
    for (int64_t i = 0; i < r; ++i) {
      Value* p = i == flat ? g.ints({-1}) : size_of(g, *x, i);
      if (p == nullptr) return false;
      parts.push_back(p);
    }
    return d.put(1, g.add_one("Concat", parts, {attr("axis", Attr(0))}));
  }
  if (g.computes(10)) {  // the shape of another value
    Value* like = g.pick(~uint64_t{0});
    return d.put(1, like == nullptr ? nullptr : g.add_one("Shape", {like}));
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
    // Keep, merge or split axes.
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
  d.put(1, g.ints(target));
  if (g.chance(5)) d.set("allowzero", Attr(1));
  return true;
}

bool expand(Generator& g, Draft& d) {
  Value* x = first(g, d, 0, 3);
  if (x == nullptr || d.is_settled(1)) return x != nullptr;
  if (g.computes(30)) {
    Value* like = g.partner(*x);
    return d.put(1, like == nullptr ? nullptr : g.add_one("Shape", {like}));
  }
  std::vector<int64_t> target;
  for (Dim s : x->type()->dims())
    target.push_back(s.is(1) && g.chance(50) ? g.between(1, 4) : s.is_int() && g.chance(60) ? s.value() : 1);
  while (target.size() < 4 && g.chance(40)) target.insert(target.begin(), g.between(1, 3));
  if (!target.empty() && g.chance(15)) target.erase(target.begin());
  return d.put(1, g.ints(target));
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
  if (const Value* b = d.settled_tensor(1); b != nullptr && !d.is_settled(0) && rank_of(*b) >= 2) {
    auto dims = dims_of(*b);
    if (dims.size() > 2 && g.chance(50)) dims.erase(dims.begin(), dims.end() - 2);
    dims.back() = dims[dims.size() - 2];
    dims[dims.size() - 2] = g.random_dims(1).front();
    return d.put(0, g.exactly(b->dtype(), dims));
  }
  Value* a = first(g, d, 1, 4);
  if (a == nullptr) return false;
  return d.fill(1, [&] {
    const Dim k = dim(*a, rank_of(*a) - 1);
    std::vector<Dim> b{k};
    if (g.chance(85)) b.push_back(Dim::of(g.between(1, 5)));
    if (b.size() == 2 && g.chance(25)) {
      auto batch = dims_of(*a);
      if (batch.size() > 2) b.insert(b.begin(), batch.begin(), batch.end() - 2);
    }
    return g.exactly(a->dtype(), b);
  });
}

bool gemm(Generator& g, Draft& d) {
  const int64_t ta = d.given_int("transA").value_or(g.below(2)), tb = d.given_int("transB").value_or(g.below(2));
  if (ta != 0) d.set("transA", Attr(1));
  if (tb != 0) d.set("transB", Attr(1));
  if (const Value* b = d.settled_tensor(1); b != nullptr && !d.is_settled(0) && rank_of(*b) == 2) {
    const Dim k = dim(*b, tb != 0 ? 1 : 0), m = g.random_dims(1).front();
    d.settle(0, g.exactly(b->dtype(), ta != 0 ? std::vector{k, m} : std::vector{m, k}));
  }
  Value* a = first(g, d, 2, 2);
  if (a == nullptr) return false;
  const Dim k = dim(*a, ta != 0 ? 0 : 1), m = dim(*a, ta != 0 ? 1 : 0);
  const auto weight = [&] {
    const Dim n = Dim::of(g.between(1, 5));
    return g.exactly(a->dtype(), tb != 0 ? std::vector{n, k} : std::vector{k, n});
  };
  if (!d.fill(1, weight)) return false;
  const Value* b = d.in[1];
  if (b == nullptr || !b->ranked() || rank_of(*b) != 2) return false;
  if (d.is_settled(2) || (g.opset() >= 11 && g.chance(40))) return true;
  const Dim n = dim(*b, tb != 0 ? 0 : 1);
  const std::vector<Dim> full{m, n}, row{n}, none;
  return d.put(2, g.exactly(a->dtype(), g.chance(50) ? row : g.chance(50) ? full : none));
}

// Draws the per-axis attributes of a convolution.
void conv_attrs(Generator& g, Draft& d, std::span<const Dim> weight) {
  std::vector<int64_t> kernel, strides, pads, dilations;
  for (const Dim k : weight.subspan(2)) {
    kernel.push_back(k.is_int() ? k.value() : 1);
    strides.push_back(g.between(1, 2));
    dilations.push_back(g.chance(20) ? 2 : 1);
  }
  for (size_t i = 0; i < 2 * kernel.size(); ++i) pads.push_back(g.below(3));
  if (g.chance(50)) d.set("kernel_shape", Attr(kernel));
  if (g.chance(40)) d.set("strides", Attr(strides));
  if (g.chance(15)) d.set("dilations", Attr(dilations));
  if (g.chance(50)) {
    d.set("pads", Attr(pads));
  } else if (g.chance(20)) {
    d.set("auto_pad", Attr(g.chance(50) ? "SAME_UPPER" : "VALID"));
  }
}

bool conv(Generator& g, Draft& d) {
  const bool transposed = d.op->name == "ConvTranspose";
  int64_t group = d.given_int("group").value_or(1);
  if (const Value* w = d.settled_tensor(1); w != nullptr && !d.is_settled(0) && rank_of(*w) >= 3) {
    const auto c = g.known(dim(*w, transposed ? 0 : 1));
    if (!c) return false;
    std::vector<Dim> dims{Dim::of(g.between(1, 3)), Dim::of(transposed ? *c : *c * group)};
    for (int64_t i = 2; i < rank_of(*w); ++i) dims.push_back(Dim::of(g.between(4, 7)));
    d.settle(0, g.exactly(w->dtype(), dims));
  }
  Value* x = first(g, d, 3, 4);
  const auto c = x != nullptr ? g.known(dim(*x, 1)) : std::nullopt;
  if (!c || *c < 1) return false;
  if (!d.is_settled(1)) {
    if (g.chance(25)) group = d.given_int("group").value_or(*c);
    const int64_t each = g.between(1, 3);
    std::vector<Dim> w{Dim::of(transposed ? *c : group * each), Dim::of(transposed ? each : *c / group)};
    for (int64_t i = 2; i < rank_of(*x); ++i) w.push_back(Dim::of(g.between(1, 3)));
    if (!d.put(1, g.exactly(x->dtype(), w))) return false;
    if (group != 1) d.set("group", Attr(group));
  }
  const Value* w = d.in[1];
  if (w == nullptr || !w->ranked() || rank_of(*w) != rank_of(*x)) return false;
  const auto out = g.known(dim(*w, transposed ? 1 : 0));
  if (!out) return false;
  if (!d.is_settled(2) && g.chance(50)) {
    const std::vector<Dim> bias{Dim::of(transposed ? *out * group : *out)};
    if (!d.put(2, g.exactly(x->dtype(), bias))) return false;
  }
  conv_attrs(g, d, dims_of(*w));
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

// Draws an image for operators without parameters, such as global pools.
bool image(Generator& g, Draft& d) { return first(g, d, 3, 4) != nullptr; }

// Draws scale, bias and similar operands along axis 1 or the last axes.
bool normalization(Generator& g, Draft& d) {
  const bool by_channel =
      d.op->name == "BatchNormalization" || d.op->name == "InstanceNormalization" || d.op->name == "GroupNormalization";
  if (const Value* w = d.settled_tensor(1); w != nullptr && !d.is_settled(0)) {
    auto dims = dims_of(*w);
    const auto before = g.random_dims(static_cast<size_t>(g.between(1, 2)));
    dims.insert(dims.begin(), before.begin(), by_channel ? before.begin() + 1 : before.end());
    if (by_channel) dims.push_back(Dim::of(g.between(2, 5)));
    d.settle(0, g.exactly(w->dtype(), dims));
  }
  Value* x = first(g, d, d.op->name == "BatchNormalization" ? 2 : by_channel ? 3 : 1, 4);
  if (x == nullptr) return false;
  std::vector<Dim> shape;
  if (by_channel) {
    const auto c = g.known(dim(*x, 1));
    if (!c) return false;
    shape = {dim(*x, 1)};
    if (d.op->name == "GroupNormalization") d.set("num_groups", Attr(*c));
  } else {
    const Value* w = d.settled_tensor(1);
    if (w != nullptr && rank_of(*w) > 0 && rank_of(*w) <= rank_of(*x)) d.set("axis", Attr(-rank_of(*w)));
    for (int64_t i = axis_of(g, d, rank_of(*x)); i < rank_of(*x); ++i) shape.push_back(dim(*x, i));
  }
  for (size_t i = 1; i < d.op->inputs.size(); ++i) {
    if (d.is_settled(i)) continue;
    if (d.op->inputs[i].arity == Arity::kOptional && g.chance(40)) break;
    const bool positive = d.op->inputs[i].name.find("var") != std::string_view::npos;
    if (positive && !std::ranges::all_of(shape, [](Dim s) { return s.is_int(); })) return false;
    std::vector<int64_t> sizes;
    for (Dim s : shape) sizes.push_back(s.is_int() ? s.value() : 1);
    Value* v = positive ? g.constant(Tensor::full(x->dtype(), sizes, g.chance(50) ? 1 : 0.5)) : g.exactly(x->dtype(), shape);
    if (!d.put(i, v)) return false;
  }
  return true;
}

bool concat(Generator& g, Draft& d) {
  Value* x = nullptr;
  for (size_t i = 0; i < d.settled.size() && x == nullptr; ++i) x = d.settled_tensor(i);
  if (x == nullptr) x = first(g, d, 1, 5);
  if (x == nullptr || rank_of(*x) == 0) return false;
  const int64_t axis = axis_of(g, d, rank_of(*x));
  const size_t count = std::max(d.settled.size(), static_cast<size_t>(g.between(1, 3)));
  for (size_t i = 0; i < count; ++i) {
    if (d.is_settled(i) || (i < d.in.size() && d.in[i] != nullptr)) continue;
    auto dims = dims_of(*x);
    if (g.chance(30)) dims[static_cast<size_t>(axis)] = Dim::of(g.between(1, 3));
    if (!d.put(i, g.exactly(x->dtype(), dims))) return false;
  }
  return true;
}

bool split(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 5);
  if (x == nullptr) return false;
  const auto n = g.known(dim(*x, axis_of(g, d, rank_of(*x))));
  if (!n || *n < 1) return false;
  const int64_t parts = std::min(std::max(g.between(1, 3), static_cast<int64_t>(d.results)), *n);
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
  const bool image_only = mode != "constant" || g.chance(40);
  std::vector<int64_t> pads;
  for (int64_t i = 0; i < 2 * rank_of(*x); ++i) {
    const bool padded = i % rank_of(*x) >= 2 || !image_only;
    pads.push_back(!padded ? 0 : mode == "constant" ? g.between(g.chance(10) ? -1 : 0, 2) : g.below(2));
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
  return d.put(1, g.ints(repeats));
}

bool gather(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 4);
  if (x == nullptr) return false;
  const int64_t limit = g.known(dim(*x, axis_of(g, d, rank_of(*x)))).value_or(1);
  if (limit < 1) return false;
  std::vector<int64_t> shape;
  if (d.op->name == "GatherElements") {
    for (Dim s : x->type()->dims()) shape.push_back(s.is_int() ? s.value() : 1);
  } else {
    for (int64_t k = g.below(3); k > 0; --k) shape.push_back(g.between(1, 3));
  }
  return d.fill(1, [&] { return g.indices(shape, limit); });
}

bool gather_nd(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr) return false;
  const int64_t n = g.between(1, 2);
  const std::vector<int64_t> zeros(static_cast<size_t>(n), 0);
  return d.put(1, g.constant(Tensor::of<int64_t>(DType::kI64, {n, 1}, zeros)));
}

bool scatter_elements(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr || !x->type()->is_static()) return false;
  const int64_t axis = axis_of(g, d, rank_of(*x));
  std::vector<int64_t> shape;
  for (Dim s : x->type()->dims()) shape.push_back(s.value());
  shape[static_cast<size_t>(axis)] = 1;
  const int64_t limit = dim(*x, axis).value();
  if (limit < 1) return false;
  return d.put(1, g.indices(shape, limit)) && d.put(2, g.constant(x->dtype(), shape));
}

bool scatter_nd(Generator& g, Draft& d) {
  Value* x = first(g, d, 1, 3);
  if (x == nullptr || !x->type()->is_static() || dim(*x, 0).value() < 1) return false;
  std::vector<Dim> updates = dims_of(*x);
  updates[0] = Dim::of(1);
  const std::vector<int64_t> at{g.below(dim(*x, 0).value())};
  d.put(1, g.constant(Tensor::of<int64_t>(DType::kI64, {1, 1}, at)));
  return d.put(2, g.exactly(x->dtype(), updates));
}

bool where(Generator& g, Draft& d) {
  const size_t like = d.settled_tensor(1) == nullptr && d.settled_tensor(2) != nullptr ? 2 : 1;
  Value* x = tensor(g, d, like, 0);
  if (x == nullptr || !d.fill(3 - like, [&] { return g.partner(*x); })) return false;
  return d.fill(0, [&] { return g.exactly(DType::kBool, g.chance(40) ? std::vector<Dim>() : dims_of(*x)); });
}

bool clip(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  if (d.has_attr("min")) return true;
  d.put(1, g.chance(70) ? g.scalar(x->dtype(), static_cast<double>(g.between(0, 1))) : nullptr);
  d.put(2, g.chance(70) ? g.scalar(x->dtype(), static_cast<double>(g.between(2, 6))) : nullptr);
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
  const int64_t axis = axis_of(g, d, rank_of(*x));
  const int64_t k = g.between(1, std::max<int64_t>(1, g.known(dim(*x, axis)).value_or(1)));
  if (d.has_attr("k")) {
    d.set("k", Attr(k));
  } else {
    d.put(1, g.ints({k}));
  }
  d.results = 2;
  return true;
}

bool one_hot(Generator& g, Draft& d) {
  if (!d.fill(0, [&] { return g.pick_or_make(kInts, 0, 3); })) return false;
  const DType t = g.random_dtype(d.op->inputs[2].types.tensor & ~bits({DType::kString}));
  if (bit_width(t) < 8) return false;
  d.put(1, g.chance(50) ? g.scalar(DType::kI64, 4) : g.ints({3}));
  return d.put(2, g.constant(t, {2}));
}

bool range(Generator& g, Draft& d) {
  const DType t = g.random_dtype(d.op->inputs[0].types.tensor);
  d.put(0, g.scalar(t, static_cast<double>(g.below(3))));
  d.put(1, g.scalar(t, static_cast<double>(g.between(3, 8))));
  return d.put(2, g.scalar(t, static_cast<double>(g.between(1, 2))));
}

bool constant_of_shape(Generator& g, Draft& d) {
  const auto shape = [&] {
    if (!g.computes(50)) return g.ints({g.between(1, 4), g.between(1, 3)});
    Value* like = g.pick(~uint64_t{0}, 0, 4);
    return like == nullptr ? nullptr : g.add_one("Shape", {like});
  };
  if (!d.fill(0, shape)) return false;
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
  return d.put(1, g.scalar(t, static_cast<double>(g.below(rank_of(*x)))));
}

bool trilu(Generator& g, Draft& d) {
  Value* x = first(g, d, 2);
  if (x == nullptr) return false;
  if (g.chance(50)) d.put(1, g.scalar(DType::kI64, static_cast<double>(g.between(-2, 2))));
  return true;
}

bool depth_to_space(Generator& g, Draft& d) {
  const std::vector<Dim> shape{Dim::of(g.between(1, 2)), Dim::of(8), Dim::of(4), Dim::of(2)};
  if (!d.fill(0, [&] { return g.exactly(g.random_dtype(bits({DType::kF32, DType::kF64})), shape); })) return false;
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
  if (!d.fill(0, [&] { return g.exactly(t, shape(e.a)); })) return false;
  if (*e.b != 0 && !d.fill(1, [&] { return g.exactly(t, shape(e.b)); })) return false;
  d.set("equation", Attr(e.text));
  return true;
}

bool dropout(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  if (d.slot("training_mode") && g.chance(50)) {
    d.put(1, g.chance(50) ? g.scalar(x->dtype(), 0.5) : nullptr);
    d.put(2, g.chance(70) ? g.scalar(DType::kBool, 0) : nullptr);
  }
  return true;
}

bool mod(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  if (is_float(x->dtype())) d.set("fmod", Attr(1));
  return d.put(1, g.scalar(x->dtype(), static_cast<double>(g.between(1, 3))));
}

bool pow(Generator& g, Draft& d) {
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  static constexpr double kPowers[] = {2, 3, 1, 0, 0.5, -1};
  const DType t = d.op->since_version >= 12 && g.chance(40) ? DType::kF32 : x->dtype();
  const double p = g.one_of(kPowers);
  return d.put(1, g.scalar(t, is_float(t) ? p : std::max(0.0, static_cast<double>(static_cast<int64_t>(p)))));
}

bool div(Generator& g, Draft& d) {
  if (const Value* y = d.settled_tensor(1)) return d.fill(0, [&] { return g.partner(*y); });
  Value* x = first(g, d, 0);
  if (x == nullptr) return false;
  return d.fill(
      1, [&] { return is_float(x->dtype()) ? g.partner(*x) : g.scalar(x->dtype(), static_cast<double>(g.between(1, 3))); });
}

bool attention(Generator& g, Draft& d) {
  const int64_t heads = g.between(1, 2), size = 4;
  const DType t = g.random_dtype(bits({DType::kF32, DType::kF64}));
  const std::vector<Dim> q{Dim::of(2), Dim::of(heads), Dim::of(3), Dim::of(size)},
      kv{Dim::of(2), Dim::of(heads), Dim::of(5), Dim::of(size)};
  for (size_t i = 0; i < 3; ++i) {
    if (!d.fill(i, [&] { return g.exactly(t, i == 0 ? q : kv); })) return false;
  }
  const std::vector<Dim> mask{Dim::of(3), Dim::of(5)};
  if (g.chance(40) && !d.fill(3, [&] { return g.exactly(g.chance(50) ? DType::kBool : t, mask); })) return false;
  if (g.chance(30)) d.set("is_causal", Attr(1));
  d.set("scale", Attr(0.5));  // never draw the others: softcap 0 is off, -1 is invalid
  return true;
}

bool resize(Generator& g, Draft& d) {
  Value* x = first(g, d, 4, 4);
  if (x == nullptr || d.op->since_version < 11) return false;
  d.put(1, d.op->since_version == 11 ? g.constant(Tensor::full(DType::kF32, {0}, 0)) : nullptr);
  d.put(2, g.constant(Tensor::of<float>(DType::kF32, {4}, std::vector<float>{1, 1, 2, 2})));
  d.set("mode", Attr(g.chance(70) ? "nearest" : "linear"));
  d.set("cubic_coeff_a", Attr(-0.75));
  return true;
}

bool quantize(Generator& g, Draft& d) {
  const bool back = d.op->name == "DequantizeLinear";
  if (!d.fill(0, [&] { return g.pick_or_make(back ? bits({DType::kU8, DType::kI8}) : bits({DType::kF32})); })) return false;
  const DType zero = back && d.in[0] != nullptr ? d.in[0]->dtype() : g.chance(50) ? DType::kU8 : DType::kI8;
  d.put(1, g.scalar(DType::kF32, 0.5));
  if (g.chance(70)) d.put(2, g.scalar(zero, 3));
  return true;
}

constexpr Recipe kRecipes[] = {
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
    {"GlobalAveragePool", image, 1},
    {"GlobalMaxPool", image, 1},
    {"LRN", image, 1},
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

}  // namespace

const Recipe* find_recipe(std::string_view op) { return find_in(kRecipes, op); }

}  // namespace sardonyx::fuzz
