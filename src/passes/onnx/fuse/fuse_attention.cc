//   q ── MatMul(k transposed) ── Mul(scale) ── [Where or Add: mask] ── Softmax ── MatMul(v) ── y
//     =>   Attention(q, k, v, mask)
//
// Opset 23. The rule tracks which axis of each value is the batch, head, query, key or feature. So transposes
// and axes of size 1 may occur anywhere in between, and either product may have its operands swapped (JAX's
// einsum writes v * p). It labels axes from Softmax outwards, transposes operands only if their order is not
// [batch, head, length, feature], and leaves the rest to the passes that merge transposes.
//
// Three axes mean one head. Keys and values repeated for groups of queries (Unsqueeze, Expand, Reshape) are
// used without the repetition, also when the queries have an axis for their groups
// (fuse_attention_groups.cc).
// A mask selected by Where becomes an additive mask with a query axis (fuse_attention_masks.cc). Where(query
// position >= key position, ...) becomes is_causal, as do the other forms in fuse_attention_causal.cc.
// Probabilities may have PyTorch's guard against fully masked rows: Where(IsNaN(p), 0, p). Attention gives
// zeros there (ONNX 1.23 specifies this for every version of the operator, as runtimes always did).
//
// What stops it: an inner value with another user; products that broadcast or have neither three nor four
// axes; a mask that is scaled with the scores, whose axes are in another order, or that may mask a whole row;
// fills above -1e4; negative scales; element types other than f32 and opsets from 25 on, where onnxruntime's
// operator is slower than the single operators (docs/guide/optimizing.md).
// Rounds: one kernel computes scores, softmax and sum. It adds the mask to infinite or NaN scores instead of
// replacing them. Rows with a NaN score stay NaN where the guard would make them zeros, and a NaN among the
// values becomes zero if the guard follows.
// After jax.nn.dot_product_attention, flax.nnx.dot_product_attention,
// torch.nn.functional.scaled_dot_product_attention.
#include <cmath>
#include <cstring>
#include <iterator>

#include "dialects/onnx/runtimes/runtimes.h"
#include "passes/onnx/fuse/attention.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

constexpr int kSteps = 32;

}  // namespace

Node* made_by(const Value* v, const Graph* graph, std::string_view op) {
  Node* n = v->def();
  return n != nullptr && n->graph() == graph && n->is(op) && !n->unchecked() && v->has_one_use() ? n : nullptr;
}

Node* softmax_of(const Value* v, const Graph* graph, PassContext& c) {
  const Node* guard = made_by(v, graph, "Where");
  if (guard == nullptr) return made_by(v, graph, "Softmax");
  const Node* asks = made_by(guard->input(0), graph, "IsNaN");
  Value* p = guard->input(2);
  const auto zero = c.splat(guard->input(1));
  if (asks == nullptr || asks->input(0) != p || zero != 0.0 || !same_shape(p, v)) return nullptr;
  const auto readers = p->uses();
  Node* n = p->def();
  return n != nullptr && n->is("Softmax") && !n->unchecked() && std::distance(readers.begin(), readers.end()) == 2 ? n
                                                                                                                   : nullptr;
}

Value* bare_mask(Value* v, PassContext& c) {
  for (int i = 0; i < kSteps; ++i) {
    const Node* n = v->def();
    if (n == nullptr || !n->is("And")) return v;
    const auto is_true = [&](const Value* side) {
      const Node* e = side->def();
      if (e != nullptr && e->is("Expand")) side = e->input(0);
      const auto s = c.splat(side);
      return s && *s != 0;
    };
    // Where broadcasts, so the shape of "true" does not matter as long as the scores have the result's shape.
    if (is_true(n->input(0)) && n->input(1)->ranked()) {
      v = n->input(1);
    } else if (is_true(n->input(1)) && n->input(0)->ranked()) {
      v = n->input(0);
    } else {
      return v;
    }
  }
  return v;
}

bool comes_from_product(const Value* v, const Graph* graph) {
  for (int i = 0; i < kSteps && v != nullptr; ++i) {
    const Node* n = v->def();
    if (n == nullptr || n->graph() != graph || !v->has_one_use()) return false;
    if (n->is("MatMul")) return true;
    if (!is_view(*n) && !n->is("Mul") && !n->is("Div")) return false;
    v = n->input(n->is("Mul") && n->input(0)->is_constant() ? 1 : 0);
  }
  return false;
}

