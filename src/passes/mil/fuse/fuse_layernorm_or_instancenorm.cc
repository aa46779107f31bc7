// The arithmetic of a normalization becomes layer_norm or instance_norm. With m the mean of x and v that of
// (x - m)^2 over the same axes:
//
//   1  x * r + (beta - m * r),  r = gamma * rsqrt(v + eps)           both
//   2  (x - m) / pow(v + eps, 0.5) * gamma + beta                    both (in coremltools' words: instance_norm)
//   3  x * r + (m * r) * -1,    r = rsqrt(v + eps)                   instance_norm, gamma = 1, beta = 0
//   4  as 1, with v = mean(x * x) - m * m, means being sums times 1/n    both
//   5  (x - m) * rsqrt(v + eps), also + beta and then * gamma        layer_norm over axis 1 of rank 4; beta becomes beta * gamma
//
// layer_norm: the axes are the last ones, and gamma and beta have their shape. instance_norm: rank 4; the
// axes are (2, 3) and gamma and beta vary along axis 1, or the axes are (1, 2), they vary along axis 3, and
// transposes go around the op. There must be more than one channel. What stops it: a reduction that drops its
// axes, different axes in the second reduction, an epsilon that is not a scalar constant, gamma or beta that
// are computed or have another shape, other users of x (except in 5) or of values in between. In 5, also a
// first user of the result that adds without a product after it; beta may be one number. We are stricter than
// coremltools' pass of this name, which checks neither the factors of 4 nor along which axis gamma varies.
#include <algorithm>
#include <cmath>

#include "passes/mil/named.h"
#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

constexpr Var x{"x"}, mean{"mean"}, spread{"spread"}, eps{"eps"}, gamma{"gamma"}, beta{"beta"}, factor{"factor"};
constexpr Var centered{"centered"}, sum{"sum"}, squares{"squares"}, one_nth{"one_nth"}, one_nth2{"one_nth2"};

size_t users(const Value* v) {
  size_t n = 0;
  for (const Use& u : v->uses()) n += u.owner->is_boundary() ? 0 : 1;
  return n;
}
// Whether v has that many users and the block does not return it.
bool stays_inside(const Value* v, size_t times) { return users(v) == times && !is_graph_result(*v); }

// The axes of a reduction that keeps them, counted from the end, in order.
std::optional<std::vector<int64_t>> axes_of(Node& reduce, PassContext& context) {
  const Value* of = reduce.input(0);
  if (of == nullptr || !of->ranked()) return std::nullopt;
  const OpReader read(reduce, context.facts);
  const size_t rank = of->type()->rank();
  auto axes = read.axes_in("axes", rank);
  if (!axes || axes->empty() || !read.flag_in("keep_dims")) return std::nullopt;
  for (int64_t& a : *axes) a -= static_cast<int64_t>(rank);
  std::sort(axes->begin(), axes->end());
  return axes;
}

// The axes of both reductions if they are the same; else nullopt.
std::optional<std::vector<int64_t>> axes_of(const Match& found, Var first, Var second) {
  auto axes = axes_of(found.node(first), found.context());
  return axes_of(found.node(second), found.context()) == axes ? axes : std::nullopt;
}

bool is_scalar(const Value* v) { return v->is_constant() && v->constant()->rank() == 0; }
bool is_usable(const Value* v) { return v->is_constant() && is_float(v->dtype()) && !v->constant()->is_promise(); }

// Whether t has x's size along `axis` (from the end), which is not 1, and size 1 along all other axes.
bool varies_along(const Tensor& t, const Type& of, size_t axis) {
  const auto shape = t.shape();
  return t.size() > 1 && shape.size() >= axis && shape[shape.size() - axis] == t.size() &&
         of.dim(of.rank() - axis).is(t.size());
}

enum class Kind : uint8_t { kNone, kLayer, kInstance, kInstanceLast };

// The op for these axes and these shapes of gamma and beta (null: ones and zeros).
Kind kind_of(const Type& t, const std::vector<int64_t>& axes, const Tensor* g, const Tensor* b) {
  const bool last = axes.front() == -static_cast<int64_t>(axes.size());  // in order, and no axis twice
  if (last && g != nullptr && g->rank() == axes.size() && std::ranges::equal(g->shape(), b->shape())) {
    bool same = true;
    for (size_t i = 0; i < axes.size(); ++i) same = same && t.dim(t.rank() - axes.size() + i).is(g->shape()[i]);
    if (same) return Kind::kLayer;
  }
  if (t.rank() != 4) return Kind::kNone;
  const auto fits = [&](size_t axis) {
    if (g == nullptr) return t.dim(4 - axis).is_int() && t.dim(4 - axis).value() > 1;
    return varies_along(*g, t, axis) && varies_along(*b, t, axis);
  };
  if (axes == std::vector<int64_t>{-2, -1} && fits(3)) return Kind::kInstance;
  if (axes == std::vector<int64_t>{-3, -2} && fits(1)) return Kind::kInstanceLast;
  return Kind::kNone;
}

