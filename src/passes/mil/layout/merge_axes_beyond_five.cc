//   x ── reshape f32[3,2,2,4,2,6] ── reduce_mean<axes={2,4}>    =>    x ── reshape f32[6,2,4,2,6] ── reduce_mean<axes={1,3}>
//
// Core ML's tensors have five axes at most. An op on more treats some adjacent axes alike, so it runs between
// reshapes that merge these axes, and consecutive reshapes become one. Ops that still need six axes remain:
// transposes of that many groups, which expand_high_rank_reshape_and_transpose decomposes, and ops that are
// not named here.
// What stops it: sizes of 0; two merged axes of open sizes; operands whose sizes are not known to be the
// result's.
// Exact: no element changes.
#include <algorithm>
#include <numeric>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

constexpr size_t kMost = 5;
using Ints = std::vector<int64_t>;

// Adjacent axes that count as one: the first axis of each group. Axes are numbered as in the result or
// operand that has the most.
struct Groups {
  std::vector<size_t> first;
  size_t rank = 0;

  // `joins(d)`: whether axis d counts as one with axis d - 1.
  template <class Joins>
  static Groups by(size_t rank, const Joins& joins) {
    Groups g{{}, rank};
    for (size_t d = 0; d < rank; ++d) {
      if (d == 0 || !joins(d)) g.first.push_back(d);
    }
    return g;
  }
  // Three groups: the axes before `axis`, `axis` alone, the axes after it.
  static Groups around(size_t rank, size_t axis) {
    return by(rank, [&](size_t d) { return d != axis && d != axis + 1; });
  }
  size_t size() const { return first.size(); }
  size_t end(size_t i) const { return i + 1 < first.size() ? first[i + 1] : rank; }
  size_t of(size_t axis) const { return static_cast<size_t>(std::ranges::upper_bound(first, axis) - first.begin()) - 1; }
};

bool is_high(const Value* v) { return v != nullptr && v->ranked() && v->type()->rank() > kMost; }

// The shape of a reshape to these sizes; nullopt if it needs more than one -1.
std::optional<Ints> shape_of(std::span<const Dim> dims) {
  Ints shape;
  for (Dim d : dims) {
    if (d.is(0)) return std::nullopt;
    shape.push_back(d.is_int() ? d.value() : -1);
  }
  return std::ranges::count(shape, -1) <= 1 ? std::optional(shape) : std::nullopt;
}

// v's sizes merged. Axes that v lacks at its front have size 1, and groups of only such axes are left out.
std::optional<Ints> merged_shape(const Value& v, const Groups& g) {
  const auto dims = v.type()->dims();
  const size_t missing = g.rank - dims.size();
  Ints shape;
  size_t open = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    if (g.end(i) <= missing) continue;
    int64_t all = 1;
    for (size_t d = std::max(g.first[i], missing); d < g.end(i); ++d) {
      const Dim size = dims[d - missing];
      if (size.is(0)) return std::nullopt;
      all = all < 0 || !size.is_int() ? -1 : all * size.value();
    }
    open += all < 0 ? 1 : 0;
    shape.push_back(all);
  }
  return open <= 1 && shape.size() <= kMost ? std::optional(shape) : std::nullopt;
}

class Merger {
 public:
  Merger(Graph& g, PassContext& context) : g_(g), context_(context), b_(g, context) {}

  bool run() {
    bool changed = false;
    for (Node& n : g_.nodes()) {
      if (n.unchecked() || n.num_results() != 1 || !n.bodies().empty()) continue;
      const bool high = is_high(n.result()) || std::ranges::any_of(n.operands(), [](const Use& u) { return is_high(u.value); });
      if (!high || !n.result()->ranked() || !shape_of(n.result()->type()->dims())) continue;
      b_.set_insertion_point(&n);
      b_.set_provenance(n.provenance());
      const Node* before = n.prev();
      if (Value* made = rewritten(n)) {
        put(n, *made);
        changed = true;
      } else {
        while (n.prev() != before) g_.erase(*n.prev());  // operands made before giving up
      }
    }
    for (Node* n = g_.last(); n != nullptr; n = n->prev()) {
      if (!is_high(n->num_results() == 1 ? n->result() : nullptr) || !is_view(*n) || n->any_result_used()) continue;
      g_.erase(*n);
      changed = true;
    }
    return changed;
  }