std::optional<Scaled> scaled(const Node& n, PassContext& c) {
  const bool divides = n.is("Div");
  if (!divides && !n.is("Mul")) return std::nullopt;
  for (size_t side : {size_t{1}, size_t{0}}) {
    Value* value = n.input(1 - side);
    const auto by = n.input(side)->is_constant() ? c.splat(n.input(side)) : std::nullopt;
    if (by && same_shape(value, n.result())) return Scaled{value, divides ? 1 / *by : *by};
    if (divides) break;
  }
  return std::nullopt;
}

std::optional<double> vanishing_fill(const Node& where, PassContext& c) {
  const auto fill = c.splat(where.input(2));
  return fill && *fill <= -1e4 ? fill : std::nullopt;
}

bool can_be_scale(double scale, DType t) {
  return scale > 0 && std::isfinite(scale) && (t != DType::kF64 || static_cast<double>(static_cast<float>(scale)) == scale);
}

namespace {

using namespace pattern;

struct Found {
  Value *q, *k, *v;  // operands of the products, with four axes, or three for one head
  bool heads;        // four axes
  bool q_transposed, k_transposed, v_transposed, y_transposed;  // the last two axes are swapped
  bool v_swapped;                                               // batch and head are swapped
  double scale = 1;
  AttentionMask mask;
  Labels mask_labels, target;  // labels of the mask's axes; of [batch, head, query, key]
  bool causal = false;
};

bool has_axes(const Value* v, size_t rank) { return v->ranked() && v->type()->rank() == rank; }

// Whether the mask's axes are the last ones of the scores that it masks, in the order of the result's axes.
bool place_mask(const Match& m, Found& f) {
  const Type* type = f.mask.value->type();
  f.mask_labels.erase(f.mask_labels.begin(), f.mask_labels.end() - static_cast<std::ptrdiff_t>(type->rank()));
  size_t at = 0;
  std::vector<int> labels;
  for (size_t i = 0; i < f.mask_labels.size(); ++i) {
    int& label = f.mask_labels[i];
    if (type->dim(i).is(1)) label = kOne;
    if (label == kOne) continue;
    labels.push_back(label);
    while (at < 4 && f.target[at] != label) ++at;
  }
  if (at != 3) return m.refuse("the mask has no key axis, or its axes are in another order");
  const auto hides_later = [&](Value* v) {
    return f.mask.fill ? is_causal(v, m.context()) : causes_of(v, m.context()) != nullptr;
  };
  f.causal = labels == std::vector<int>{f.target[2], f.target[3]} && hides_later(f.mask.value);
  return true;
}

// Finds an attention whose last product is the root. Climbs from the probabilities to Softmax, then from its
// scores through scales and a mask to the product of queries and keys. Each step returns false if there is no
// match, and usually reports why.
class Finder {
 public:
  explicit Finder(const Match& m) : m_(m), left_(m.root().input(0)), right_(m.root().input(1)) {}

  std::optional<Found> run() {
    if (!left_->ranked()) return std::nullopt;
    rank_ = left_->type()->rank();
    if ((rank_ != 4 && rank_ != 3) || !has_axes(right_, rank_)) return std::nullopt;
    f_.heads = rank_ == 4;
    if (!find_softmax() || !has_kernel(m_) || !is_over_keys() || !find_product() || !find_operands()) return std::nullopt;
    if (f_.mask.value != nullptr && (!place_mask(m_, f_) || !(f_.causal || keeps_blind_rows(m_, f_.mask)))) return std::nullopt;
    return std::move(f_);
  }

 private:
  // Finds the operand of the root that comes from Softmax. Sets labels_ to Softmax's axes, numbered as in
  // that operand.
  bool find_softmax() {
    for (bool side : {true, false}) {
      Value* v = side ? left_ : right_;
      Labels own(rank_);
      for (size_t i = 0; i < rank_; ++i) own[i] = v->type()->dim(i).is(1) ? kOne : static_cast<int>(i);
      Value* at = v;
      climb(at, own, graph_);
      softmax_ = softmax_of(at, graph_, m_.context());
      if (softmax_ == nullptr) continue;
      on_left_ = side;
      f_.mask.guarded = at != softmax_->result();
      labels_ = own;
      return true;
    }
    return false;
  }

