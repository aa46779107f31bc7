//   x ── MatMul(W) ── Add(b) ── Reshape ─┬─ Gather(0) ── Transpose ── Mul(0.125) ── q
//                                        └─ Gather(1) ── k
//     =>   the same with W' and b', and no Mul
//   MatMul(q, k) ── Div(8) ── scores     =>   MatMul(q', k) ── scores
//
// Folds a number that multiplies some columns of a product with constant weights into these columns, wherever
// views and cuts have moved them. The scale of attention queries is one. Also folds a number behind a product
// of two such values. Runs after fuse_attention, because Attention takes a scale itself. Large weights are
// deferred.
//
// What stops it: weights with other users, or not constant; other users of the columns in between; a cut
// across heads and rows at once.
// Rounds: weights are rounded once more, and the arithmetic on activations disappears.
#include <algorithm>
#include <cmath>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/fuse/per_channel.h"
#include "passes/onnx/shapes/shape_target.h"
#include "passes/onnx/simplify/slices.h"

namespace sardonyx::onnx {
namespace {

constexpr size_t kMaxSteps = 16, kMaxReaders = 64;

// An axis of a value that is made by cutting and transposing the columns of a product.
struct Axis {
  int64_t stride = 0;  // from one column to the next; 0 if the axis holds rows
  int64_t size{};      // in columns
};

struct Step {
  Node* node;
  uint32_t result;  // which one the next step uses
};

bool is_cut(const Node& n) { return n.is("Gather") || n.is("Slice") || n.is("Split"); }

// The path from a product with constant weights to a value.
struct Way {
  Node* product = nullptr;
  Node* bias = nullptr;  // an Add in between; bias_slot is its constant operand
  size_t bias_slot{};
  std::vector<Step> steps;  // starting at the product
};

bool has_weights(const Node& n) {
  if (!(n.is("MatMul") || n.is("Gemm"))) return false;
  const Value* w = n.input(1);
  return w != nullptr && w->is_constant() && w->constant()->rank() == 2 && n.result()->ranked() &&
         n.result()->type()->rank() >= 2;
}

std::optional<Way> way_to(Value* v, const Graph* g) {
  Way way;
  for (size_t i = 0; i < kMaxSteps; ++i) {
    Node* n = v->def();
    if (n == nullptr || n->graph() != g || n->unchecked()) return std::nullopt;
    if (has_weights(*n)) {
      way.product = n;
      std::reverse(way.steps.begin(), way.steps.end());
      return way;
    }
    if (n->is("Add") && way.bias == nullptr) {
      const size_t slot = n->input(0)->is_constant() ? 0 : 1;
      Value* product = n->input(1 - slot);
      if (!product->has_one_use()) return std::nullopt;
      way.bias = n;
      way.bias_slot = slot;
      v = product;
      continue;
    }
    if (way.bias != nullptr || n->input(0) == nullptr || !(is_view(*n) || is_cut(*n) || n->is("Flatten") || n->is("Expand")))
      return std::nullopt;
    way.steps.push_back({n, v->index()});
    v = n->input(0);
  }
  return std::nullopt;
}

// The columns of the product that a value holds.
class Columns {
 public:
  Columns(size_t rank, int64_t count, PassContext& context) : context_(context), axes_(rank), count_(count) {
    axes_.back() = {1, count};
  }

  bool follow(const Step& s) {
    const Node& n = *s.node;
    if (n.is("Transpose")) return transpose(n);
    if (n.is("Squeeze") || n.is("Unsqueeze")) return units(n);
    if (n.is("Reshape") || n.is("Flatten")) return reshape(n);
    if (n.is("Gather")) return gather(n);
    if (n.is("Slice")) return slice(n);
    return split(n, s.result);  // an Expand has no axis
  }

  // Whether two users of the value take different columns: each cuts one piece out of an axis of columns.
  bool apart(const Node& a, const Node& b) const {
    for (size_t axis = 0; axis < axes_.size(); ++axis) {
      if (axes_[axis].stride == 0) continue;
      const auto p = taken(a, axis), q = taken(b, axis);
      if (p && q && (p->first + p->count <= q->first || q->first + q->count <= p->first)) return true;
    }
    return false;
  }

  // One factor per column of the product: `by` for columns that the value holds, else 1.
  Channels factors(double by) const {
    Channels all(static_cast<size_t>(count_), 1.0);
    std::vector<int64_t> at{offset_};
    for (const Axis& a : axes_) {
      if (a.stride == 0) continue;
      std::vector<int64_t> next;
      for (int64_t base : at) {
        for (int64_t k = 0; k < a.size; ++k) next.push_back(base + k * a.stride);
      }
      at = std::move(next);
    }
    for (int64_t column : at) all[static_cast<size_t>(column)] = by;
    return all;
  }

