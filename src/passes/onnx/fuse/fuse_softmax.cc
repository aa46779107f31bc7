//   x ──┬── ReduceMax ──┐
//       └───────────── Sub ── Exp ──┬── ReduceSum ──┐
//                                   └───────────── Div ── y      =>   Softmax(x)
//   z = x - max;  z - log(sum(exp(z)))                           =>   LogSoftmax(x)
//   max + log(sum(exp(x - max)))                                 =>   ReduceLogSumExp(x)
//   Log(Softmax(x))                                              =>   LogSoftmax(x)
//
// The subtrahend only keeps the exponential from overflowing: any value that is constant along the axis
// cancels. So the maximum may be guarded against infinities and NaN (JAX's Where(IsFinite(max), max, 0)),
// clamped, reshaped, transposed or missing. It must come from a maximum of x, so that it is finite where x
// is.
//
// What stops it: a sum over several axes, an axis that is not restored in its place, a subtrahend that
// broadcasts the difference, an inner value with another user. Before opset 13 Softmax flattens the axes from
// its own on, so only the last axis fuses.
// Rounds: nothing underflows or overflows that did not before.
// After the definitions of jax.nn.softmax, log_softmax, logsumexp.
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, c{"c"}, z{"z"}, sum{"sum"}, total{"total"}, again{"again"}, s{"s"};
constexpr int kSteps = 24;

// The source of v before views.
const Value* origin(const Value* v) {
  for (int i = 0; i < kSteps; ++i) {
    const Node* n = v->def();
    if (n == nullptr ||
        !(n->is("Reshape") || n->is("Unsqueeze") || n->is("Squeeze") || n->is("Transpose") || n->is("Identity")))
      break;
    v = n->input(0);
  }
  return v;
}

// Whether v consists of maxima of `of` and constants.
bool is_bound(const Value* v, const Value* of, int& steps) {
  if (v == nullptr || ++steps > kSteps) return false;
  if (v->is_constant()) return true;
  v = origin(v);
  const Node* n = v->def();
  if (n == nullptr) return false;
  if (n->is("ReduceMax")) return origin(n->input(0)) == origin(of);
  if (n->is("Where")) return is_bound(n->input(1), of, steps) && is_bound(n->input(2), of, steps);
  if (n->is("Expand")) return is_bound(n->input(0), of, steps);
  if (n->is("Max") || n->is("Min") || n->is("Clip")) {
    for (const Use& u : n->operands()) {
      if (u.value != nullptr && !is_bound(u.value, of, steps)) return false;
    }
    return true;
  }
  return false;
}

// The axis of the sum; nullopt if there are several.
std::optional<int64_t> axis_of(const Match& m) {
  const auto axes = read::Reduce(m.node(sum), m.context().facts).axes();
  if (!axes || axes->size() != 1) return std::nullopt;
  return axes->front();
}

// Whether the subtrahend is constant along the axis, and finite where x is.
bool cancels(const Match& m, int64_t axis) {
  const Value* by = m[c];
  if (by == nullptr) return true;
  if (!by->ranked() || !m[x]->ranked()) return m.refuse("the rank of the subtrahend is not known");
  const auto lacks = static_cast<int64_t>(m[x]->type()->rank() - by->type()->rank());
  if (axis >= lacks && !by->type()->dim(static_cast<size_t>(axis - lacks)).is(1))
    return m.refuse("the subtrahend varies along the axis");
  int steps = 0;
  return is_bound(by, m[x], steps) || m.refuse("the subtrahend is not a maximum of the operand");
}

bool is_last(const Match& m, int64_t axis) { return axis + 1 == static_cast<int64_t>(m[x]->type()->rank()); }

bool has_modern_softmax(const Match& m) { return m.model().opset_version("") >= 13; }