 private:
  static bool is_view(const Node& n) { return n.is("reshape") || n.is("expand_dims") || n.is("squeeze"); }

  // The value of at most five axes that v is a reshape of; v if there is none.
  static Value* source(Value* v) {
    while (is_high(v) && v->def() != nullptr && is_view(*v->def()) && v->def()->input(0)->ranked()) v = v->def()->input(0);
    return v;
  }

  Value* merged(Value* v, const Groups& g) {
    const auto shape = merged_shape(*v, g);
    if (!shape) return nullptr;
    Value* from = source(v);
    return shape_of(from->type()->dims()) == shape ? from : b_.reshape(from, *shape);
  }

  // Replaces n by `made`, reshaped to n's type.
  void put(Node& n, Value& made) {
    Value& old = *n.result();
    const auto shape = shape_of(old.type()->dims());
    Value* v = shape_of(made.type()->dims()) == shape ? &made : b_.reshape(&made, *shape);
    v->set_type(old.type());
    v->set_name(old.name());
    g_.replace_uses(old, *v);
    g_.erase(n);
  }

  Value* rewritten(Node& n) {
    const std::string_view op = n.op().name;
    if (op == "reshape" || op == "expand_dims" || op == "squeeze") return view(n);
    if (op == "transpose") return transpose(n);
    if (op == "tile") return tile(n);
    if (op == "gather") return gather(n);
    if (op == "matmul") return matmul(n);
    if (op == "slice_by_index") return slice(n);
    if (op == "concat") return concat(n);
    if (op.starts_with("reduce_")) return reduce(n);
    if (op == "softmax" || op == "cumsum" || op == "argsort") return along_axis(n);
    if (n.has(Trait::kElementwise) || op == "select") return elementwise(n);
    return nullptr;
  }

  // A reshape of a reshape.
  Value* view(Node& n) {
    Value* from = source(n.input(0));
    if (from == n.input(0) || is_high(n.result())) return nullptr;
    return b_.reshape(from, *shape_of(n.result()->type()->dims()));
  }

  // Whether operand v has axis d of the result with the same size, which is not 1; nullopt if that is
  // unknown.
  static std::optional<bool> has_axis(const Value& v, size_t d, std::span<const Dim> result) {
    const size_t missing = result.size() - v.type()->rank();
    if (d < missing || v.type()->dim(d - missing).is(1)) return false;
    return v.type()->dim(d - missing) == result[d] ? std::optional(true) : std::nullopt;
  }

  // Merges axes before `last` that all operands have or lack together; axes from `last` on stay separate.
  static std::optional<Groups> broadcast(const std::vector<Value*>& operands, std::span<const Dim> result, size_t last) {
    std::vector<std::vector<bool>> kinds;
    for (size_t d = 0; d < last; ++d) {
      std::vector<bool>& kind = kinds.emplace_back();
      for (const Value* v : operands) {
        const auto has = result[d].is(1) ? std::optional(false) : has_axis(*v, d, result);
        if (!has) return std::nullopt;
        kind.push_back(*has);
      }
    }
    const std::vector<bool>* group = nullptr;  // of the last axis whose size is not 1
    return Groups::by(result.size(), [&](size_t d) {
      if (d == 1 && last > 0 && !result[0].is(1)) group = &kinds[0];
      if (d >= last) return false;
      const bool joins = result[d].is(1) || group == nullptr || *group == kinds[d];
      if (!result[d].is(1)) group = &kinds[d];
      return joins;
    });
  }