 private:
  // The piece of a column axis that a Gather of one index or a Slice with step 1 takes; nullopt for other
  // cuts.
  std::optional<Piece> taken(const Node& n, size_t axis) const {
    if (n.is("Gather")) {
      const auto at = read::OpReader(n).axis_in("axis", axes_.size());
      const auto index = at == axis && n.input(1)->is_constant() ? context_.ints(n.input(1)) : std::nullopt;
      if (!index || index->size() != 1) return std::nullopt;
      return Piece{.first = index->front() < 0 ? index->front() + axes_[axis].size : index->front(), .count = 1};
    }
    const auto b = n.is("Slice") ? bounds_of(n, context_) : std::nullopt;
    if (!b) return std::nullopt;
    for (size_t i = 0; i < b->axes.size(); ++i) {
      if (b->axes[i] == static_cast<int64_t>(axis) && b->steps[i] == 1)
        return piece_of(b->starts[i], b->ends[i], 1, axes_[axis].size);
    }
    return std::nullopt;
  }

  bool transpose(const Node& n) {
    const auto perm = read::Transpose(n).perm();
    if (!perm || perm->size() != axes_.size()) return false;
    std::vector<Axis> now;
    for (int64_t axis : *perm) now.push_back(axes_[static_cast<size_t>(axis)]);
    axes_ = std::move(now);
    return true;
  }

  bool units(const Node& n) {
    if (!n.result()->ranked()) return false;
    const bool adds = n.is("Unsqueeze");
    const auto which = read::OpReader(n, context_.facts).given_axes(adds ? n.result()->type()->rank() : axes_.size());
    if (!which) return false;
    if (adds) {
      for (int64_t a : *which) axes_.insert(axes_.begin() + a, Axis{});
    } else {
      for (size_t i = which->size(); i-- > 0;) axes_.erase(axes_.begin() + (*which)[i]);
    }
    return true;
  }

  // Requires that the columns are the last axes, in order; splits them anew.
  bool reshape(const Node& n) {
    if (!n.result()->ranked()) return false;
    const auto sizes = n.result()->type()->dims();
    int64_t held = 1, step = 0;
    size_t i = axes_.size();
    for (; i > 0 && axes_[i - 1].stride != 0; --i) {
      const Axis& a = axes_[i - 1];
      if (step == 0) step = a.stride;
      if (a.stride != step * held) return false;
      held *= a.size;
    }
    if (std::any_of(axes_.begin(), axes_.begin() + static_cast<ptrdiff_t>(i), [](Axis a) { return a.stride != 0; }))
      return false;
    std::vector<Axis> now(sizes.size());
    int64_t left = held;
    for (size_t k = sizes.size(); left > 1; --k) {
      if (k == 0 || !sizes[k - 1].is_int() || sizes[k - 1].value() < 1 || left % sizes[k - 1].value() != 0) return false;
      now[k - 1] = {step * (held / left), sizes[k - 1].value()};
      left /= sizes[k - 1].value();
    }
    axes_ = std::move(now);
    return true;
  }

  bool gather(const Node& n) {
    const auto at = read::OpReader(n).axis_in("axis", axes_.size());
    if (!at || !n.input(1)->ranked()) return false;
    const size_t ids = n.input(1)->type()->rank();
    if (axes_[*at].stride != 0) {
      const auto p = taken(n, *at);
      if (!p || p->first < 0 || p->first >= axes_[*at].size) return false;
      offset_ += p->first * axes_[*at].stride;
    }
    axes_.erase(axes_.begin() + static_cast<ptrdiff_t>(*at));
    axes_.insert(axes_.begin() + static_cast<ptrdiff_t>(*at), ids, Axis{});
    return true;
  }

  bool slice(const Node& n) {
    const auto b = bounds_of(n, context_);
    if (!b) return false;
    for (size_t i = 0; i < b->axes.size(); ++i) {
      Axis& a = axes_[static_cast<size_t>(b->axes[i])];
      if (a.stride == 0) continue;
      if (b->steps[i] != 1) return false;
      const Piece p = piece_of(b->starts[i], b->ends[i], 1, a.size);
      if (p.count == 0) return false;
      offset_ += p.first * a.stride;
      a.size = p.count;
    }
    return true;
  }

  bool split(const Node& n, uint32_t result) {
    const auto at = read::OpReader(n).axis_in("axis", axes_.size());
    if (!at) return false;
    Axis& a = axes_[*at];
    if (a.stride == 0) {  // an axis of rows: scaling would affect the other results too
      return std::all_of(n.results().begin(), n.results().end(),
                         [&](const Value& v) { return v.index() == result || !v.has_uses(); });
    }
    int64_t first = 0;
    for (uint32_t i = 0;; ++i) {
      const Value* v = n.result(i);
      if (!v->ranked() || !v->type()->dim(*at).is_int()) return false;
      const int64_t size = v->type()->dim(*at).value();
      if (i == result) {
        offset_ += first * a.stride;
        a.size = size;
        return size > 0;
      }
      first += size;
    }
  }

