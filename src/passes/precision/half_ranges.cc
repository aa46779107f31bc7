#include "passes/precision/half_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <unordered_map>

#include "eval/watch.h"
#include "ir/tensor/tensor_transform.h"
#include "passes/precision/half_masks.h"

namespace sardonyx::precision {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLogOfLeast = -104;             // of the least positive float; the logarithm of zero is infinite
const double kVanishing = std::ldexp(1.0, -25);  // rounds to zero
constexpr int64_t kRescued = 400;                // add_fp16_cast keeps smaller constants from vanishing

bool is_whole_type(DType d) { return is_integer(d) || d == DType::kBool; }

// Bounds from an element type alone.
Extent extent_of(DType d) {
  switch (d) {
    case DType::kBool: return {0, 1, true};
    case DType::kU8: return {0, 255, true};
    case DType::kI8: return {-128, 127, true};
    case DType::kU16: return {0, 65535, true};
    case DType::kI16: return {-32768, 32767, true};
    default: return {-kInf, kInf, is_whole_type(d)};
  }
}

Extent extent_of(const Tensor& t, int64_t most_read) {
  if (t.is_promise() || (!t.is_splat() && t.size() > most_read)) return extent_of(t.dtype());
  if (!is_float(t.dtype()) && !is_whole_type(t.dtype())) return {};
  Extent e{kInf, -kInf, true};
  const auto include = [&](double v) {
    e.whole &= v == std::floor(v) && std::abs(v) < kAsGoodAsInfinite;
    if (!std::isfinite(v)) return;
    if (std::abs(v) >= kAsGoodAsInfinite) v = std::copysign(kLargestHalf, v);  // as add_fp16_cast does
    e.low = std::min(e.low, v);
    e.high = std::max(e.high, v);
  };
  if (t.is_splat()) {
    include(t.as_double(0));
  } else if (!t.reads_in_pieces()) {
    std::ranges::for_each(doubles(t), include);
  } else {
    constexpr int64_t kPiece = 16384;
    const size_t width = byte_size(t.dtype(), 1);
    std::vector<std::byte> piece(kPiece * width);
    for (int64_t first = 0; first < t.size(); first += kPiece) {
      const auto n = std::min(kPiece, t.size() - first);
      t.read(first, std::span(piece).first(static_cast<size_t>(n) * width));
      for (int64_t i = 0; i < n; ++i) include(decode_element(t.dtype(), piece.data(), i));
    }
  }
  return e.low <= e.high ? e : Extent{0, 0};
}

// The largest sum of absolute values over all axes but `kept` (which may be no axis of v). Infinite if v is
// not a constant.
double widest_row(const Value& v, size_t kept, int64_t most_read) {
  if (!v.is_constant() || v.constant()->is_promise() || v.constant()->size() > most_read) return kInf;
  const Tensor& t = *v.constant();
  int64_t inner = 1;
  for (size_t i = kept + 1; i < t.rank(); ++i) inner *= t.shape()[i];
  const int64_t rows = kept < t.rank() ? t.shape()[kept] : 1;
  std::vector<double> sums(static_cast<size_t>(rows), 0);
  double widest = 0;
  std::vector<std::byte> scratch;
  const auto bytes = t.is_splat() ? std::span<const std::byte>() : t.bytes(scratch);
  for (int64_t i = 0; i < t.size(); ++i) {
    const double e = t.is_splat() ? t.as_double(0) : decode_element(t.dtype(), bytes.data(), i);
    widest = std::max(widest, sums[static_cast<size_t>(i / inner % rows)] += std::abs(e));
  }
  return widest;
}

double product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }
Extent scaled_by(const Extent& x, double n) {
  return {std::min(product(x.low, n), x.low), std::max(product(x.high, n), x.high)};
}
Extent times(const Extent& a, const Extent& b) {
  const double corners[] = {product(a.low, b.low), product(a.low, b.high), product(a.high, b.low), product(a.high, b.high)};
  return {*std::ranges::min_element(corners), *std::ranges::max_element(corners)};
}

