//   x ──┬── mean over the positions ─────────┐
//       ├──────────────────────────── Sub ── Div ── y      =>   InstanceNormalization(x, 1, 0)
//       └── variance ── Add(eps) ── Sqrt ────┘
//
// Mean and variance of each channel of each example, with channels first (PyTorch) or last (JAX, TensorFlow).
// For channels last, the operator stands between transposes, which move_transposes removes together with
// others. Statistics of groups of channels, as Flax computes them on a value with split channels, become the
// same operator between reshapes: [N,G,-1] has one channel per group. A scale applied to the reciprocal root
// moves behind the operator; fuse_batch_normalization absorbs other scales and shifts.
//
// Groups do not become GroupNormalization: onnxruntime's CPU provider has no kernel for it and runs its
// function body ten times slower than InstanceNormalization between reshapes. fuse_group_normalization makes
// it on request.
// What stops it: axes other than the positions; means, variance or eps that do not line up with x; an inner
// value with another user; types other than f32; an unknown number of channels. One position axis behind the
// channels, or a scale by position, means a layer normalization.
// Rounds: for a mean that is large compared to the deviation, Flax's difference of squares loses all digits;
// the operator does not.
#include <algorithm>
#include <numeric>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/fuse/per_channel.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, split{"split"}, mean{"mean"}, second{"second"}, deviation{"deviation"}, eps{"eps"}, scale{"scale"},
    kept{"kept"}, mean_copies{"mean_copies"}, variance_copies{"variance_copies"};

// Matches the statistics of `of` and applies them to x: (x - mean) / deviation. `spread` broadcasts a
// statistic to x.
struct Arithmetic {
  Pattern difference, deviation;
};
template <class Spread>
Arithmetic arithmetic(const Pattern& of, const Spread& spread) {
  const Pattern average = ReduceMean(of, rest).as(mean);
  const Pattern difference = Sub(x, spread(average, mean_copies).as(kept));
  const Pattern square_of_mean = reshaped(squared(reshaped(average)));
  const Pattern fast = Sub(reshaped(ReduceMean(squared(of), rest).as(second)), square_of_mean);
  const Pattern two_pass = ReduceMean(any_of(Mul(difference, difference), Pow(difference, splat(2))), rest).as(second);
  const Pattern variance = any_of(two_pass, fast, Max(fast, splat(0)), Relu(fast));
  return {difference, reshaped(Sqrt(Add(spread(variance, variance_copies), constant.as(eps)))).as(deviation)};
}

Rule rule_of(std::string_view name, const Arithmetic& a, const Condition& when, const Build& build) {
  const Pattern reciprocal = any_of(Reciprocal(a.deviation), Div(splat(1), a.deviation));
  const Pattern k = constant.as(scale);
  return {.name = name,
          .numerics = Numerics::kRounds,
          .match = any_of(Div(a.difference, a.deviation), Mul(a.difference, reciprocal), Div(Mul(a.difference, k), a.deviation),
                          Mul(a.difference, any_of(Div(k, a.deviation), Mul(k, reciprocal)))),
          .when = when,
          .build = build,
          .opset = 13,
          .same_type = true};  // the conditions imply every size
}

// Whether `axes` is first, first + 1, ..., end - 1.
bool is_range(const std::vector<int64_t>& axes, int64_t first, size_t end) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != first + static_cast<int64_t>(i)) return false;
  }
  return !axes.empty() && axes.back() + 1 == static_cast<int64_t>(end);
}

bool lines_up(const Match& m, std::span<const int64_t> axes, size_t channel) {
  if (m[x]->dtype() != DType::kF32) return m.refuse("the element type is not f32");
  const Dim count = m[x]->type()->dim(channel);
  if (!count.is_int() || count.value() < 1) return m.refuse("the number of channels is not known");
  const auto e = m.splat(eps);
  if (!e || !(*e >= 0)) return m.refuse("eps is not one number");
  if (!has_kept_shape(m[kept], m[x], axes) || !has_kept_shape(m[deviation], m[x], axes))
    return m.refuse("mean and variance do not line up with the operand");
  if (m[scale] != nullptr && !is_per_channel(m.type(scale), m[x]->type()->rank(), channel, count.value()))
    return m.refuse("the scale is not one number per channel");
  return has_no_other_users(m) || m.refuse("a part of it has another user");
}

std::vector<int64_t> channels_first(size_t rank) {
  std::vector<int64_t> perm{0, static_cast<int64_t>(rank) - 1};
  for (size_t i = 1; i + 1 < rank; ++i) perm.push_back(static_cast<int64_t>(i));
  return perm;
}
std::vector<int64_t> channels_last(size_t rank) {
  std::vector<int64_t> perm{0};
  for (size_t i = 2; i < rank; ++i) perm.push_back(static_cast<int64_t>(i));
  perm.push_back(1);
  return perm;
}

Value* normalized(Rewriter& b, const Match& m, Value* v, int64_t channels, const Channels& factors) {
  Value* s = factors.empty() ? b.full(v->dtype(), {channels}, 1) : channel_constant(b, v->dtype(), factors, {});
  return b.InstanceNormalization(v, s, b.full(v->dtype(), {channels}, 0), {.epsilon = *m.splat(eps)});
}

// --- one channel at a time