  Value* elementwise(Node& n) {
    std::vector<Value*> data;
    for (const Use& u : n.operands()) {
      if (u.value == nullptr || u.value->dtype() == DType::kString) continue;
      if (!u.value->ranked()) return nullptr;
      if (u.value->type()->rank() > 0) data.push_back(u.value);
    }
    if (data.empty() || (data.size() > 1 && !n.has(Trait::kBroadcasts) && !n.is("select"))) return nullptr;
    const auto dims = n.result()->type()->dims();
    const auto g = broadcast(data, dims, dims.size());
    if (!g || g->size() > kMost) return nullptr;
    std::vector<Value*> operands;
    for (const Use& u : n.operands()) {
      const bool is_data = std::ranges::find(data, u.value) != data.end();
      operands.push_back(is_data ? merged(u.value, *g) : u.value);
      if (is_data && operands.back() == nullptr) return nullptr;
    }
    return b_.like(n, operands);
  }

  Value* matmul(Node& n) {
    Value *x = n.input(0), *y = n.input(1);
    const size_t rank = n.result()->type()->rank();
    if (!x->ranked() || !y->ranked() || x->type()->rank() < 2 || y->type()->rank() < 2) return nullptr;
    // The last two axes of the operands do not correspond to axes of the result.
    const auto g = broadcast({x, y}, n.result()->type()->dims(), rank - 2);
    if (!g || g->size() > kMost) return nullptr;
    Value *p = merged(x, *g), *q = merged(y, *g);
    if (p == nullptr || q == nullptr) return nullptr;
    return b_.like(n, {{"x", p}, {"y", q}});
  }

  Value* along_axis(Node& n) {
    Value* x = n.input(0);
    const size_t rank = x->type()->rank();
    const auto axis = OpReader(n, context_.facts).axis_in("axis", rank);
    if (!axis) return nullptr;
    const Groups g = Groups::around(rank, *axis);
    Value* v = merged(x, g);
    if (v == nullptr) return nullptr;
    return b_.like(n, {{"x", v}, {"axis", static_cast<int64_t>(g.of(*axis))}});
  }

  Value* reduce(Node& n) {
    Value* x = n.input(0);
    const size_t rank = x->type()->rank();
    if (n.is("reduce_argmax") || n.is("reduce_argmin")) return along_axis(n);
    const auto axes = OpReader(n, context_.facts).axes_in("axes", rank);
    if (!axes) return nullptr;
    const auto goes = [&](size_t d) { return std::ranges::find(*axes, static_cast<int64_t>(d)) != axes->end(); };
    const Groups g = Groups::by(rank, [&](size_t d) { return goes(d) == goes(d - 1); });
    Value* v = g.size() <= kMost ? merged(x, g) : nullptr;
    if (v == nullptr) return nullptr;
    Ints own;
    for (size_t i = 0; i < g.size(); ++i) {
      if (goes(g.first[i])) own.push_back(static_cast<int64_t>(i));
    }
    return b_.like(n, {{"x", v}, {"axes", own}});
  }

  Value* transpose(Node& n) {
    Value* x = n.input(0);
    const size_t rank = x->type()->rank();
    const auto perm = Transpose(n, context_.facts).perm();
    if (!perm || perm->size() != rank) return nullptr;
    std::vector<size_t> position(rank);  // of the operand's axes in the result
    for (size_t i = 0; i < rank; ++i) position[static_cast<size_t>((*perm)[i])] = i;
    const Groups g = Groups::by(rank, [&](size_t d) { return position[d] == position[d - 1] + 1; });
    Value* v = g.size() <= kMost ? merged(x, g) : nullptr;
    if (v == nullptr) return nullptr;
    Ints own(g.size());
    std::iota(own.begin(), own.end(), 0);
    std::ranges::sort(own, {}, [&](int64_t i) { return position[g.first[static_cast<size_t>(i)]]; });
    return b_.transpose(v, {.perm = own});
  }