double length(Dim d) { return d.is_int() ? static_cast<double>(d.value()) : kInf; }

// What a rule reads: extents and values of the operands by slot, and sizes.
struct At {
  Node& n;
  PassContext& context;
  const HalfRanges& ranges;

  Value* value(std::string_view slot) const { return operand(n, context, slot); }
  Extent in(std::string_view slot) const {
    const Value* v = value(slot);
    return v != nullptr ? ranges.bounds(*v) : Extent{0, 0};
  }
  // NaN if unknown.
  double number(std::string_view slot) const {
    return precision::number(n, context, slot).value_or(std::numeric_limits<double>::quiet_NaN());
  }
  // The number of elements of x per element of the result; infinite or NaN if unknown.
  double count() const { return size(*value("x")) / size(*n.result()); }

 private:
  static double size(const Value& v) {
    if (!v.ranked()) return kInf;
    double s = 1;
    for (Dim d : v.type()->dims()) s *= length(d);
    return s;
  }
};

using Bound = std::function<Extent(const At&)>;

Bound monotone(double (*f)(double)) {
  return [f](const At& at) { return Extent{f(at.in("x").low), f(at.in("x").high)}; };
}
Bound always(double low, double high) {
  return [=](const At&) { return Extent{low, high}; };
}

Extent all_operands(const At& at) {
  Extent e{kInf, -kInf};
  for (const Use& u : at.n.operands()) {
    if (u.value == nullptr || !is_float(u.value->dtype())) continue;
    e = join(e, at.ranges.bounds(*u.value));
  }
  return e.low <= e.high ? e : Extent();
}

Extent product_with(double row, const Extent& x) {
  const double m = product(row, x.magnitude());
  return {-m, m};
}
Extent product_with(double row, const Extent& x, const Extent& bias) {
  const Extent e = product_with(row, x);
  return {e.low + std::min(bias.low, 0.0), e.high + std::max(bias.high, 0.0)};
}

Extent normalized(const At& at, double count) {
  const Extent gamma = at.value("gamma") != nullptr ? at.in("gamma") : Extent{1, 1}, beta = at.in("beta");
  const double m = std::sqrt(count) * gamma.magnitude();
  return {-m + beta.low, m + beta.high};
}

using BoundsOfOps = std::unordered_map<std::string_view, Bound>;

