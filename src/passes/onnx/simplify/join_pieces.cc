//   x ── Slice [3:], Slice [:3] ── Concat ── y                      =>   Gather(x, [3, 4, ..., 0, 1, 2])
//   x ── Slice [0::2, 0::2], [1::2, 0::2], ... (all four) ── Concat of the last axis
//     =>   x ── Reshape ── Transpose ── Reshape ── y
//
// Concatenating pieces of one axis in another order (roll, shifted windows, interleaving) is a Gather of
// rows, which copies once instead of twice. Blocks that become channels (patch merging) are one transpose.
//
// What stops it: pieces with other users; an axis whose size is not known, or so long that the list of rows
// would be larger than the nodes that it replaces; rows of a few elements, which onnxruntime gathers one by
// one; for the same reason, channels that are not the last axis.
// Exact: elements only move.
#include <algorithm>
#include <numeric>

#include "dialects/onnx/readers.h"
#include "passes/onnx/shapes/shape_target.h"
#include "passes/onnx/simplify/slices.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
using Ints = std::vector<int64_t>;
constexpr int64_t kRowsPerNode = 32;    // this many integers are about as large as a node with its operands
constexpr int64_t kElementsPerRow = 8;  // for fewer, copying slices is faster

// The value that the operands of a Concat were cut from.
Value* whole_of(const Node& join) {
  const Node* first = join.input(0)->def();
  return first != nullptr ? first->input(0) : nullptr;
}

// The producer of operand i if it cuts a piece out of x that only the Concat uses; else null.
Node* taker(const Node& join, size_t i, const Value* x) {
  const Value* piece = join.input(i);
  Node* n = piece != nullptr ? piece->def() : nullptr;
  if (n == nullptr || n->unchecked() || n->graph() != join.graph() || n->input(0) != x) return nullptr;
  if (!piece->has_one_use()) return nullptr;
  return n->is("Split") || n->is("Slice") ? n : nullptr;
}

// The number of elements behind an axis. Unknown sizes count as one.
int64_t row_size(const Type& t, size_t axis) {
  int64_t n = 1;
  for (size_t i = axis + 1; i < t.rank(); ++i) n *= t.dim(i).is_int() ? t.dim(i).value() : 1;
  return n;
}

// --- reordered rows

struct Rows {
  Value* x;
  size_t axis;
  Ints rows;
};

// The range of result `index` of a Split. The Split may be along another axis: the caller's type check
// excludes that.
std::optional<Piece> part(const Node& split, size_t index, size_t axis) {
  Piece p;
  for (size_t i = 0; i <= index; ++i) {
    const Value* v = split.result(i);
    if (!v->ranked() || !v->type()->dim(axis).is_int()) return std::nullopt;
    p.first += p.count;
    p.count = v->type()->dim(axis).value();
  }
  return p;
}

std::optional<Rows> rows(const Match& m) {
  const Node& join = m.root();
  Value* x = whole_of(join);
  if (x == nullptr || !x->ranked() || join.num_inputs() < 2) return std::nullopt;
  const auto axis = read::OpReader(join).axis_in("axis", x->type()->rank());
  if (!axis) return std::nullopt;
  const Dim size = x->type()->dim(*axis);
  Rows r{x, *axis, {}};
  const Node* last = nullptr;
  int64_t going = 0;
  for (size_t i = 0; i < join.num_inputs(); ++i) {
    const Node* n = taker(join, i, x);
    if (n == nullptr) return std::nullopt;
    if (!size.is_int()) {
      m.refuse("the size of the axis is not known");
      return std::nullopt;
    }
    std::optional<Piece> p;
    if (n->is("Split")) {
      p = part(*n, join.input(i)->index(), *axis);
    } else if (const auto b = bounds_of(*n, m.context()); b && b->axes == Ints{static_cast<int64_t>(*axis)}) {
      p = piece_of(b->starts[0], b->ends[0], b->steps[0], size.value());
    }
    if (!p) return std::nullopt;
    going += n != last;
    last = n;
    if (static_cast<int64_t>(r.rows.size()) + p->count > kRowsPerNode * static_cast<int64_t>(join.num_inputs()))
      return std::nullopt;
    for (int64_t k = 0; k < p->count; ++k) r.rows.push_back(p->first + k * p->step);
  }
  if (r.rows.empty() || static_cast<int64_t>(r.rows.size()) > kRowsPerNode * going) {
    m.refuse("the list of rows would be larger than the slices");
    return std::nullopt;
  }
  if (row_size(*x->type(), *axis) < kElementsPerRow) {
    m.refuse("its rows have too few elements");
    return std::nullopt;
  }
  return r;
}

// A Split with unused results or other users stays, so nothing is gained.
bool splits_go(const Node& join, const Value* x) {
  for (size_t i = 0; i < join.num_inputs(); ++i) {
    for (const Value& v : taker(join, i, x)->results()) {
      for (const Use& u : v.uses()) {
        if (u.owner != &join) return false;
      }
    }
  }
  return true;
}