// A scale or shift by position follows, so this is a layer normalization.
bool is_scaled_by_position(const Value& y) {
  for (const Use& u : y.uses()) {
    if (!u.owner->is("Mul") && !u.owner->is("Add")) continue;
    for (const Use& other : u.owner->operands()) {
      const Value* v = other.value;
      if (v == nullptr || !v->is_constant()) continue;
      const auto shape = v->constant()->shape();
      const size_t last = std::min<size_t>(shape.size(), y.type()->rank() - 2);
      if (std::any_of(shape.end() - static_cast<std::ptrdiff_t>(last), shape.end(), [](int64_t d) { return d != 1; }))
        return true;
    }
  }
  return false;
}

bool is_instance(const Match& m) {
  if (!m[x]->ranked()) return false;
  const size_t rank = m[x]->type()->rank();
  const auto axes = read::Reduce(m.node(mean), m.context().facts).axes();
  if (!axes || read::Reduce(m.node(second), m.context().facts).axes() != axes)
    return m.refuse("mean and variance are over different axes");
  const bool first = is_range(*axes, 2, rank), last = is_range(*axes, 1, rank - 1);
  if (first && (rank == 3 || is_scaled_by_position(*m.root().result()))) return m.refuse("it is a layer normalization");
  return (first || last || m.refuse("the axes are not the positions")) && lines_up(m, *axes, first ? 1 : rank - 1);
}

Value* instance(Rewriter& b, const Match& m) {
  const size_t rank = m[x]->type()->rank();
  const bool first = read::Reduce(m.node(mean), m.context().facts).axes()->front() == 2;
  const int64_t channels = m[x]->type()->dim(first ? 1 : rank - 1).value();
  const Channels factors = m[scale] == nullptr ? Channels{} : numbers(*m[scale]->constant(), channels);
  if (first) return normalized(b, m, m[x], channels, factors);
  Value* y = normalized(b, m, b.Transpose(m[x], {.perm = channels_first(rank)}), channels, factors);
  return b.Transpose(y, {.perm = channels_last(rank)});
}

// --- groups of channels, channels last

// Whether a statistic of each group is copied to each of its channels: [N,..,G,1] expanded to [N,..,G,c].
bool copies_groups(const Value* copies, Dim examples, Dim groups, Dim each) {
  const Value* before = copies->def()->input(0);
  if (!copies->ranked() || !before->ranked() || before->type()->rank() != copies->type()->rank()) return false;
  const size_t rank = copies->type()->rank();
  for (size_t i = 0; i < rank; ++i) {
    const Dim wanted = i == 0 ? examples : i + 2 == rank ? groups : i + 1 == rank ? each : Dim::of(1);
    if (!(copies->type()->dim(i) == wanted) || !(before->type()->dim(i) == (i + 1 == rank ? Dim::of(1) : wanted))) return false;
  }
  return true;
}

bool is_group(const Match& m) {
  if (!m[x]->ranked() || !m[split]->ranked()) return false;
  const Type *t = m[x]->type(), *s = m[split]->type();
  const size_t rank = t->rank();
  if (rank < 3 || s->rank() != rank + 1) return false;
  for (size_t i = 0; i + 1 < rank; ++i) {
    if (!(t->dim(i) == s->dim(i))) return m.refuse("more than the channels were split");
  }
  std::vector<int64_t> wanted(rank - 2);
  std::iota(wanted.begin(), wanted.end(), 1);
  const std::vector<int64_t> positions = wanted;
  wanted.push_back(static_cast<int64_t>(rank));
  const auto axes = read::Reduce(m.node(mean), m.context().facts).axes();
  if (axes != wanted || read::Reduce(m.node(second), m.context().facts).axes() != axes)
    return m.refuse("the axes are not the positions and the channels of a group");
  const Dim groups = s->dim(rank - 1), each = s->dim(rank);
  if (!(m.dims().mul(groups, each) == t->dim(rank - 1))) return m.refuse("the channels do not fall into groups");
  if (!copies_groups(m[mean_copies], t->dim(0), groups, each) || !copies_groups(m[variance_copies], t->dim(0), groups, each))
    return m.refuse("the statistics are not copied for each channel of a group");
  size_t unknown = 0;  // sizes that the last Reshape has to infer
  for (int64_t p : positions) unknown += !t->dim(static_cast<size_t>(p)).is_int();
  return (unknown <= 1 || m.refuse("more than one size is not known")) && lines_up(m, positions, rank - 1);
}

Value* group(Rewriter& b, const Match& m) {
  const Type* t = m[x]->type();
  const size_t rank = t->rank();
  const int64_t groups = m[split]->type()->dim(rank - 1).value();
  Value* v = b.Reshape(b.Transpose(m[x], {.perm = channels_first(rank)}), b.i64s({0, groups, -1}));
  std::vector<int64_t> shape{0, t->dim(rank - 1).value()};
  for (size_t i = 1; i + 1 < rank; ++i) shape.push_back(t->dim(i).is_int() ? t->dim(i).value() : -1);
  Value* y = b.Transpose(b.Reshape(normalized(b, m, v, groups, {}), b.i64s(shape)), {.perm = channels_last(rank)});
  return m[scale] == nullptr ? y : b.Mul(y, m[scale]);
}

}  // namespace

Pass fuse_instance_normalization() {
  const auto in_place = [](const Pattern& p, Var) { return reshaped(p); };
  const auto copied = [](const Pattern& p, Var copies) { return Reshape(Expand(reshaped(p), any).as(copies), any); };
  return std::vector<Rule>{
      rule_of("channels", arithmetic(x, in_place), is_instance, instance),
      rule_of("groups", arithmetic(Reshape(x, any).as(split), copied), is_group, group),
  };
}

}  // namespace sardonyx::onnx