void add_elementwise(BoundsOfOps& m) {
  for (std::string_view op : {"sigmoid", "softmax", "sigmoid_hard"}) m[op] = always(0, 1);
  for (std::string_view op : {"tanh", "erf", "sin", "cos", "softsign", "sign"}) m[op] = always(-1, 1);
  m["atan"] = m["asin"] = always(-1.6, 1.6);
  m["acos"] = always(0, 3.2);
  m["relu"] = monotone([](double v) { return std::max(v, 0.0); });
  m["relu6"] = monotone([](double v) { return std::clamp(v, 0.0, 6.0); });
  m["exp"] = monotone([](double v) { return std::exp(v); });
  m["exp2"] = monotone([](double v) { return std::exp2(v); });
  m["softplus"] = monotone([](double v) { return v > 30 ? v : std::log1p(std::exp(v)); });
  for (std::string_view op : {"floor", "ceil", "round"}) {
    m[op] = [](const At& at) { return Extent{std::floor(at.in("x").low), std::ceil(at.in("x").high)}; };
  }
  m["sqrt"] = [](const At& at) { return Extent{0, std::sqrt(std::max(0.0, at.in("x").high))}; };
  m["square"] = [](const At& at) { return Extent{0, product(at.in("x").magnitude(), at.in("x").magnitude())}; };
  m["abs"] = [](const At& at) { return Extent{0, at.in("x").magnitude()}; };
  m["clip"] = [](const At& at) {
    const double low = at.number("alpha"), high = at.number("beta");
    if (!(low <= high)) return Extent();
    return Extent{std::clamp(at.in("x").low, low, high), std::clamp(at.in("x").high, low, high)};
  };
  m["inverse"] = m["rsqrt"] = [](const At& at) {
    const Extent x = at.in("x");
    if (x.low < 0) return Extent();
    const double epsilon = at.value("epsilon") != nullptr ? at.number("epsilon") : 0;
    const auto of = [&](double v) { return is(at.n, "rsqrt") ? 1 / std::sqrt(v + epsilon) : 1 / (v + epsilon); };
    return Extent{of(x.high), of(x.low)};
  };
  m["pow"] = [](const At& at) {
    const Extent x = at.in("x"), y = at.in("y");
    if (y.low != y.high) return Extent();
    const double low = std::pow(x.low, y.low), high = std::pow(x.high, y.low);
    if (x.low >= 0) return Extent{std::min(low, high), std::max(low, high)};
    if (y.low > 0 && std::fmod(y.low, 2) == 0) return Extent{0, std::pow(x.magnitude(), y.low)};
    return y.low > 0 && y.low == std::floor(y.low) ? Extent{low, high} : Extent();
  };
  m["gelu"] = [](const At& at) { return Extent{-0.2, std::max(0.0, at.in("x").high)}; };
  m["silu"] = [](const At& at) { return Extent{-0.3, std::max(0.0, at.in("x").high)}; };
  m["elu"] = [](const At& at) {
    const double a = at.number("alpha");
    return Extent{std::min(-a, 0.0), std::max({-a, 0.0, at.in("x").high})};
  };
  m["leaky_relu"] = [](const At& at) {
    const Extent x = at.in("x");
    const double farthest = product(std::min(x.low, 0.0), at.number("alpha"));
    return Extent{std::min(farthest, 0.0), std::max({farthest, 0.0, x.high})};
  };
  m["log"] = [](const At& at) {
    const double epsilon = at.value("epsilon") != nullptr ? at.number("epsilon") : 0;  // close enough to the default
    const Extent x = at.in("x");
    const auto log = [&](double v) { return std::max(std::log(std::max(v + epsilon, 0.0)), kLogOfLeast); };
    return Extent{log(x.low), log(x.high)};
  };
  m["add"] = [](const At& at) { return Extent{at.in("x").low + at.in("y").low, at.in("x").high + at.in("y").high}; };
  m["sub"] = [](const At& at) { return Extent{at.in("x").low - at.in("y").high, at.in("x").high - at.in("y").low}; };
  m["mul"] = [](const At& at) {
    if (at.value("x") != at.value("y")) return times(at.in("x"), at.in("y"));
    return Extent{0, product(at.in("x").magnitude(), at.in("x").magnitude())};
  };
  m["real_div"] = [](const At& at) {
    const Extent y = at.in("y");
    if (y.low <= 0 && y.high >= 0) return Extent();
    return times(at.in("x"), {1 / y.high, 1 / y.low});
  };
  m["neg"] = [](const At& at) { return Extent{-at.in("x").high, -at.in("x").low}; };
  m["maximum"] = [](const At& at) {
    if (at.n.num_inputs() != 2) return all_operands(at);
    return Extent{std::max(at.in("x").low, at.in("y").low), std::max(at.in("x").high, at.in("y").high)};
  };
  m["minimum"] = [](const At& at) {
    if (at.n.num_inputs() != 2) return all_operands(at);
    return Extent{std::min(at.in("x").low, at.in("y").low), std::min(at.in("x").high, at.in("y").high)};
  };
}