bool normalizes(const Match& m) {
  const auto axis = axis_of(m);
  if (!axis || !m[x]->ranked() || !is_float(m[x]->dtype())) return false;
  const Node* power = nullptr;
  for (const Node* n : m.nodes()) {
    if (!n->is("Exp")) continue;
    if (power != nullptr && power->input(0) != n->input(0)) return m.refuse("the summed value is not the divided one");
    power = n;
  }
  if (!cancels(m, *axis)) return false;
  if (!has_modern_softmax(m) && !is_last(m, *axis)) return m.refuse("before opset 13 only the last axis");
  if (!has_kept_shape(m[total], m[x], std::vector<int64_t>{*axis}))
    return m.refuse("the sum does not line up with the operand");
  return has_no_other_users(m) || m.refuse("a part of it has another user");
}

Value* softmax(Rewriter& b, const Match& m, std::string_view name) { return b.op(name, {m[x]}, {attr("axis", *axis_of(m))}); }

// The rank of the logarithm of the sum tells whether the axis was kept.
bool is_log_sum(const Match& m) {
  const auto axis = axis_of(m);
  if (!axis || !m[x]->ranked() || !is_float(m[x]->dtype()) || !cancels(m, *axis)) return false;
  if (m[c] != nullptr && origin(m[c]) != origin(m[again])) return m.refuse("the added value is not the subtracted one");
  return has_no_other_users(m) || m.refuse("a part of it has another user");
}

Value* log_sum(Rewriter& b, const Match& m) {
  const Value* root = m.root().result();
  if (!root->ranked()) return nullptr;
  const bool kept = root->type()->rank() == m[x]->type()->rank();
  return b.reduce("ReduceLogSumExp", m[x], std::vector<int64_t>{*axis_of(m)}, kept);
}

}  // namespace

Pass fuse_softmax() {
  const Pattern less = any_of(Sub(x, c).as(z), x);
  const Pattern e = Exp(less);
  const Pattern added = reshaped(ReduceSum(e, rest).as(sum));
  const Pattern of_less = ReduceSum(Exp(Var(z)), rest).as(sum);
  // fuse_reductions may have fused the logarithm of the sum first.
  const Pattern log = any_of(reshaped(Log(reshaped(of_less))), reshaped(ReduceLogSumExp(Var(z), rest).as(sum))).as(total);
  const Pattern summed = ReduceSum(Exp(Sub(x, c).as(z)), rest).as(sum);
  const auto build_log = [](Rewriter& b, const Match& m) { return softmax(b, m, "LogSoftmax"); };

  std::vector<Rule> rules;
  rules.push_back({.name = "softmax",
                   .numerics = Numerics::kRounds,
                   .match = any_of(Div(e, added.as(total)), Mul(e, Reciprocal(added.as(total)))),
                   .when = normalizes,
                   .build = [](Rewriter& b, const Match& m) { return softmax(b, m, "Softmax"); }});
  rules.push_back({.name = "log_softmax",
                   .numerics = Numerics::kRounds,
                   .match = Sub(Sub(x, c).as(z), log),
                   .when = normalizes,
                   .build = build_log});
  rules.push_back(
      {.name = "log_of_softmax",
       .numerics = Numerics::kRounds,
       .match = Log(sole(Softmax(x).as(s))),
       .when = [](const Match& m) { return int_attr(m.node(s), "axis").has_value(); },
       .build = [](Rewriter& b,
                   const Match& m) { return b.op("LogSoftmax", {m[x]}, {attr("axis", *int_attr(m.node(s), "axis"))}); }});
  rules.push_back({.name = "log_sum_exp",
                   .numerics = Numerics::kRounds,
                   .match = Add(any_of(reshaped(Log(any_of(reshaped(summed), Abs(reshaped(summed))))),
                                       reshaped(ReduceLogSumExp(Sub(x, c).as(z), rest).as(sum))),
                                again),
                   .when = is_log_sum,
                   .build = log_sum,
                   .opset = 13});
  return rules;
}

}  // namespace sardonyx::onnx