  PassContext& context_;
  std::vector<Axis> axes_;
  int64_t count_, offset_ = 0;
};

bool is_transposed(const Node& product) { return product.is("Gemm") && read::Gemm(product).transB().value_or(false); }

int64_t columns_of(const Node& product) { return product.input(1)->constant()->shape()[is_transposed(product) ? 0 : 1]; }

bool is_per_column(const Value* v, const Node& product) {
  const Value* y = product.result();
  const size_t rank = y->type()->rank();
  return v->is_constant() && is_per_channel(v->type(), rank, rank - 1, columns_of(product));
}

// The factors per column if v consists of whole columns; nullopt if the number cannot be folded there.
std::optional<Channels> reached(const Way& way, double by, PassContext& context) {
  const Node& p = *way.product;
  if (!p.input(1)->has_one_use() || columns_of(p) < 1 || (p.is("Gemm") && !read::Gemm(p).transB())) return std::nullopt;
  if (p.input(2) != nullptr && !is_per_column(p.input(2), p)) return std::nullopt;
  if (way.bias != nullptr && !is_per_column(way.bias->input(way.bias_slot), p)) return std::nullopt;
  if (way.bias != nullptr && !Types::equal(way.bias->result()->type(), p.result()->type())) return std::nullopt;
  // Follows the columns up to the last cut. Steps after it have one use each and keep all elements.
  size_t last = way.steps.size();
  while (last > 0 && !is_cut(*way.steps[last - 1].node) && way.steps[last - 1].node->input(0)->has_one_use()) --last;
  Columns columns(p.result()->type()->rank(), columns_of(p), context);
  for (size_t i = 0; i < last; ++i) {
    const Step& s = way.steps[i];
    size_t readers = 0;
    for (const Use& u : s.node->input(0)->uses()) {
      if (&u == s.node->operands().data()) continue;
      if (++readers > kMaxReaders || !columns.apart(*s.node, *u.owner)) return std::nullopt;
    }
    if (!columns.follow(s)) return std::nullopt;
  }
  return columns.factors(by);
}

void scale(const Way& way, const Channels& factors, bool divide, PassContext& context) {
  Node& p = *way.product;
  Rewriter b(*p.graph(), context);
  b.set_insertion_point(&p);
  Value* w = p.input(1);
  const TensorPtr& t = w->constant();
  const bool transposed = is_transposed(p);
  const int64_t count = columns_of(p);
  const ChannelRows layout{transposed ? count : t->size(), count, t->size()};  // one group
  const auto per_column = [&](const Value* old) {
    Channels values = numbers(*old->constant(), count);
    for (size_t i = 0; i < values.size(); ++i) values[i] = divide ? values[i] / factors[i] : values[i] * factors[i];
    return channel_constant(b, p.result()->dtype(), values, {});
  };
  p.set_input(1, b.constant(scaled(t, layout, factors, divide), w->name().view()));
  if (p.input(2) != nullptr) p.set_input(2, per_column(p.input(2)));
  if (way.bias != nullptr) way.bias->set_input(way.bias_slot, per_column(way.bias->input(way.bias_slot)));
}

// A number by which a node multiplies or divides its other operand.
struct Factor {
  Value* v;
  double by;
  bool divide;
};
std::optional<Factor> factor_of(const Node& n, PassContext& context) {
  if (n.unchecked() || !(n.is("Mul") || n.is("Div"))) return std::nullopt;
  for (size_t slot : {size_t{1}, size_t{0}}) {
    if (slot == 0 && n.is("Div")) break;
    const Value* c = n.input(slot);
    Value* v = n.input(1 - slot);
    if (!is_float(v->dtype())) continue;
    const auto by = context.splat(c);
    if (!by || !v->has_one_use() || !v->ranked() || !Types::equal(v->type(), n.result()->type())) continue;
    return Factor{v, *by, n.is("Div")};
  }
  return std::nullopt;
}

bool absorb(Node& n, PassContext& context) {
  const auto f = factor_of(n, context);
  if (!f || !can_scale({f->by}, f->divide, f->v->dtype())) return false;
  std::vector<Value*> from{f->v};
  const Node* made = f->v->def();
  if (made != nullptr && made->is("MatMul") && !made->unchecked() && !has_weights(*made)) {
    from.clear();
    for (const Use& u : made->operands()) {
      if (u.value != nullptr && u.value->has_one_use()) from.push_back(u.value);
    }
  }
  for (Value* v : from) {
    const auto way = way_to(v, n.graph());
    if (!way) continue;
    const auto factors = reached(*way, f->by, context);
    if (!factors) {
      context.log.near_miss(n, "the columns or the weights have other users, or the columns cannot be followed");
      continue;
    }
    scale(*way, *factors, f->divide, context);
    n.graph()->replace_uses(*n.result(), *f->v);
    n.graph()->erase(n);
    context.log.count("scales");
    return true;
  }
  return false;
}

}  // namespace

Pass fuse_scale_into_columns() {
  return Pass::on_graph(Numerics::kRounds, needs({"MatMul", "Gemm"}).and_one_of({"Mul", "Div"}),
                        [](Graph& top, PassContext& context) {
                          bool changed = false;
                          for (Graph* g : graphs_in(top)) {
                            for (Node& n : g->nodes()) changed |= absorb(n, context);
                          }
                          return changed;
                        });
}

}  // namespace sardonyx::onnx