  bool is_over_keys() {
    const auto axis = read::OpReader(*softmax_).axis_in("axis", labels_.size());
    if (!axis) return false;
    const int last = static_cast<int>(rank_) - 1;
    query_ = on_left_ ? last - 1 : last;
    key_ = on_left_ ? last : last - 1;
    return labels_[*axis] == key_ || m_.refuse("the softmax is not over the keys");
  }

  bool find_product() {
    Value* scores = softmax_->input(0);
    for (int i = 0; i < kSteps && product_ == nullptr; ++i) {
      climb(scores, labels_, graph_);
      product_ = made_by(scores, graph_, "MatMul");
      if (product_ != nullptr) break;
      Node* scale = made_by(scores, graph_, "Mul");
      if (scale == nullptr) scale = made_by(scores, graph_, "Div");
      if (scale != nullptr) {
        if (!step_over_scale(*scale, scores)) return false;
      } else if (Node* add = made_by(scores, graph_, "Add")) {
        if (!step_over_added_mask(*add, scores)) return false;
      } else if (Node* where = made_by(scores, graph_, "Where")) {
        if (!step_over_chosen_mask(*where, scores)) return false;
      } else {
        return m_.refuse("the scores are not a product");
      }
    }
    if (!can_be_scale(f_.scale, m_.root().result()->dtype()))
      return m_.refuse("the scale is not positive, or f32 cannot represent it");
    return product_ != nullptr || m_.refuse("the product of queries and keys is too far away");
  }

  bool step_over_scale(const Node& n, Value*& scores) {
    const auto by = scaled(n, m_.context());
    if (!by) return m_.refuse("the scores are not scaled by a single number");
    f_.scale *= by->by;
    scores = by->value;
    return true;
  }

  bool step_over_added_mask(const Node& n, Value*& scores) {
    const size_t side = comes_from_product(n.input(0), graph_) ? 0 : 1;
    if (f_.scale != 1) return m_.refuse("the mask is scaled with the scores");
    if (f_.mask.value != nullptr || !same_shape(n.input(side), scores)) return m_.refuse("there is more than one mask");
    f_.mask.value = n.input(1 - side);
    f_.mask_labels = labels_;
    if (!meets_axes(m_, f_.mask.value, scores)) return false;
    scores = n.input(side);
    return true;
  }

  bool step_over_chosen_mask(const Node& n, Value*& scores) {
    if (f_.mask.value != nullptr || !same_shape(n.input(1), scores)) return m_.refuse("there is more than one mask");
    if (f_.scale != 1) return m_.refuse("the mask is scaled with the scores");
    f_.mask.fill = vanishing_fill(n, m_.context());
    if (!f_.mask.fill) return m_.refuse("masked scores do not vanish");
    f_.mask.value = bare_mask(n.input(0), m_.context());
    f_.mask_labels = labels_;
    if (!meets_axes(m_, f_.mask.value, scores)) return false;
    scores = n.input(1);
    return true;
  }

  // Finds queries, keys and values and the order of their axes. labels_ holds the axes of product_.
  bool find_operands() {
    const size_t r = rank_;
    Value *a = product_->input(0), *b = product_->input(1);
    if (!has_axes(a, r) || !has_axes(b, r)) return m_.refuse("the product of queries and keys has another number of axes");
    const bool straight = labels_[r - 1] == key_;
    if (!straight && labels_[r - 2] != key_) return m_.refuse("the scores have other axes");
    // The first two labels: batch and head, as the product and the root order them.
    const Type* probabilities = (on_left_ ? left_ : right_)->type();
    const int first = probabilities->dim(0).is(1) ? kOne : 0, second = probabilities->dim(1).is(1) ? kOne : 1;
    f_.v_swapped = !(labels_[0] == first && (r == 3 || labels_[1] == second));
    if (f_.v_swapped && !(r == 4 && labels_[0] == second && labels_[1] == first))
      return m_.refuse("the scores have other axes");
    for (size_t i = 0; i + 2 < r; ++i) {  // no broadcasting
      if (!(a->type()->dim(i) == b->type()->dim(i)) || !(left_->type()->dim(i) == right_->type()->dim(i)))
        return m_.refuse("a product broadcasts its batch");
    }
    f_.q = straight ? a : b;
    f_.k = straight ? b : a;
    f_.q_transposed = !straight;
    f_.k_transposed = straight;
    f_.v = on_left_ ? right_ : left_;
    f_.v_transposed = !on_left_;
    f_.y_transposed = !on_left_;
    f_.target = {labels_[0], r == 4 ? labels_[1] : kOne, query_, key_};
    return true;
  }

