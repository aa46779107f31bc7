// Fuses attention with groups of queries that share a key head, as jax.nn.dot_product_attention writes it:
//
//   q: [B,T,K*G,D] ── [B,K,T*G,D] ── MatMul(k) ── [B,K,T,G,S] ── Mul(scale) ── Where(mask) ── Softmax
//     ── [B,K,S,G*T] ── MatMul(v) ── y
//
// Each axis is a list of labels: the axes of Softmax's operand that it joins. A reshape regroups the flat
// list. Queries become [B,K*G,T,D], for which Attention takes keys of K heads as they are. A rule of
// fuse_attention; its header lists what stops it.
#include <algorithm>

#include "dialects/onnx/runtimes/runtimes.h"
#include "passes/onnx/fuse/attention.h"
#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/layout/elementwise_region.h"
#include "passes/onnx/shapes/shape_target.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr int kSteps = 32;

// The labels joined in each axis of a value; none for axes of size 1.
using Axes = std::vector<std::vector<int>>;
enum : int { kBatch, kQueries, kKeys };

struct Groups {
  Value *q, *k, *v;
  bool q_transposed, k_transposed, v_transposed;  // whether the last two axes are swapped
  bool group_first;                               // in the rows of q
  bool y_group_first, y_transposed;               // in the rows of the root; whether these are its last axis
  Dim batch, heads, group, queries, keys;
  double scale = 1;
  AttentionMask mask;
  std::vector<int> mask_labels;  // one per axis of the mask: kBatch, kQueries, kKeys, or kOne
};

class Finder {
 public:
  explicit Finder(const Match& m) : m_(m), c_(m.context()), graph_(m.root().graph()) {}

  std::optional<Groups> find() {
    Value *left = m_.root().input(0), *right = m_.root().input(1);
    if (!has_four(left) || !has_four(right)) return std::nullopt;
    auto found = from(left, right, true);
    return found ? found : from(right, left, false);
  }

 private:
  static bool has_four(const Value* v) { return v->ranked() && v->type()->rank() == 4; }