// --- blocks that become channels

struct Blocks {
  Value* x;
  std::vector<Dim> split;  // each sliced axis as number of blocks and block size
  Ints perm;
};

// The order of the sliced axes, slowest first, in which the Concat enumerates the offsets; nullopt if there
// is none.
std::optional<std::vector<size_t>> order_of(const std::vector<Ints>& offsets, const Ints& steps) {
  std::vector<size_t> order(steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  do {
    bool counts = true;
    for (size_t j = 0; j < offsets.size() && counts; ++j) {
      auto left = static_cast<int64_t>(j);
      for (size_t p = order.size(); p-- > 0 && counts;) {
        counts = offsets[j][order[p]] == left % steps[order[p]];
        left /= steps[order[p]];
      }
    }
    if (counts) return order;
  } while (std::next_permutation(order.begin(), order.end()));
  return std::nullopt;
}

std::optional<Blocks> blocks(const Match& m) {
  const Node& join = m.root();
  Value* x = whole_of(join);
  const size_t count = join.num_inputs();
  if (x == nullptr || !x->ranked() || count < 4) return std::nullopt;
  const size_t rank = x->type()->rank();
  if (read::OpReader(join).axis_in("axis", rank) != rank - 1) return std::nullopt;
  Ints axes, steps;
  std::vector<Ints> offsets;
  for (size_t i = 0; i < count; ++i) {
    const Node* n = taker(join, i, x);
    const auto b = n != nullptr ? bounds_of(*n, m.context()) : std::nullopt;
    if (!b || b->axes.size() > 3) return std::nullopt;
    std::vector<size_t> sorted(b->axes.size());
    std::iota(sorted.begin(), sorted.end(), size_t{0});
    std::sort(sorted.begin(), sorted.end(), [&](size_t p, size_t q) { return b->axes[p] < b->axes[q]; });
    Ints at, by, offset;
    for (size_t k : sorted) {
      const int64_t axis = b->axes[k], step = b->steps[k];
      if (static_cast<size_t>(axis) >= rank - 1 || (!at.empty() && at.back() == axis)) return std::nullopt;
      const Dim d = x->type()->dim(static_cast<size_t>(axis));
      if (!d.is_int() || step < 1 || d.value() % step != 0) return std::nullopt;
      const Piece p = piece_of(b->starts[k], b->ends[k], step, d.value());
      if (p.count != d.value() / step) return std::nullopt;  // then it begins within the first step
      at.push_back(axis);
      by.push_back(step);
      offset.push_back(p.first);
    }
    if (i > 0 && (at != axes || by != steps)) return std::nullopt;
    axes = at;
    steps = by;
    offsets.push_back(offset);
  }
  if (std::accumulate(steps.begin(), steps.end(), int64_t{1}, std::multiplies<>()) != static_cast<int64_t>(count))
    return std::nullopt;
  const auto order = order_of(offsets, steps);
  if (!order) return std::nullopt;
  Blocks r{x, {}, {}};
  Ints inner(axes.size());
  for (size_t i = 0; i + 1 < rank; ++i) {
    const Dim d = x->type()->dim(i);
    const auto k = static_cast<size_t>(std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) - axes.begin());
    r.perm.push_back(static_cast<int64_t>(r.split.size()));
    r.split.push_back(k == axes.size() ? d : Dim::of(d.value() / steps[k]));
    if (k == axes.size()) continue;
    inner[k] = static_cast<int64_t>(r.split.size());
    r.split.push_back(Dim::of(steps[k]));
  }
  for (size_t k : *order) r.perm.push_back(inner[k]);
  r.perm.push_back(static_cast<int64_t>(r.split.size()));
  r.split.push_back(x->type()->dim(rank - 1));
  return r;
}

Value* build_blocks(Rewriter& b, const Match& m) {
  const Blocks r = *blocks(m);
  const Type* split = m.model().types().with_dims(r.x->type(), r.split);
  const auto first = constant_target(*r.x, *split, m.dims());
  if (!first) return nullptr;
  Value* v = b.Transpose(b.Reshape(r.x, b.i64s(*first)), {.perm = r.perm});
  const auto second = constant_target(*v, *m.root().result()->type(), m.dims());
  return second ? b.Reshape(v, b.i64s(*second)) : nullptr;
}

}  // namespace

Pass join_pieces() {
  return std::vector<Rule>{
      {.name = "rows",
       .match = Concat(rest),
       .when =
           [](const Match& m) {
             const auto r = rows(m);
             return r && splits_go(m.root(), r->x);
           },
       .build =
           [](Rewriter& b, const Match& m) {
             const Rows r = *rows(m);
             return b.Gather(r.x, b.i64s(r.rows), {.axis = static_cast<int64_t>(r.axis)});
           }},
      {.name = "blocks",
       .match = Concat(rest),
       .when = [](const Match& m) { return m.root().result()->ranked() && blocks(m).has_value(); },
       .build = build_blocks,
       .same_type = true},
  };
}

}  // namespace sardonyx::onnx