void add_moves(BoundsOfOps& m) {
  // Ops that only move or select elements.
  for (std::string_view op : {"identity",
                              "reshape",
                              "transpose",
                              "expand_dims",
                              "squeeze",
                              "split",
                              "slice_by_index",
                              "slice_by_size",
                              "tile",
                              "reverse",
                              "reverse_sequence",
                              "flatten2d",
                              "depth_to_space",
                              "space_to_depth",
                              "pixel_shuffle",
                              "pixel_unshuffle",
                              "batch_to_space",
                              "upsample_nearest_neighbor",
                              "max_pool",
                              "reduce_max",
                              "reduce_min",
                              "reduce_mean",
                              "gather",
                              "gather_along_axis",
                              "gather_nd",
                              "sliding_windows",
                              "topk",
                              "argsort",
                              "sort",
                              "reshape_like",
                              "upsample_bilinear"}) {
    m[op] = [](const At& at) { return at.in("x"); };
  }
  m["cast"] = [](const At& at) {
    const Extent x = at.in("x"), narrow = extent_of(at.value("x")->dtype());
    return Extent{std::max(x.low, narrow.low), std::min(x.high, narrow.high)};
  };
  m["band_part"] = m["space_to_batch"] = m["avg_pool"] = [](const At& at) { return join(at.in("x"), {0, 0}); };
  m["concat"] = m["stack"] = all_operands;
  m["select"] = [](const At& at) { return join(at.in("a"), at.in("b")); };
  m["pad"] = [](const At& at) {
    const double fill = at.number("constant_val");
    return join(at.in("x"), {fill, fill});
  };
  m["range_1d"] = [](const At& at) { return join(at.in("start"), at.in("end")); };
  m["fill"] = [](const At& at) { return at.in("value"); };
  m["one_hot"] = [](const At& at) {
    const double on = at.number("on_value"), off = at.number("off_value");
    return Extent{std::min(on, off), std::max(on, off)};
  };
}

void add_sums(BoundsOfOps& m) {
  m["reduce_sum"] = [](const At& at) { return scaled_by(at.in("x"), at.count()); };
  m["cumsum"] = [](const At& at) {
    const Value& y = *at.n.result();
    if (!y.ranked()) return Extent();
    const auto axis = static_cast<int64_t>(at.number("axis"));
    const auto i = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(y.type()->rank()) : axis);
    return join(scaled_by(at.in("x"), length(y.type()->dim(i))), {0, 0});
  };
  m["reduce_l1_norm"] = [](const At& at) { return Extent{0, at.count() * at.in("x").magnitude()}; };
  m["reduce_l2_norm"] = [](const At& at) { return Extent{0, std::sqrt(at.count()) * at.in("x").magnitude()}; };
  m["reduce_sum_square"] = [](const At& at) {
    return Extent{0, at.count() * product(at.in("x").magnitude(), at.in("x").magnitude())};
  };
}

void add_products_and_normalizations(BoundsOfOps& m) {
  m["linear"] = [](const At& at) {
    return product_with(widest_row(*at.value("weight"), 0, at.ranges.most_read()), at.in("x"), at.in("bias"));
  };
  m["conv"] = [](const At& at) {
    return product_with(widest_row(*at.value("weight"), 0, at.ranges.most_read()), at.in("x"), at.in("bias"));
  };
  m["matmul"] = [](const At& at) {
    for (bool right : {true, false}) {
      const Value* w = at.value(right ? "y" : "x");
      if (!w->is_constant()) continue;
      const bool flipped = is_transposed(at.n, at.context, right ? 1 : 0);
      const size_t rank = w->constant()->rank();
      // With batches, the sum has more terms than in the product: the bound is larger, never smaller. A
      // vector is summed as a whole.
      return product_with(widest_row(*w, right != flipped ? rank - 1 : rank - 2, at.ranges.most_read()),
                          at.in(right ? "x" : "y"));
    }
    const Value& x = *at.value("x");
    if (!x.ranked()) return Extent();
    const double terms = length(x.type()->dim(x.type()->rank() - (is_transposed(at.n, at.context, 0) ? 2 : 1)));
    const double widest = product(terms, product(at.in("x").magnitude(), at.in("y").magnitude()));
    return Extent{-widest, widest};
  };
  m["layer_norm"] = [](const At& at) {
    if (!at.value("x")->ranked()) return Extent();
    const Type* x = at.value("x")->type();
    const auto axes = normalized_axes(at.n, at.context);
    double count = 1;
    for (size_t i = 0; i < x->rank(); ++i) {
      if (!axes || std::ranges::find(*axes, static_cast<int64_t>(i)) != axes->end()) count *= length(x->dim(i));
    }
    return normalized(at, count);
  };
  m["instance_norm"] = [](const At& at) {
    if (!at.value("x")->ranked()) return Extent();
    double count = 1;
    for (Dim d : at.value("x")->type()->dims().subspan(2)) count *= length(d);
    return normalized(at, count);
  };
}