  // Regroups the flat list of labels into the axes of another shape.
  std::optional<Axes> regroup(const Axes& from, const Type* to) {
    if (to == nullptr || !to->ranked()) return std::nullopt;
    std::vector<int> flat;
    for (const auto& axis : from) flat.insert(flat.end(), axis.begin(), axis.end());
    Axes out(to->rank());
    size_t next = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const Dim d = to->dim(i);
      Dim product = Dim::of(1);
      while (!(product == d)) {
        if (next == flat.size()) return std::nullopt;
        product = m_.dims().mul(product, sizes_[static_cast<size_t>(flat[next])]);
        out[i].push_back(flat[next++]);
      }
    }
    return next == flat.size() ? std::optional(out) : std::nullopt;
  }

  std::optional<Axes> below(const Node& view, const Axes& above) {
    if (!view.is("Transpose")) return regroup(above, view.result()->type());
    const auto perm = read::Transpose(view).perm();
    if (!perm) return std::nullopt;
    Axes out(above.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = above[static_cast<size_t>((*perm)[i])];
    return out;
  }
  std::optional<Axes> above(const Node& view, const Axes& under) {
    if (!view.is("Transpose")) return regroup(under, view.input(0)->type());
    const auto perm = read::Transpose(view).perm();
    if (!perm) return std::nullopt;
    Axes out(under.size());
    for (size_t i = 0; i < out.size(); ++i) out[static_cast<size_t>((*perm)[i])] = under[i];
    return out;
  }

  Node* view_of(const Value* v) const {
    Node* n = v->def();
    return n != nullptr && is_view(*n) && !n->unchecked() && v->has_one_use() ? n : nullptr;
  }

  std::optional<Groups> from(Value* p, Value* values, bool on_left) {
    std::vector<Node*> views;
    Value* at = p;
    for (Node* n = view_of(at); n != nullptr && views.size() < kSteps; n = view_of(at)) {
      views.push_back(n);
      at = n->input(0);
    }
    Node* softmax = softmax_of(at, graph_, c_);
    if (softmax == nullptr || !at->ranked() || !has_kernel(m_)) return std::nullopt;
    const Type* t = at->type();
    sizes_.assign(t->dims().begin(), t->dims().end());
    Axes labels(t->rank());
    for (size_t i = 0; i < labels.size(); ++i) {
      if (!t->dim(i).is(1)) labels[i] = {static_cast<int>(i)};
    }
    const auto axis = read::OpReader(*softmax).axis_in("axis", labels.size());
    if (!axis) return std::nullopt;
    const auto keys = labels[*axis];
    if (keys.empty()) return std::nullopt;

    Axes end = labels;
    for (auto n = views.rbegin(); n != views.rend(); ++n) {
      const auto next = below(**n, end);
      if (!next) return std::nullopt;
      end = *next;
    }
    Groups g{};
    g.mask.guarded = at != softmax->result();
    Value* scores = softmax->input(0);
    Node* product = climb_to_product(g, scores, labels);
    if (product == nullptr || !has_four(product->input(0)) || !has_four(product->input(1))) return std::nullopt;

    // The axes must be [batch], [heads], keys, and the rows, which join queries and groups in the same order
    // as q does.
    const auto& rows = end[on_left ? 2 : 3];
    if (end[on_left ? 3 : 2] != keys || rows.size() != 2) return std::nullopt;
    const bool straight = labels[3] == keys;
    const auto& q_rows = labels[straight ? 2 : 3];
    if (labels[straight ? 3 : 2] != keys || labels[0] != end[0] || labels[1] != end[1]) return std::nullopt;
    Value *a = product->input(0), *b = product->input(1);
    for (size_t i : {size_t{0}, size_t{1}}) {  // no broadcasting
      if (!(a->type()->dim(i) == b->type()->dim(i)) || !(p->type()->dim(i) == values->type()->dim(i)))
        return m_.refuse("a product broadcasts its batch"), std::nullopt;
    }
    // The groups are the label of known size that the mask does not have. If both qualify, they are the last
    // one in q.
    const auto in_mask = [&](int label) {
      return std::find(mask_labels_.begin(), mask_labels_.end(), label) != mask_labels_.end();
    };
    const auto known = [&](int label) { return sizes_[static_cast<size_t>(label)].is_int(); };
    int group = q_rows[1], query = q_rows[0];
    if (!known(group) || in_mask(group)) std::swap(group, query);
    g.q = straight ? a : b;
    g.k = straight ? b : a;
    g.v = values;
    g.q_transposed = !straight;
    g.k_transposed = straight;
    g.v_transposed = !on_left;
    g.y_transposed = !on_left;
    g.group_first = q_rows[0] == group;
    g.y_group_first = rows[0] == group;
    g.batch = a->type()->dim(0);
    g.heads = a->type()->dim(1);
    g.group = sizes_[static_cast<size_t>(group)];
    g.queries = sizes_[static_cast<size_t>(query)];
    g.keys = sizes_[static_cast<size_t>(keys[0])];
    if (g.mask.value != nullptr && (!place_mask(g, {labels[0], {query}, keys}) || !keeps_blind_rows(m_, g.mask)))
      return std::nullopt;
    return g;
  }

  // Climbs from Softmax through scale, mask and views. Sets `labels` to those of the product's result.
  Node* climb_to_product(Groups& g, Value* scores, Axes& labels) {
    for (int i = 0; i < kSteps; ++i) {
      if (Node* n = view_of(scores)) {
        const auto next = above(*n, labels);
        if (!next) return nullptr;
        labels = *next;
        scores = n->input(0);
        continue;
      }
      if (Node* n = made_by(scores, graph_, "MatMul")) {
        return can_be_scale(g.scale, n->result()->dtype()) ? n : nullptr;
      }
      Node* n = made_by(scores, graph_, "Mul");
      if (n == nullptr) n = made_by(scores, graph_, "Div");
      if (n != nullptr) {
        const auto product = scaled(*n, c_);
        if (!product) return nullptr;
        g.scale *= product->by;
        scores = product->value;
        continue;
      }
      Node* where = made_by(scores, graph_, "Where");
      n = where != nullptr ? where : made_by(scores, graph_, "Add");
      if (n == nullptr || g.mask.value != nullptr || g.scale != 1) return nullptr;
      const size_t side = comes_from_product(n->input(1), graph_) ? 1 : 0;
      if (!same_shape(n->input(side), scores)) return nullptr;
      if (where != nullptr) g.mask.fill = vanishing_fill(*where, c_);
      if (where != nullptr && !g.mask.fill) return nullptr;
      const Value* mask = g.mask.value = where != nullptr ? bare_mask(where->input(0), c_) : n->input(1 - side);
      if (!meets_axes(m_, mask, scores)) return nullptr;
      mask_axes_.assign(labels.end() - static_cast<ptrdiff_t>(mask->type()->rank()), labels.end());
      for (size_t k = 0; k < mask_axes_.size(); ++k) {
        if (mask->type()->dim(k).is(1)) mask_axes_[k].clear();
        mask_labels_.insert(mask_labels_.end(), mask_axes_[k].begin(), mask_axes_[k].end());
      }
      scores = n->input(side);
    }
    return nullptr;
  }

  // Whether the mask's axes have the order batch, queries, keys (`wanted`). It must have keys, but neither
  // heads nor groups.
  bool place_mask(Groups& g, const Axes& wanted) {
    int last = -1;
    for (const auto& axis : mask_axes_) {
      if (axis.empty()) {
        g.mask_labels.push_back(kOne);
        continue;
      }
      const auto at = static_cast<int>(std::find(wanted.begin(), wanted.end(), axis) - wanted.begin());
      if (at <= last) return m_.refuse("the axes of the mask are in another order");
      g.mask_labels.push_back(last = at);
    }
    return last == kKeys || m_.refuse("the mask differs between heads or groups, or has no key axis");
  }

  const Match& m_;
  PassContext& c_;
  Graph* graph_;
  std::vector<Dim> sizes_;  // of the labels
  Axes mask_axes_;
  std::vector<int> mask_labels_;  // labels of the mask
};

