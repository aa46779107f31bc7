//   x ── Pad(0) ── MaxPool ── y          =>   x ── Pad(0) ── MaxPool<auto_pad=VALID> ── y
//   x ── Pad(0) ── MaxPool(pads) ── y    =>   x ── Pad(0, axes) ── MaxPool(pads) ── y         from opset 18 on
//                                        =>   x ── Pad(-0) ── MaxPool(pads) ── y              from opset 11 on
//   LayerNormalization(x, s: [1,1,n])    =>   LayerNormalization(x, s: [n])
//   LayerNormalization<axis=1>(Add(x, z), ...)   =>   LayerNormalization<axis=1>(Sum(x, z), ...)
//   Reshape(DequantizeLinear(w, s))      =>   DequantizeLinear(Reshape(w), s)                 w constant
//   Mul(x: [], c: [1])                   =>   Mul(Unsqueeze(x), c)                            x used elsewhere
//   MatMul(Transpose(a), v: [n])         =>   MatMul(v, a)                                    the last two axes swapped
//   MatMul(v: [n], Transpose(a))         =>   MatMul(a, v)
//
// Writes nodes that onnxruntime's optimizer would break so that it leaves them alone. It does no harm in
// other runtimes.
//
// Pads: onnxruntime up to 1.31 merges a Pad by zeros into the pads of a MaxPool, which are -inf: maxima of
// negative values change. It leaves alone pools with an auto_pad, pads with axes, and fills with any bit set.
// VALID pads nothing and allows no ceil_mode, so it replaces pads that are all zero. Transposes and casts in
// between do not stop onnxruntime, which moves them. A maximum of nonnegative values needs no Pad (fuse_pad).
// Normalizations: onnxruntime up to 1.23 joins a sum with a LayerNormalization that reads it, even if the
// kernel refuses the scale's rank or normalizes other axes.
// Weights of 8 bits: onnxruntime up to 1.23 folds a view of dequantized constants as if they were unsigned.
// Activations: onnxruntime replaces the arithmetic of GELU by a node that has the rank of x, and not that of
// the constants.
//
// Products: onnxruntime up to 1.32 takes the transpose of a first operand into the product, and gets other
// numbers if the second one has one axis. Of a second operand it is right; the transpose is saved.
//
// Rounds: -0 replaces 0, a Sum of two may be evaluated as such, and products may be added in another order.
// What stops it: positions of maxima that are used, which onnxruntime does not merge either; fills other than
// 0; unsigned integers, whose lowest value is 0; a scale that is not constant.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/fuse/padding.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, c{"c"}, factor{"factor"}, transposed{"transposed"}, dequantized{"dequantized"};
constexpr int kMost = 4;  // nodes between Pad and MaxPool

bool is_moved(const Node& n) { return n.is("Transpose") || n.is("Cast") || n.is("Identity"); }

// Whether onnxruntime may merge the Pad into a MaxPool.
bool is_by_zeros(const Node& n, PassContext& c) {
  if (!n.is("Pad") || n.unchecked() || string_attr(n, "mode") != "constant" || n.input(3) != nullptr) return false;
  const auto fill = fill_of(n, c);
  if (!fill || *fill != 0 || (n.op().since_version >= 11 && std::signbit(*fill))) return false;
  const auto pads = pads_of(n, c);
  return pads && std::ranges::all_of(*pads, [](int64_t p) { return p >= 0; });
}

// Whether onnxruntime may merge a Pad before it.
bool takes_pads(const Node& n) {
  if (!n.is("MaxPool") || n.unchecked() || string_attr(n, "auto_pad") != "NOTSET") return false;
  if (n.num_results() > 1 && n.result(1) != nullptr && n.result(1)->has_uses()) return false;
  const DType t = n.result(0)->dtype();
  return is_float(t) || t == DType::kI8;
}

bool pads_nothing(const Node& pool) {
  const auto pads = pool.attr_ints("pads").value_or(std::vector<int64_t>{});
  return int_attr(pool, "ceil_mode").value_or(0) == 0 && std::ranges::all_of(pads, [](int64_t p) { return p == 0; });
}