const BoundsOfOps& bounds_of_ops() {
  static const BoundsOfOps all = [] {
    BoundsOfOps m;
    add_elementwise(m);
    add_moves(m);
    add_sums(m);
    add_products_and_normalizations(m);
    return m;
  }();
  return all;
}

bool is_single(const Value* v) { return v != nullptr && v->dtype() == DType::kF32; }

}  // namespace

double Extent::magnitude() const { return std::max(std::abs(low), std::abs(high)); }

Extent join(const Extent& a, const Extent& b) {
  const double least = a.least == 0 || b.least == 0 ? std::max(a.least, b.least) : std::min(a.least, b.least);
  return {std::min(a.low, b.low), std::max(a.high, b.high), false, least};
}

std::string_view to_string(HalfVerdict v) {
  switch (v) {
    case HalfVerdict::kSafe: return "safe";
    case HalfVerdict::kUnknown: return "unknown";
    case HalfVerdict::kMayOverflow: return "may overflow";
    case HalfVerdict::kOverflows: return "overflows";
    case HalfVerdict::kVanishes: return "vanishes";
  }
  return "?";
}

HalfRanges::HalfRanges(Graph& function, PassContext& context, int64_t most_read)
    : function_(function), context_(context), most_read_(most_read) {
  HalfFits fits;
  masked_ = masked_values(function, fits);
  bound(function);
}

Extent HalfRanges::bounds(const Value& v) const {
  const auto at = bounds_.find(&v);
  return at != bounds_.end() ? at->second : Extent();
}

void HalfRanges::bound_constant(const Value* v, int64_t most_read) {
  if (v == nullptr || !v->is_constant()) return;
  if (const auto [at, is_new] = bounds_.try_emplace(v); is_new || most_read > most_read_)
    at->second = extent_of(*v->constant(), most_read);
}

// Whether the results are integers.
bool HalfRanges::is_whole(Node& n) {
  static constexpr std::string_view kRounds[] = {"floor", "ceil", "round", "floor_div", "sign"};
  // Ops that return integers if all operands are integers.
  static constexpr std::string_view kKeep[] = {"abs",
                                               "add",
                                               "band_part",
                                               "clip",
                                               "concat",
                                               "cumsum",
                                               "depth_to_space",
                                               "expand_dims",
                                               "fill",
                                               "gather",
                                               "gather_along_axis",
                                               "gather_nd",
                                               "identity",
                                               "max_pool",
                                               "maximum",
                                               "minimum",
                                               "mod",
                                               "neg",
                                               "one_hot",
                                               "pad",
                                               "range_1d",
                                               "reduce_max",
                                               "reduce_min",
                                               "reduce_sum",
                                               "relu",
                                               "reshape",
                                               "reverse",
                                               "reverse_sequence",
                                               "select",
                                               "slice_by_index",
                                               "slice_by_size",
                                               "space_to_depth",
                                               "split",
                                               "squeeze",
                                               "stack",
                                               "sub",
                                               "tile",
                                               "topk",
                                               "transpose"};
  const auto in = [&](const auto& ops) { return is_in(ops, n); };
  const auto all = [&] {
    return std::ranges::all_of(n.operands(), [&](const Use& u) {
      return u.value == nullptr || !is_float(u.value->dtype()) || bounds(*u.value).whole;
    });
  };
  if (is(n, "cast")) return is_whole_type(n.input(0)->dtype()) || is_whole_type(n.result(0)->dtype()) || all();
  if (in(kRounds)) return true;
  if (is(n, "mul")) {  // one factor may be a sign
    const Extent x = bounds(*n.input(0)), y = bounds(*n.input(1));
    const auto is_sign = [](const Extent& e) { return e.low == e.high && std::abs(e.low) == 1; };
    return (x.whole && is_sign(y)) || (y.whole && is_sign(x));
  }
  if (is(n, "matmul") || is(n, "linear") || is(n, "conv")) {
    if (!bounds(*n.input(0)).whole) return false;
    for (size_t i = 1; i < n.num_inputs(); ++i) bound_constant(n.input(i), kAll);
    return all();
  }
  return in(kKeep) && all();
}