Value* transposed(Rewriter& b, Value* v, bool last) { return last ? b.Transpose(v, {.perm = {0, 1, 3, 2}}) : v; }

Value* reshaped_to(Rewriter& b, Value* v, const std::vector<Dim>& dims) {
  if (v == nullptr || !v->ranked()) return nullptr;
  const Type* t = b.graph().model().types().with_dims(v->type(), dims);
  const auto target = constant_target(*v, *t, b.graph().model().dims());
  if (!target) return nullptr;
  Value* made = b.Reshape(v, b.i64s(*target));
  return Types::equal(made->type(), t) ? made : nullptr;
}

Value* placed(Rewriter& b, Value* mask, const Groups& g) {
  std::vector<int64_t> drop, add;
  bool has_batch = false, has_queries = false;
  for (size_t i = 0; i < g.mask_labels.size(); ++i) {
    if (g.mask_labels[i] == kOne) drop.push_back(static_cast<int64_t>(i));
    has_batch |= g.mask_labels[i] == kBatch;
    has_queries |= g.mask_labels[i] == kQueries;
  }
  if (!drop.empty()) mask = b.squeeze(mask, drop);
  if (!has_batch) add.push_back(0);
  add.push_back(1);
  if (!has_queries) add.push_back(2);
  return b.unsqueeze(mask, add);
}

Value* build(Rewriter& b, const Match& m) {
  const auto found = Finder(m).find();
  if (!found) return nullptr;
  const Groups& g = *found;
  Value* q = transposed(b, g.q, g.q_transposed);
  const Dim size = q->type()->dim(3), all = m.dims().mul(g.heads, g.group);
  const std::vector<Dim> rows = g.group_first ? std::vector{g.group, g.queries} : std::vector{g.queries, g.group};
  q = reshaped_to(b, q, {g.batch, g.heads, rows[0], rows[1], size});
  if (q == nullptr) return nullptr;
  if (!g.group_first) q = b.Transpose(q, {.perm = {0, 1, 3, 2, 4}});
  q = reshaped_to(b, q, {g.batch, all, g.queries, size});
  if (q == nullptr) return nullptr;
  onnx_attrs::Attention attrs;
  attrs.scale = g.scale;
  Value* mask = nullptr;
  if (g.mask.value != nullptr) mask = with_queries(b, g.mask.added(b, [&](Value* v) { return placed(b, v, g); }), q);
  Value* y = b.Attention(q, transposed(b, g.k, g.k_transposed), transposed(b, g.v, g.v_transposed), mask, nullptr, nullptr,
                         nullptr, attrs);
  if (!pays_when_fused(*y->def())) return nullptr;
  y = g.mask.guard(b, y);
  y = reshaped_to(b, y, {g.batch, g.heads, g.group, g.queries, y->type()->dim(3)});
  if (y == nullptr) return nullptr;
  std::vector<int64_t> perm = g.y_group_first ? std::vector<int64_t>{0, 1, 2, 3, 4} : std::vector<int64_t>{0, 1, 3, 2, 4};
  if (g.y_transposed) perm = {0, 1, 4, perm[2], perm[3]};
  if (perm != std::vector<int64_t>{0, 1, 2, 3, 4}) y = b.Transpose(y, {.perm = perm});
  const auto out = m.root().result()->type()->dims();
  return reshaped_to(b, y, {out.begin(), out.end()});
}

}  // namespace

Rule attention_of_groups() {
  return {.name = "groups",
          .numerics = Numerics::kRounds,
          .match = MatMul(any, any),
          .when = [](const Match& m) { return Finder(m).find().has_value(); },
          .build = build,
          .opset = 23};
}

}  // namespace sardonyx::onnx
