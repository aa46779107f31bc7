// Families with a number per axis: axes are renumbered, or the list is put in another order.
//
//   kSlice           any order; axes, all of them if none are given
//   kPad             any order; axes, or a list of begins and ends
//   kTile, kExpand   any order; a list in a constant, or put in order by a Gather
//   kResize          any order if it is `nearest`; else the leading two axes must not be resized
#include <algorithm>
#include <numeric>

#include "passes/mincut/family.h"

namespace sardonyx::layout {
namespace {

// A list with an element per axis, put in order at run time.
Value* reordered(Value* list, const Layout& l, OnnxBuilder& b) { return b.Gather(list, b.i64s(l.perm())); }

// --- Slice

std::optional<Ints> slice_axes(PassContext& context, const Node& n, size_t rank) {
  if (n.input(3) != nullptr || has_axes_attr(n)) return axes_of(context, n, 3, rank);
  std::optional<size_t> length;
  const Type* t = n.input(1) != nullptr ? n.input(1)->type() : nullptr;
  const auto starts = n.attr("starts") != nullptr ? ints_attr(n, "starts") : std::nullopt;
  if (starts) {
    length = starts->size();
  } else if (t != nullptr && t->ranked() && t->dim(0).is_int()) {
    length = static_cast<size_t>(t->dim(0).value());
  }
  if (!length) return std::nullopt;
  Ints axes(*length);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

bool follow_slice(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0));
  return rank && slice_axes(c.context, c.n, *rank) && same(m, c.given);
}

void spell_slice(const Node& n, const Move& m, Spelling& s) {
  Ints axes = positions(m.main, *slice_axes(s.context, n, *rank_of(n.input(0))));
  if (n.op().since_version < 10) {
    s.attrs.emplace_back("axes", std::move(axes));
    return;
  }
  s.operands.resize(std::max<size_t>(n.num_inputs(), 4));
  s.operands[3] = list_like(*n.input(1), axes, s.b);
}

// --- Pad

// The axes if they are given, else begins and ends of all.
std::optional<Ints> pads(PassContext& context, const Node& n, size_t rank) {
  if (n.op().since_version < 11) return ints_attr(n, "pads");
  return n.input(3) != nullptr ? axes_of(context, n, 3, rank) : constant_ints(context, n, 1);
}

bool follow_pad(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0));
  return rank && pads(c.context, c.n, *rank) && same(m, c.given);
}

void spell_pad(const Node& n, const Move& m, Spelling& s) {
  const size_t rank = *rank_of(n.input(0));
  const auto known = pads(s.context, n, rank);
  if (n.input(3) != nullptr) {
    set_axes(n, 3, positions(m.main, *known), s);
    return;
  }
  Ints now;
  for (size_t side = 0; side < 2; ++side) {
    for (size_t i = 0; i < rank; ++i) now.push_back((*known)[side * rank + static_cast<size_t>(m.main.from[i])]);
  }
  if (n.op().since_version < 11) {
    s.attrs.emplace_back("pads", std::move(now));
  } else {
    s.operands[1] = s.b.i64s(now);
  }
}

// --- Tile and Expand

bool follow_tile(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0));
  if (!rank || !is_list_of(c.n.input(1), *rank)) return false;
  m.more_nodes = c.n.input(1)->is_constant() ? 0 : 1;
  return same(m, c.given);
}

bool follow_expand(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0)), result = rank_of(c.n.result());
  if (!rank || !result || c.given.rank != *result) return false;
  const auto shape = constant_ints(c.context, c.n, 1);
  if (!shape && !is_list_of(c.n.input(1), *result)) return false;
  m.more_nodes = shape ? 0 : 1;
  m.operands[0] = broadcast(*c.n.input(0), c.given);
  m.main = m.results[0] = c.given;
  return true;
}

void spell_tile(const Node& n, const Move& m, Spelling& s) {
  const auto list = constant_ints(s.context, n, 1);
  if (!list) {
    s.operands[1] = reordered(n.input(1), m.main, s.b);
    return;
  }
  Ints now;
  const size_t missing = m.main.rank - list->size();
  for (const int64_t at : m.main.perm()) {
    const auto axis = static_cast<size_t>(at);
    now.push_back(axis < missing ? 1 : (*list)[axis - missing]);
  }
  s.operands[1] = s.b.i64s(now);
}

// --- Resize

bool is_given(const Value* v) {
  if (v == nullptr) return false;
  const Type* t = v->type();
  return !(t != nullptr && t->ranked() && t->dim(0).is(0));
}

// The operand with scales or sizes.
size_t list_slot(const Node& n) { return n.op().since_version < 11 ? 1 : (is_given(n.input(3)) ? 3 : 2); }

// Runtimes resize the trailing axes of N,C,... tensors; other interpolations than `nearest` may know no
// other.
bool follow_resize(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0));
  if (!rank) return false;
  const std::string how = string_attr(c.n, "coordinate_transformation_mode").value_or("");
  if (how == "tf_crop_and_resize") return false;
  const Type* in = c.n.input(0)->type();
  const Type* out = c.n.result()->type();
  if (out == nullptr || !out->ranked()) return false;
  if (!has_axes_attr(c.n)) {
    const Value* list = c.n.input(list_slot(c.n));
    if (!is_list_of(list, *rank)) return false;
    m.more_nodes = list->is_constant() ? 0 : 1;
  }
  same(m, c.given);
  if (string_attr(c.n, "mode").value_or("nearest") == "nearest") return true;
  bool was_good = true, is_good = true;
  for (size_t i = 0; i < *rank; ++i) {
    if (in->dim(i) == out->dim(i)) continue;
    if (i < 2) was_good = false;
    if (c.given.position(i) < 2) is_good = false;
  }
  return is_good || !was_good;
}

void spell_resize(const Node& n, const Move& m, Spelling& s) {
  const size_t rank = *rank_of(n.input(0));
  if (has_axes_attr(n)) {
    s.attrs.emplace_back("axes", positions(m.main, axes_in(*ints_attr(n, "axes"), rank)));
    return;
  }
  const size_t slot = list_slot(n);
  const TensorPtr& list = n.input(slot)->constant();
  if (list == nullptr) {
    s.operands[slot] = reordered(n.input(slot), m.main, s.b);
  } else if (is_float(list->dtype())) {
    std::vector<float> now;
    for (size_t i = 0; i < rank; ++i) now.push_back(static_cast<float>(list->as_double(m.main.from[i])));
    s.operands[slot] = s.b.constant(Tensor::of<float>(DType::kF32, {static_cast<int64_t>(rank)}, now));
  } else {
    Ints now;
    for (size_t i = 0; i < rank; ++i) now.push_back(list->as_int(m.main.from[i]));
    s.operands[slot] = s.b.i64s(now);
  }
}

}  // namespace

const Family kSlice{.follow = follow_slice, .spell = spell_slice};
const Family kPad{.follow = follow_pad, .spell = spell_pad};
const Family kTile{.follow = follow_tile, .spell = spell_tile};
const Family kExpand{.follow = follow_expand, .spell = spell_tile};
const Family kResize{.follow = follow_resize, .spell = spell_resize};

}  // namespace sardonyx::layout