void HalfRanges::bound(Graph& g) {
  for (Node& n : g.nodes()) {
    for (const Use& u : n.operands()) bound_constant(u.value, most_read_);
    for (const Body& b : n.bodies()) bound(*b.graph);
    if (is(n, "cond")) {
      for (size_t i = 0; i < n.num_results(); ++i) {
        Extent e{kInf, -kInf};
        for (const Body& b : n.bodies()) e = join(e, bounds(*b.graph->output(i)));
        bounds_[n.result(i)] = e;
      }
    }
    if (!n.op().known || n.unchecked()) continue;
    const auto rule = bounds_of_ops().find(word_of(n.op()));
    Extent e;
    if (rule != bounds_of_ops().end()) e = rule->second(At{n, context_, *this});
    if (std::isnan(e.low) || std::isnan(e.high)) e = {};
    e.whole = is_whole(n);
    if (rule == bounds_of_ops().end() && !e.whole) continue;
    for (Value& v : n.results()) {
      if (is_float(v.dtype()) || is(n, "cast")) bounds_[&v] = e;
    }
  }
  for (const Port& p : g.outputs()) bound_constant(p.use->value, most_read_);
}

void HalfRanges::tell(const std::map<std::string, Extent, std::less<>>& seen) {
  const auto widen = [&](const Value* v) {
    const auto at = seen.find(v->name().view());
    if (at == seen.end()) return;
    const auto [mine, is_new] = seen_.try_emplace(v, at->second);
    if (!is_new) mine->second = join(mine->second, at->second);
  };
  for (Graph* g : graphs_in(function_)) {
    for (const Port& p : g->inputs()) widen(p.value);
    for (Node& n : g->nodes()) {
      for (const Value& v : n.results()) widen(&v);
    }
  }
}

void HalfRanges::see(const Value& v, const EvalValue& what) {
  const Array* a = what.array();
  if (a == nullptr || a->dtype() != DType::kF32) return;
  const double end = masked_.contains(&v) ? kAsGoodAsInfinite : kInf;  // a mask from outside is cast as it is
  Extent e{kInf, -kInf};
  for (int64_t i = 0; i < std::min<int64_t>(a->size(), a->is_splat() ? 1 : a->size()); ++i) {
    const double x = a->is_dense() ? static_cast<double>(a->as<float>()[i]) : a->double_at(i);
    if (!(std::abs(x) < end)) continue;
    e.low = std::min(e.low, x);
    e.high = std::max(e.high, x);
    if (x != 0 && (e.least == 0 || std::abs(x) < e.least)) e.least = std::abs(x);
  }
  if (e.low > e.high) return;
  const auto [at, is_new] = seen_.try_emplace(&v, e);
  if (!is_new) at->second = join(at->second, e);
}

void HalfRanges::observe(std::span<const EvalValue> inputs) {
  for (size_t i = 0; i < inputs.size() && i < function_.inputs().size(); ++i) see(*function_.input(i), inputs[i]);
  evaluate_watched(function_, inputs, {.fast_products = true}, [&](const Value& v, const EvalValue& what) { see(v, what); });
  for (Graph* g : graphs_in(function_)) {
    if (g != &function_) see_inputs(*g);
  }
}

// Inputs of a body have the ranges of what they take.
void HalfRanges::see_inputs(const Graph& body) {
  for (const Port& p : body.inputs()) {
    if (!is_single(p.value)) continue;
    Extent e{kInf, -kInf};
    for (const Value* v : taken_by(*p.value)) {
      const auto at = seen_.find(v);
      if (at != seen_.end() || v->is_constant()) e = join(e, at != seen_.end() ? at->second : bounds(*v));
    }
    if (e.low <= e.high) seen_[p.value] = e;
  }
}