bool is_behind_zeros(const Match& m) {
  if (!takes_pads(m.root()) || !pads_nothing(m.root())) return false;
  const Node* n = m[x]->def();
  for (int i = 0; n != nullptr && is_moved(*n) && i < kMost; ++i) n = n->input(0)->def();
  return n != nullptr && is_by_zeros(*n, m.context());
}

bool is_before_pool(const Match& m) {
  if (!is_by_zeros(m.root(), m.context())) return false;
  std::vector<std::pair<const Value*, int>> todo{{m.root().result(), 0}};
  while (!todo.empty()) {
    const auto [v, depth] = todo.back();
    todo.pop_back();
    for (const Use& u : v->uses()) {
      if (u.owner == nullptr) continue;
      if (takes_pads(*u.owner) && !pads_nothing(*u.owner)) return true;
      if (is_moved(*u.owner) && depth < kMost) todo.emplace_back(u.owner->result(), depth + 1);
    }
  }
  return false;
}

Value* with_axes(Rewriter& b, const Match& m) {
  const auto pads = *pads_of(m.root(), m.context());
  const size_t rank = pads.size() / 2;
  std::vector<int64_t> axes, low, high;
  for (size_t i = 0; i < rank; ++i) {
    if (pads[i] == 0 && pads[rank + i] == 0) continue;
    axes.push_back(static_cast<int64_t>(i));
    low.push_back(pads[i]);
    high.push_back(pads[rank + i]);
  }
  low.insert(low.end(), high.begin(), high.end());
  return b.op("Pad", {m[x], b.i64s(low), m.root().input(2), b.i64s(axes)}, attrs_of(m.root()));
}

// The number of axes that a LayerNormalization normalizes; 0 if it is not known.
size_t normalized_axes(const Node& n) {
  const Value* v = n.input(0);
  if (v == nullptr || !v->ranked() || n.unchecked()) return 0;
  const auto axis = read::LayerNormalization(n).axis();
  return axis ? v->type()->rank() - *axis : 0;
}

// Whether v is a constant with axes of size 1 before its last `axes` ones.
bool has_more_axes(const Value* v, size_t axes) {
  if (v == nullptr || !v->is_constant() || v->constant() == nullptr || v->type()->rank() <= axes) return false;
  const auto shape = v->constant()->shape();
  return std::ranges::all_of(shape.first(shape.size() - axes), [](int64_t d) { return d == 1; });
}

Value* with_fewer_axes(Rewriter& b, const Match& m) {
  std::vector<Value*> operands = operands_of(m.root());
  const size_t axes = normalized_axes(m.root());
  for (size_t i = 1; i < operands.size(); ++i) {
    if (has_more_axes(operands[i], axes)) operands[i] = trimmed(b, operands[i], axes);
  }
  return b.like(m.root(), operands);
}

// Whether the sum's only user normalizes more than its last axis.
bool is_normalized_widely(const Value& sum) {
  if (!sum.has_one_use() || (sum.dtype() != DType::kF32 && sum.dtype() != DType::kF64)) return false;
  const Node* user = (*sum.uses().begin()).owner;
  return user != nullptr && user->is("LayerNormalization") && user->input(0) == &sum && normalized_axes(*user) > 1;
}

// Whether a scalar that others use, too, meets a constant with axes. No activation begins with the scale of a
// quantization, and a view of it would stop onnxruntime's integer products.
bool gains_axes(const Match& m) {
  const Value *v = m[x], *by = m[c];
  if (v->def() != nullptr && v->def()->is("DynamicQuantizeLinear")) return false;
  return !v->is_constant() && v->ranked() && v->type()->rank() == 0 && is_float(v->dtype()) && !v->has_one_use() &&
         by->is_constant() && by->ranked() && by->type()->rank() > 0;
}

