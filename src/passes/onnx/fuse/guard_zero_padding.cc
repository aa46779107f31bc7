//   x ── Pad(0) ── MaxPool ── y          =>   x ── Pad(0) ── MaxPool<auto_pad=VALID> ── y
//   x ── Pad(0) ── MaxPool(pads) ── y    =>   x ── Pad(0, axes) ── MaxPool(pads) ── y         from opset 18 on
//                                        =>   x ── Pad(-0) ── MaxPool(pads) ── y              from opset 11 on
//
// onnxruntime up to 1.31 merges a Pad by zeros into the pads of a MaxPool, which are -inf: maxima of negative
// values change. It leaves alone pools with an auto_pad, pads with axes, and fills with any bit set. VALID
// pads nothing and allows no ceil_mode, so it replaces pads that are all zero. Transposes and casts in
// between do not stop onnxruntime, which moves them.
// Rounds: -0 replaces 0. A maximum of nonnegative values needs no Pad (fuse_pad).
// What stops it: positions of maxima that are used, which onnxruntime does not merge either; fills other than
// 0; unsigned integers, whose lowest value is 0.
#include <algorithm>
#include <cmath>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/fuse/padding.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"};
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

}  // namespace

Pass guard_zero_padding() {
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
  };
}

}  // namespace sardonyx::onnx