bool HalfRanges::observe_random(size_t runs, uint64_t seed) {
  for (size_t i = 0; i < runs; ++i) {
    std::vector<EvalValue> inputs(function_.inputs().size());
    try {
      fill_inputs(function_, inputs, seed + i);
      observe(inputs);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInternal) throw;
      return false;
    }
  }
  return true;
}

// Scores of attention are about as large as the product of the largest query and the largest key.
void HalfRanges::check_scores(const Node& n, HalfFinding& worst) const {
  const auto query = seen_.find(n.input(0)), key = seen_.find(n.input(1));
  const auto extent = [&](const auto& at, size_t i) { return at != seen_.end() ? at->second : bounds(*n.input(i)); };
  const Extent q = extent(query, 0), k = extent(key, 1);
  const bool seen = query != seen_.end() || key != seen_.end();
  const double most = product(q.magnitude(), k.magnitude());
  if (!seen || !std::isfinite(most) || most <= kLargestHalf || worst.verdict >= HalfVerdict::kOverflows) return;
  worst = {.verdict = HalfVerdict::kOverflows, .value = n.input(0), .extent = q, .seen = true};
}

HalfFinding HalfRanges::judge(const Node& n) const {
  HalfFinding worst{.verdict = HalfVerdict::kSafe};
  const auto check = [&](const Value* v, bool squares) {
    if (!is_single(v)) return;
    HalfFinding f{.value = v};
    const auto seen = seen_.find(v);
    f.seen = seen != seen_.end();
    f.extent = f.seen ? seen->second : bounds(*v);
    const double m = squares ? product(f.extent.magnitude(), f.extent.magnitude()) : f.extent.magnitude();
    const bool exact = f.seen || v->is_constant();
    if (exact ? m > kLargestHalf : f.extent.low > kLargestHalf || f.extent.high < -kLargestHalf) {
      f.verdict = HalfVerdict::kOverflows;
    } else if (m > 0 && m <= kVanishing && !(v->is_constant() && v->constant()->size() < kRescued)) {
      f.verdict = HalfVerdict::kVanishes;
    } else if (!f.extent.known()) {
      f.verdict = HalfVerdict::kUnknown;
    } else {
      f.verdict = m > kLargestHalf ? HalfVerdict::kMayOverflow : HalfVerdict::kSafe;
    }
    if (f.verdict > worst.verdict) worst = f;
  };
  for (const Use& u : n.operands()) check(u.value, is(n, "l2_norm"));
  if (is(n, "scaled_dot_product_attention")) check_scores(n, worst);
  for (const Value& v : n.results()) check(&v, is(n, "reduce_l2_norm"));  // the sum under its root
  return worst;
}

void add_seen(const HalfRanges& ranges, NamedExtents& all) {
  for (const auto& [v, e] : ranges.seen()) {
    if (v->name().empty()) continue;
    const auto [at, is_new] = all.try_emplace(std::string(v->name().view()), e);
    if (!is_new) at->second = join(at->second, e);
  }
}

std::string ranges_text(const NamedExtents& ranges) {
  std::string text;
  for (const auto& [name, e] : ranges) {
    const std::string least = e.least > 0 ? fmt::format("/{}", e.least) : std::string();
    text += fmt::format("{} {}{} {}\n", e.low, e.high, least, name);
  }
  return text;
}

NamedExtents parse_ranges(std::string_view text) {
  NamedExtents all;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty()) continue;
    Extent e;
    const char *at = line.data(), *end = at + line.size();
    const auto read = [&](double& v) {
      const auto [stop, error] = std::from_chars(at, end, v);
      const bool has_least = error == std::errc() && stop != end && *stop == '/' && &v == &e.high;
      at = error == std::errc() && stop != end && (*stop == ' ' || has_least) ? stop + 1 : end;
      return has_least;
    };
    if (!read(e.low) && read(e.high)) read(e.least);
    if (at == end || !(e.low <= e.high) || !(e.least >= 0))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a range of a value", line),
                  {"expected one line per value: lowest, highest, name"});
    all[std::string(at, end)] = e;
  }
  return all;
}

}  // namespace sardonyx::precision