  const Match& m_;
  Graph* const graph_ = m_.root().graph();
  Value *const left_, *const right_;  // operands of the root
  size_t rank_ = 0;                   // rank of both
  Found f_{};
  Node *softmax_ = nullptr, *product_ = nullptr;
  bool on_left_ = false;     // left_ holds the probabilities
  int query_ = 0, key_ = 0;  // labels of these axes
  Labels labels_;            // axes of the current value
};

std::optional<Found> find(const Match& m) { return Finder(m).run(); }

Value* transposed(Rewriter& b, Value* v, bool last, bool first) {
  if (!last && !first) return v;
  std::vector<int64_t> perm{0, 1, 2, 3};
  perm.resize(v->type()->rank());
  if (last) std::swap(perm[perm.size() - 2], perm.back());
  if (first) std::swap(perm[0], perm[1]);
  return b.Transpose(v, {.perm = perm});
}

// The mask with its axes at [batch, head, query, key], broadcasting over axes that it lacks.
Value* placed(Rewriter& b, Value* mask, const Found& f) {
  std::vector<int64_t> drop, add;
  std::vector<int> left;
  const size_t rank = f.mask_labels.size();
  // Drops leading axes beyond four, or all axes of size one if the others are not in place.
  bool fits = rank <= 4;
  for (size_t i = 0; fits && i < rank; ++i) fits = f.mask_labels[i] == kOne || f.mask_labels[i] == f.target[4 - rank + i];
  if (fits) return mask;
  for (size_t i = 0; i < rank; ++i) {
    if (f.mask_labels[i] == kOne)
      drop.push_back(static_cast<int64_t>(i));
    else
      left.push_back(f.mask_labels[i]);
  }
  size_t next = 0;
  for (size_t i = 0; i < 4; ++i) {
    if (left[next] == f.target[i])  // both end with the keys
      ++next;
    else
      add.push_back(static_cast<int64_t>(i));
  }
  if (!drop.empty()) mask = b.squeeze(mask, drop);
  return add.empty() ? mask : b.unsqueeze(mask, add);
}

Value* build(Rewriter& b, const Match& m) {
  const auto found = find(m);
  if (!found) return nullptr;
  const Found& f = *found;
  Value *q = transposed(b, f.q, f.q_transposed, false), *mask = nullptr;
  if (f.mask.value != nullptr && !f.causal)
    mask = with_queries(b, f.mask.added(b, [&](Value* v) { return placed(b, v, f); }), q);
  onnx_attrs::Attention attrs;
  attrs.is_causal = f.causal;
  attrs.scale = f.scale;
  if (!f.heads) attrs.q_num_heads = attrs.kv_num_heads = 1;
  Value* y = b.Attention(q, transposed(b, f.k, f.k_transposed, false), transposed(b, f.v, f.v_transposed, f.v_swapped), mask,
                         nullptr, nullptr, nullptr, attrs);
  if (!pays_when_fused(*y->def())) return nullptr;
  if (!f.causal) y = f.mask.guard(b, y);
  return transposed(b, y, f.y_transposed, f.v_swapped);
}

bool is_attention(const Match& m) { return find(m).has_value(); }

// --- nodes around the operator

constexpr Var q{"q"}, k{"k"}, v{"v"}, node{"node"}, mask{"mask"}, x{"x"}, bias{"bias"};

bool only_first_result(const Node& n) {
  for (size_t i = 1; i < n.num_results(); ++i) {
    if (n.result(i)->has_uses()) return false;
  }
  return true;
}

// Attention(q, k, v, Where(causal, 0, -inf))  =>  Attention<is_causal>(q, k, v)
bool masks_causes(const Match& m) {
  const Node& n = m.root();
  if (m[mask] == nullptr || int_attr(n, "is_causal") != 0) return false;
  // Both axes of the mask must be those of the scores, without broadcasting or a head axis.
  const Value *causes = causes_of(m[mask], m.context()), *queries = m[q], *keys = m[k];
  if (causes == nullptr || !queries->ranked() || !keys->ranked()) return false;
  const Type *t = causes->type(), *of_queries = queries->type(), *of_keys = keys->type();
  const Dim positions = t->dims().back();
  return positions == of_queries->dim(of_queries->rank() == 3 ? 1 : 2) &&
         positions == of_keys->dim(of_keys->rank() == 3 ? 1 : 2);
}
Value* without_mask(Rewriter& b, const Match& m) {
  return b.op("Attention", {m[q], m[k], m[v]}, attrs_with(m.root(), {attr("is_causal", 1)}));
}

// A value scaled by a constant, perhaps before a view: the queries or keys without the factor, and the
// factor.
struct ScaledView {
  Value* value;
  Node* view;
  double by;
};
std::optional<ScaledView> scaled_below(Value* from, PassContext& c) {
  Node* n = from->def();
  Node* view = nullptr;
  if (n != nullptr && is_view(*n) && from->has_one_use()) {
    view = n;
    from = n->input(0);
    n = from->def();
  }
  const auto s = n != nullptr && from->has_one_use() ? scaled(*n, c) : std::nullopt;
  return s ? std::optional(ScaledView{s->value, view, s->by}) : std::nullopt;
}
bool has_factor(const Match& m) {
  return float_attr(m.root(), "scale").has_value() && m.root().attr("scale") != nullptr &&
         int_attr(m.root(), "qk_matmul_output_mode") == 0 && float_attr(m.root(), "softcap") == 0.0 &&
         (scaled_below(m[q], m.context()) || scaled_below(m[k], m.context()));
}
Value* with_factor(Rewriter& b, const Match& m) {
  const Node& n = m.root();
  double scale = *float_attr(n, "scale");
  std::vector<Value*> operands = operands_of(n);
  for (size_t i : {size_t{0}, size_t{1}}) {
    const auto s = scaled_below(operands[i], m.context());
    if (!s) continue;
    scale *= s->by;
    operands[i] = s->value;
    if (s->view != nullptr) operands[i] = b.like(*s->view, *s->view->input(0), *s->value);
  }
  if (!can_be_scale(scale, m[q]->dtype())) return nullptr;
  return b.op("Attention", operands, attrs_with(n, {attr("scale", static_cast<double>(static_cast<float>(scale)))}));
}

// The number of heads if the reshape is [B,T,H*D] => [B,T,H,D]; nullopt for other reshapes.
std::optional<int64_t> heads_of(const Match& m, const Value* split, const Value* joined) {
  if (!split->ranked() || !joined->ranked() || split->type()->rank() != 4 || joined->type()->rank() != 3) return std::nullopt;
  const Type *s = split->type(), *j = joined->type();
  if (!(s->dim(0) == j->dim(0)) || !(s->dim(1) == j->dim(1)) || !s->dim(2).is_int()) return std::nullopt;
  if (!(j->dim(2) == m.dims().mul(s->dim(2), s->dim(3)))) return std::nullopt;
  return s->dim(2).value();
}

constexpr Var q4{"q4"}, k4{"k4"}, v4{"v4"}, y4{"y4"};
bool is_three_axes(const Match& m) {
  const Node& n = m.node(node);
  if (!only_first_result(n)) return false;
  const auto hq = heads_of(m, m[q4], m[q]), hk = heads_of(m, m[k4], m[k]), hv = heads_of(m, m[v4], m[v]);
  return hq && hk && hv && *hk == *hv;  // the result's type implies that the heads are joined again
}
Value* three_axes(Rewriter& b, const Match& m) {
  const Node& n = m.node(node);
  std::vector<Value*> operands{m[q], m[k], m[v]};
  for (size_t i = 3; i < n.num_inputs(); ++i) operands.push_back(n.input(i));
  return b.op("Attention", operands,
              attrs_with(n, {attr("kv_num_heads", *heads_of(m, m[k4], m[k])), attr("q_num_heads", *heads_of(m, m[q4], m[q]))}));
}

// The heads before they are repeated for queries that share one: [B,K,S,D] for [B,K*n,S,D].
Value* shared_heads(Value* repeated, const Graph* graph) {
  const Node* joins = made_by(repeated, graph, "Reshape");
  const Node* expand = joins != nullptr ? made_by(joins->input(0), graph, "Expand") : nullptr;
  const Node* adds = expand != nullptr ? made_by(expand->input(0), graph, "Unsqueeze") : nullptr;
  if (adds == nullptr && expand != nullptr) adds = made_by(expand->input(0), graph, "Reshape");
  if (adds == nullptr) return nullptr;
  Value* heads = adds->input(0);
  const Value *split = expand->input(0), *copies = expand->result();
  if (!has_axes(heads, 4) || !has_axes(copies, 5)) return nullptr;
  const auto is = [](const Value* v, std::initializer_list<Dim> dims) {
    return v->ranked() && std::ranges::equal(v->type()->dims(), dims);
  };
  const auto d = heads->type()->dims();
  const Dim n = copies->type()->dim(2), one = Dim::of(1);
  const Dim all = graph->model().dims().mul(d[1], n);
  return is(split, {d[0], d[1], one, d[2], d[3]}) && is(repeated, {d[0], all, d[2], d[3]}) ? heads : nullptr;
}
bool repeats_heads(const Match& m) {
  const Graph* graph = m.root().graph();
  const Value *keys = shared_heads(m[k], graph), *values = shared_heads(m[v], graph);
  return keys != nullptr && values != nullptr && has_axes(m[q], 4) && keys->type()->dim(1) == values->type()->dim(1) &&
         m.root().input(4) == nullptr;
}
Value* grouped(Rewriter& b, const Match& m) {
  const Node& n = m.root();
  const Graph* graph = n.graph();
  std::vector<Value*> operands{m[q], shared_heads(m[k], graph), shared_heads(m[v], graph)};
  for (size_t i = 3; i < n.num_inputs(); ++i) operands.push_back(n.input(i));
  Value* y = b.like(n, operands);
  return pays_when_fused(*y->def()) ? y : nullptr;
}

// Add(Reshape(x: [B,T,H*D]), bias: [H,D])  =>  Reshape(Add(x, bias: [H*D])): moves the product's bias before
// the split into heads.
bool splits_before_bias(const Match& m) {
  const Value* split = m[y4];
  const auto heads = heads_of(m, split, m[x]);
  const Node* product = m[x]->def();
  if (!heads || product == nullptr || !product->is("MatMul") || !m[x]->has_one_use()) return false;
  const Type* t = m.type(bias);
  if (t == nullptr || !t->is_static() || t->rank() > 4 || t->rank() < 2) return false;
  for (size_t i = 0; i + 2 < t->rank(); ++i) {
    if (!t->dim(i).is(1)) return false;
  }
  return t->dim(t->rank() - 2) == split->type()->dim(2) && t->dim(t->rank() - 1) == split->type()->dim(3);
}
Value* bias_before_split(Rewriter& b, const Match& m) {
  Value* sum = b.Add(m[x], with_shape(b, *m[bias], {m[bias]->constant()->size()}));
  return b.like(*m[y4]->def(), *m[x], *sum);
}

}  // namespace