Kind kind_of(const Match& found, Var first, Var second, bool affine) {
  const auto axes = axes_of(found, first, second);
  if (!axes || !found[x]->ranked() || !is_scalar(found[eps])) return Kind::kNone;
  if (!affine) return kind_of(*found.type(x), *axes, nullptr, nullptr);
  if (!is_usable(found[gamma]) || !is_usable(found[beta])) return Kind::kNone;
  return kind_of(*found.type(x), *axes, found[gamma]->constant().get(), found[beta]->constant().get());
}

void name(Rewriter& b, Value* v, const Match& found, std::string_view suffix) {
  named(b, v, std::string(found.root().result()->name().view()) + std::string(suffix));
}

Value* normalization(Rewriter& b, const Match& found, Var first, Var second, bool affine) {
  const Kind kind = kind_of(found, first, second, affine);
  if (kind == Kind::kNone) return nullptr;
  if (kind == Kind::kLayer) {
    const auto axes = OpReader(found.node(first), b.facts()).ints_in("axes");
    return b.layer_norm(found[x], {.axes = *axes, .beta = found[beta], .epsilon = found[eps], .gamma = found[gamma]});
  }
  const bool last = kind == Kind::kInstanceLast;
  const int64_t channels = found.type(x)->dim(last ? 3 : 1).value();
  const auto vector = [&](Var v, double otherwise) {
    return affine ? found[v]->constant()->reshaped({channels}) : Tensor::full(found[x]->dtype(), {channels}, otherwise);
  };
  Value* in = found[x];
  if (last) {
    in = b.transpose(in, {.perm = {0, 3, 1, 2}});
    name(b, in, found, "_transpose_nhwc_nchw");
  }
  Value* y = b.instance_norm(in, {.beta = vector(beta, 0), .epsilon = found[eps], .gamma = vector(gamma, 1)});
  if (last) {
    name(b, y, found, "_instancenorm");
    y = b.transpose(y, {.perm = {0, 2, 3, 1}});
    name(b, y, found, "_transpose_nchw_nhwc");
  }
  return y;
}

// Whether v is one by the number of elements that `reduce` sums.
bool is_one_nth(const Value* v, Node& reduce, PassContext& context) {
  const auto axes = axes_of(reduce, context);
  const auto value = context.splat(v);
  if (!axes || !value || v->constant()->rank() != 0) return false;
  const Type& t = *reduce.input(0)->type();
  double n = 1;
  for (int64_t a : *axes) {
    const Dim d = t.dim(static_cast<size_t>(a + static_cast<int64_t>(t.rank())));
    if (!d.is_int()) return false;
    n *= static_cast<double>(d.value());
  }
  return std::fabs(*value * n - 1) < (v->dtype() == DType::kF16 ? 1e-3 : 1e-5);
}

// 5: gamma and beta without their axes of size one.
bool along_axis_1(const Value* v, const Type& of) { return is_usable(v) && varies_along(*v->constant(), of, 3); }
bool is_one_number(const Value* v) { return is_usable(v) && v->constant()->size() == 1; }

// Whether the first user of n is an add, as with a beta without a gamma.
bool is_added_first(const Node& n) {
  if (std::ranges::none_of(n.result()->uses(), [](const Use& u) { return u.owner->is("add"); })) return false;
  constexpr int kNear = 64;  // ops to search; if none of them uses it, there is no match
  const Node* at = n.next();
  for (int i = 0; at != nullptr && i < kNear; ++i, at = at->next()) {
    if (std::ranges::any_of(at->operands(), [&](const Use& u) { return u.value == n.result(); })) return at->is("add");
  }
  return true;
}

bool over_axis_1(const Match& found) {
  const auto axes = axes_of(found, mean, spread);
  return axes == std::vector<int64_t>{-3} && found.type(x)->rank() == 4 && is_scalar(found[eps]) &&
         stays_inside(found[centered], 3);
}

// Constants are made in the order of the operands, as in coremltools.
Value* over_axis_1(Rewriter& b, const Match& found, const TensorPtr& scale, const TensorPtr& shift) {
  return b.layer_norm(found[x], {.axes = {1}, .beta = shift, .epsilon = found[eps], .gamma = scale});
}

// b has as many elements as a, or one.
TensorPtr product(const Tensor& a, const Tensor& b) {
  std::vector<std::byte> scratch_a, scratch_b, out(a.byte_size());
  const auto left = a.bytes(scratch_a), right = b.bytes(scratch_b);
  for (int64_t i = 0; i < a.size(); ++i)
    encode_element(a.dtype(), out.data(), i,
                   decode_element(a.dtype(), left.data(), i) * decode_element(b.dtype(), right.data(), b.size() == 1 ? 0 : i));
  return Tensor::own(a.dtype(), {a.size()}, std::move(out));
}

}  // namespace