Value* with_axes_first(Rewriter& b, const Match& m) {
  std::vector<int64_t> axes(m[c]->type()->rank());
  std::iota(axes.begin(), axes.end(), 0);
  std::vector<Value*> operands = operands_of(m.root());
  for (Value*& v : operands) {
    if (v == m[x]) v = b.unsqueeze(v, axes);
  }
  return b.like(m.root(), operands);
}

// Whether the factor has one axis, and the transpose swaps the last two axes of x.
bool is_transposed_by_vector(const Match& m) {
  if (!m[factor]->ranked() || m[factor]->type()->rank() != 1 || !m[x]->ranked() || m[x]->type()->rank() < 2) return false;
  const auto perm = read::Transpose(m.node(transposed)).perm();
  std::vector<int64_t> swapped(m[x]->type()->rank());
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  return perm == swapped;
}

// Whether constants of 8 bits are dequantized by one scale, without a zero point.
bool is_dequantized_weight(const Match& m) {
  const Node& from = m.node(dequantized);
  const Value *w = from.input(0), *scale = from.input(1);
  return w->is_constant() && w->dtype() == DType::kI8 && scale->ranked() && scale->type()->rank() == 0 &&
         from.input(2) == nullptr;
}

}  // namespace

bool keeps_sum(const Node& sum) { return sum.num_inputs() == 2 && is_normalized_widely(*sum.result()); }

Pass guard_fusions() {
  return std::vector<Rule>{
      {.name = "pool",
       .match = MaxPool(x),
       .when = is_behind_zeros,
       .build =
           [](Rewriter& b, const Match& m) {
             AttrInit attrs = attrs_of(m.root(), {"pads", "auto_pad", "ceil_mode"});
             attrs.push_back(attr("auto_pad", std::string("VALID")));
             return b.op("MaxPool", {m[x]}, attrs);
           },
       .opset = 7},
      {.name = "axes", .match = Pad(x, rest).since(18), .when = is_before_pool, .build = with_axes, .opset = 18},
      {.name = "fill",
       .numerics = Numerics::kRounds,
       .match = Pad(x, rest).since(11),
       .when = [](const Match& m) { return m.root().op().since_version < 18 && is_float(m[x]->dtype()) && is_before_pool(m); },
       .build =
           [](Rewriter& b, const Match& m) {
             return b.op("Pad", {m[x], m.root().input(1), b.scalar(m[x]->dtype(), -0.0)}, attrs_of(m.root()));
           },
       .opset = 11},
      {.name = "scale",
       .match = LayerNormalization(x, rest),
       .when =
           [](const Match& m) {
             const size_t axes = normalized_axes(m.root());
             return axes > 0 && (has_more_axes(m.root().input(1), axes) || has_more_axes(m.root().input(2), axes));
           },
       .build = with_fewer_axes,
       .same_type = true},
      {.name = "sum",
       .numerics = Numerics::kRounds,
       .match = Add(x, c),
       .when = [](const Match& m) { return is_normalized_widely(*m.root().result()); },
       .replace = Sum(x, c),
       .opset = 17},
      {.name = "weight",
       .match = Reshape(sole(DequantizeLinear(any, rest).as(dequantized)), c),
       .when = is_dequantized_weight,
       .build =
           [](Rewriter& b, const Match& m) {
             const Node& from = m.node(dequantized);
             const std::vector<Value*> viewed{from.input(0), m[c]};
             return b.op("DequantizeLinear", {b.like(m.root(), viewed), from.input(1)}, attrs_of(from));
           },
       .opset = 10},
      {.name = "scalar",
       .match = any_of(Mul(x, c), Div(x, c)),
       .when = gains_axes,
       .build = with_axes_first,
       .same_type = true},
      {.name = "vector",
       .numerics = Numerics::kRounds,
       .match = MatMul(Transpose(x).as(transposed), factor),
       .when = is_transposed_by_vector,
       .replace = MatMul(factor, x)},
      {.name = "vector_on_the_left",
       .numerics = Numerics::kRounds,
       .match = MatMul(factor, Transpose(x).as(transposed)),
       .when = is_transposed_by_vector,
       .replace = MatMul(x, factor)},
  };
}

}  // namespace sardonyx::onnx