Pass fuse_attention() {
  const auto heads = [](const Pattern& joined, Var split) {
    return Transpose(Reshape(joined, any).as(split)).attr("perm", Attr::Ints{0, 2, 1, 3});
  };
  std::vector<Rule> rules;
  rules.push_back(mask_that_repeats());
  rules.push_back({.name = "four_axes",
                   .numerics = Numerics::kRounds,
                   .match = MatMul(any, any),
                   .when = is_attention,
                   .build = build,
                   .opset = 23});
  rules.push_back(attention_of_groups());
  rules.push_back({.name = "causal",
                   .numerics = Numerics::kRounds,
                   .match = Attention(q, k, v, mask),
                   .when = masks_causes,
                   .build = without_mask,
                   .opset = 23});
  rules.push_back({.name = "factor",
                   .numerics = Numerics::kRounds,
                   .match = Attention(q, k, v, rest),
                   .when = has_factor,
                   .build = with_factor,
                   .opset = 23});
  rules.push_back({.name = "grouped", .match = Attention(q, k, v, rest), .when = repeats_heads, .build = grouped, .opset = 23});
  rules.push_back({.name = "three_axes",
                   .numerics = Numerics::kRounds,
                   .match = Reshape(sole(Transpose(sole(Attention(heads(q, q4), heads(k, k4), heads(v, v4), rest).as(node)))
                                             .attr("perm", Attr::Ints{0, 2, 1, 3})
                                             .as(y4)),
                                    any),
                   .when = is_three_axes,
                   .build = three_axes,
                   .opset = 23});
  rules.push_back({.name = "bias_before_heads",
                   .match = Add(sole(Reshape(x, any).as(y4)), constant.as(bias)),
                   .when = splits_before_bias,
                   .build = bias_before_split});
  return rules;
}

}  // namespace sardonyx::onnx