Pass fuse_layernorm_or_instancenorm() {
  using namespace pattern;
  namespace m = pattern::mil;
  const Pattern average = m::reduce_mean(x).as(mean);
  const auto variance = [&](const Pattern& squared) {
    return sole(m::add(constant.as(eps), sole(m::reduce_mean(sole(squared)).as(spread))));
  };
  const Pattern v = variance(m::square(sole(m::sub(x, average))));
  // 1 and 4: the arithmetic after 1 / sqrt(v + eps).
  const auto affine = [&](const Pattern& inverse, const Pattern& mu) {
    const Pattern r = m::mul(constant.as(gamma), sole(inverse)).as(factor);
    return m::add(sole(m::mul(x, r)), sole(m::sub(constant.as(beta), sole(m::mul(mu, factor)))));
  };
  const Pattern center = m::sub(x, average).as(centered);
  const Pattern plain = m::mul(center, sole(m::rsqrt(variance(m::mul(centered, centered)))));

  std::vector<Rule> rules;
  rules.push_back({
      .name = "pattern 1",
      .numerics = Numerics::kRounds,
      .match = affine(m::rsqrt(v), mean),
      .when =
          [](const Match& found) {
            return users(found[x]) == 3 && stays_inside(found[mean], 2) && stays_inside(found[factor], 2);
          },
      .build = [](Rewriter& b, const Match& found) { return normalization(b, found, mean, spread, true); },
  });
  rules.push_back({
      .name = "pattern 2",
      .numerics = Numerics::kRounds,
      .match = m::add(
          sole(m::mul(sole(m::real_div(sole(m::sub(x, average)), sole(m::pow(v, near(0.5, 5e-6))))), constant.as(gamma))),
          constant.as(beta)),
      .when = [](const Match& found) { return users(found[x]) == 3 && stays_inside(found[mean], 2); },
      .build = [](Rewriter& b, const Match& found) { return normalization(b, found, mean, spread, true); },
  });
  rules.push_back({
      .name = "pattern 3",
      .numerics = Numerics::kRounds,
      .match = m::add(sole(m::mul(x, m::rsqrt(v).as(factor))), sole(m::mul(sole(m::mul(mean, factor)), splat(-1)))),
      .when =
          [](const Match& found) {
            return users(found[x]) == 3 && stays_inside(found[mean], 2) && stays_inside(found[factor], 2);
          },
      .build = [](Rewriter& b, const Match& found) { return normalization(b, found, mean, spread, false); },
  });
  const Pattern mu = m::mul(constant.as(one_nth), sole(m::reduce_sum(x).as(sum))).as(mean);
  const Pattern mean_square = sole(m::mul(constant.as(one_nth2), sole(m::reduce_sum(sole(m::mul(x, x))).as(squares))));
  rules.push_back({
      .name = "pattern 4",
      .numerics = Numerics::kRelaxed,  // 1/n within 1e-5, in half precision 1e-3
      .match = affine(m::rsqrt(sole(m::add(constant.as(eps), sole(m::sub(mean_square, sole(m::mul(mean, mean))))))), mu),
      .when =
          [](const Match& found) {
            return users(found[x]) == 4 && stays_inside(found[mean], 3) && stays_inside(found[factor], 2) &&
                   is_one_nth(found[one_nth], found.node(sum), found.context()) &&
                   is_one_nth(found[one_nth2], found.node(squares), found.context());
          },
      .build = [](Rewriter& b, const Match& found) { return normalization(b, found, sum, squares, true); },
  });
  rules.push_back({
      .name = "pattern 5",
      .numerics = Numerics::kRounds,
      .match = plain,
      .when =
          [](const Match& found) {
            if (is_added_first(found.root())) return found.refuse("the addition may be a beta without a gamma");
            return over_axis_1(found) && stays_inside(found[mean], 1);
          },
      .build = [](Rewriter& b, const Match& found) { return over_axis_1(b, found, nullptr, nullptr); },
  });
  rules.push_back({
      .name = "pattern 5 with gamma and beta",
      .numerics = Numerics::kRounds,
      .match = m::mul(constant.as(gamma), sole(m::add(constant.as(beta), sole(plain)))),
      .when =
          [](const Match& found) {
            return over_axis_1(found) && stays_inside(found[mean], 1) && along_axis_1(found[gamma], *found.type(x)) &&
                   (along_axis_1(found[beta], *found.type(x)) || is_one_number(found[beta]));
          },
      .build =
          [](Rewriter& b, const Match& found) {
            const TensorPtr scale = found[gamma]->constant()->reshaped({found[gamma]->constant()->size()});
            const TensorPtr shift = product(*scale, *found[beta]->constant());
            return over_axis_1(b, found, scale, shift);
          },
  });
  return rules;
}

}  // namespace sardonyx::mil