  Value* tile(Node& n) {
    Value* x = n.input(0);
    const size_t rank = x->type()->rank();
    const auto reps = Tile(n, context_.facts).reps();
    if (!reps || reps->size() != rank) return nullptr;
    const auto one = [&](size_t d) { return (*reps)[d] == 1; };
    const Groups g = Groups::by(rank, [&](size_t d) {
      const bool both_new = x->type()->dim(d).is(1) && x->type()->dim(d - 1).is(1) && !one(d) && !one(d - 1);
      return (one(d) && one(d - 1)) || both_new;
    });
    Value* v = g.size() <= kMost ? merged(x, g) : nullptr;
    if (v == nullptr) return nullptr;
    Ints own(g.size(), 1);
    for (size_t d = 0; d < rank; ++d) own[g.of(d)] *= (*reps)[d];
    return b_.tile(v, own);
  }

  // Indices of any rank are gathered as a flat list.
  Value* gather(Node& n) {
    const Gather read(n, context_.facts);
    Value *x = read.x(), *at = read.indices();
    const size_t rank = x->type()->rank();
    const auto axis = read.axis();
    if (!axis || !at->ranked() || at->type()->rank() == 0 || read.batch_dims().value_or(0) != 0) return nullptr;
    const Groups g = Groups::around(rank, *axis);
    Value* v = merged(x, g);
    Value* list = merged(at, Groups::by(at->type()->rank(), [](size_t) { return true; }));
    if (v == nullptr || list == nullptr) return nullptr;
    return b_.like(n, {{"x", v}, {"indices", list}, {"axis", static_cast<int64_t>(g.of(*axis))}});
  }

  Value* slice(Node& n) {
    Value* x = n.input(0);
    const size_t rank = x->type()->rank();
    const SliceByIndex read(n, context_.facts);
    const auto begin = read.begin(), end = read.end(), stride = read.stride();
    const auto from = read.begin_mask(), to = read.end_mask(), gone = read.squeeze_mask();
    if (!begin || !end || !stride || begin->size() != rank || end->size() != rank) return nullptr;
    if (!from || !to || !gone || std::ranges::find(*gone, true) != gone->end()) return nullptr;
    const auto whole = [&](size_t d) {
      const Dim size = x->type()->dim(d);
      const bool first = (*from)[d] || (*begin)[d] == 0, last = (*to)[d] || size.is((*end)[d]);
      return (*stride)[d] == 1 && first && last;
    };
    const Groups g = Groups::by(rank, [&](size_t d) { return whole(d) && whole(d - 1); });
    Value* v = g.size() <= kMost ? merged(x, g) : nullptr;
    if (v == nullptr) return nullptr;
    Ints first, last, steps;
    std::vector<bool> from_begin, to_end;
    for (size_t d : g.first) {
      const bool all = whole(d);
      first.push_back(all ? 0 : (*begin)[d]);
      last.push_back(all ? 0 : (*end)[d]);
      steps.push_back((*stride)[d]);
      from_begin.push_back(all || (*from)[d]);
      to_end.push_back(all || (*to)[d]);
    }
    return b_.slice_by_index(v, first, last, {.begin_mask = from_begin, .end_mask = to_end, .stride = steps});
  }

  Value* concat(Node& n) {
    const size_t rank = n.result()->type()->rank();
    const Concat read(n, context_.facts);
    const auto axis = read.axis();
    if (!axis || read.interleave()) return nullptr;
    const Groups g = Groups::around(rank, *axis);
    std::vector<Value*> values;
    for (Value* v : read.values()) {
      if (!v->ranked() || v->type()->rank() != rank) return nullptr;
      values.push_back(merged(v, g));
      if (values.back() == nullptr) return nullptr;
    }
    return b_.concat(values, {.axis = static_cast<int64_t>(g.of(*axis)), .interleave = false});
  }

  Graph& g_;
  PassContext& context_;
  Rewriter b_;
};

}  // namespace

Pass merge_axes_beyond_five() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    bool changed = false;
    for (Graph* g : graphs_in(top)) changed |= Merger(*g, context).run();
    return changed;
  });
}

}  // namespace sardonyx::mil
