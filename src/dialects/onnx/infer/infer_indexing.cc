// Slice, Pad, gathers and scatters.
#include <algorithm>

#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"
#include "dialects/onnx/infer/slice_end.h"

namespace sardonyx::onnx::rules {
namespace {

// At or beyond this a position means "to the end". Exporters write the largest i64, and also the largest i32.
constexpr int64_t kFar = 2147483647;

// A position along an axis of size n, as Slice interprets it: negative ones count from the end; then it is
// clamped to [low, n + high]. `far` stands for INT64_MAX and similar values, which no Dim can hold.
Dim clamp_position(const InferContext& c, Dim at, int far, Dim n, int64_t low, int64_t high) {
  const Dim top = add(c, n, high);
  if (far > 0) return top;
  if (far < 0) return Dim::of(low);
  if (at == n && high == 0) return n;
  if (at.is_unknown()) return Dim();
  if (at.is_int()) {
    if (at.value() == 0 && low == 0 && (!n.is_int() || n.value() + high >= 0)) return at;
    const Dim from_front = at.value() < 0 ? add(c, n, at) : at;
    if (n.is_unknown()) return Dim();
    return c.dims().max(c.dims().min(from_front, top), Dim::of(low));
  }
  if (n.is_unknown()) return Dim();
  // The sign of a symbolic position must be known.
  const DimRange range = c.dims().range(at);
  Dim from_front = at;
  if (range.max && *range.max < 0) {
    from_front = add(c, n, at);
  } else if (!range.min || *range.min < 0) {
    // A position such as B - 1 with B >= 0 is at least -1; sizes are assumed large enough for positions
    // derived from them.
    if (!c.dims().less_equal(Dim::of(0), at)) return Dim();
  }
  return c.dims().max(c.dims().min(from_front, top), Dim::of(low));
}

struct Position {
  Dim at;
  int far = 0;
  bool is_open = false;  // as an end: the rest of the axis, in either direction
};

std::vector<Position> as_positions(const std::vector<int64_t>& list) {
  std::vector<Position> out;
  for (int64_t v : list) {
    const int far = v >= kFar ? 1 : v <= -kFar ? -1 : 0;
    out.push_back({far != 0 ? Dim() : Dim::of(v), far, slice_end(v, -1) != v});
  }
  return out;
}

std::optional<std::vector<Position>> positions(const InferContext& c, size_t i) {
  std::vector<Position> out;
  if (auto ints = c.ints(i)) return as_positions(*ints);
  if (auto v = c.value(i)) {
    for (Dim d : v->elements) out.push_back({d, 0, d.is(kFar)});
    return out;
  }
  return std::nullopt;
}

Dim sliced(const InferContext& c, Dim n, const Position& start, const Position& end, int64_t step) {
  if (step == 0) c.fail("a step is 0");
  if (step > 0) {
    const Dim from = clamp_position(c, start.at, start.far, n, 0, 0);
    const Dim to = clamp_position(c, end.at, end.far, n, 0, 0);
    if (from.is(0) && to == n) return ceildiv(c, n, step);
    if (from.is_unknown() || to.is_unknown()) return Dim();
    return c.dims().max(ceildiv(c, sub(c, to, from), step), Dim::of(0));
  }
  const Dim from = clamp_position(c, start.at, start.far, n, -1, -1);
  const Dim to = clamp_position(c, end.at, end.far, n, -1, -1);
  const Dim last = add(c, n, -1);
  if (from == last && to.is(-1)) return ceildiv(c, n, -step);
  if (start.far > 0 && end.far < 0) return ceildiv(c, n, -step);
  if (from.is_unknown() || to.is_unknown()) return Dim();
  return c.dims().max(ceildiv(c, sub(c, from, to), -step), Dim::of(0));
}

}  // namespace

void slice(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (x == nullptr) {
    c.set_unranked(0, dtype);
    return;
  }
  std::optional<std::vector<Position>> starts, ends;
  std::optional<std::vector<int64_t>> axes, steps;
  bool axes_given = false, steps_given = false;
  if (c.op().since_version < 10) {
    if (auto list = c.attr_ints("starts")) starts = as_positions(*list);
    if (auto list = c.attr_ints("ends")) ends = as_positions(*list);
    axes = c.attr_ints("axes");
    axes_given = axes.has_value();
  } else {
    starts = positions(c, 1);
    ends = positions(c, 2);
    axes_given = c.has_input(3);
    steps_given = c.has_input(4);
    if (axes_given) axes = c.ints(3);
    if (steps_given) steps = c.ints(4);
  }
  if (axes_given && !axes) {
    c.set(0, dtype, DimVec(x->rank()));
    return;
  }
  if (starts && ends && starts->size() != ends->size()) {
    c.fail(fmt::format("{} starts and {} ends", starts->size(), ends->size()));
  }
  std::optional<size_t> count;
  if (starts) count = starts->size();
  if (!count && ends) count = ends->size();
  if (!axes) {
    axes.emplace();
    const size_t n = count.value_or(x->rank());
    if (n > x->rank()) c.fail(fmt::format("{} starts for {}", n, c.show(x)));
    for (size_t i = 0; i < n; ++i) axes->push_back(static_cast<int64_t>(i));
  }
  if (count && *count != axes->size()) c.fail(fmt::format("{} starts and {} axes", *count, axes->size()));
  if (steps && steps->size() != axes->size()) c.fail(fmt::format("{} steps and {} axes", steps->size(), axes->size()));
  const auto places = normal_axes(c, *axes, x->rank());
  DimVec dims = dims_of(x);
  for (size_t i = 0; i < places.size(); ++i) {
    Dim& d = dims[places[i]];
    if (!starts || !ends || (steps_given && !steps)) {
      d = Dim();
      continue;
    }
    const int64_t step = steps ? (*steps)[i] : 1;
    if (step < 0 && (*ends)[i].is_open) (*ends)[i].far = -1;
    d = sliced(c, d, (*starts)[i], (*ends)[i], step);
  }
  c.set(0, dtype, dims);

  const Type* result = c.node().result(0)->type();
  if (!carries_value(result) || x->rank() != 1 || !starts || !ends || (steps_given && !steps)) return;
  const auto v = c.value(0);
  if (!v) return;
  if (places.empty()) return c.set_value(0, *v);
  const Position start = (*starts)[0], end = (*ends)[0];
  if ((start.far == 0 && !start.at.is_int()) || (end.far == 0 && !end.at.is_int())) return;
  const auto n = static_cast<int64_t>(v->elements.size());
  const int64_t step = steps ? (*steps)[0] : 1;
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto place = [&](const Position& p) {
    if (p.far != 0) return p.far > 0 ? high : low;
    const int64_t at = p.at.value();
    return std::clamp(at < 0 ? at + n : at, low, high);
  };
  SymbolicValue out;
  const int64_t to = place(end);
  for (int64_t i = place(start); step > 0 ? i < to : i > to; i += step)
    out.elements.push_back(v->elements[static_cast<size_t>(i)]);
  c.set_value(0, std::move(out));
}

void pad(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (x == nullptr) {
    c.set_unranked(0, dtype);
    return;
  }
  std::optional<DimVec> pads;
  if (c.op().since_version < 11) {
    if (auto list = c.attr_ints(c.op().since_version < 2 ? "paddings" : "pads")) {
      pads.emplace();
      for (int64_t v : *list) pads->push_back(Dim::of(v));
    }
  } else if (auto v = c.value(1)) {
    pads = v->elements;
  }
  std::vector<size_t> axes;
  if (c.has_input(3) && c.op().since_version >= 18) {
    const auto list = c.ints(3);
    if (!list) {
      c.set(0, dtype, DimVec(x->rank()));
      return;
    }
    axes = normal_axes(c, *list, x->rank());
  } else {
    for (size_t i = 0; i < x->rank(); ++i) axes.push_back(i);
  }
  if (!pads) {
    DimVec dims(x->rank());
    for (size_t i = 0; i < x->rank(); ++i) {
      if (std::find(axes.begin(), axes.end(), i) == axes.end()) dims[i] = x->dim(i);
    }
    c.set(0, dtype, dims);
    return;
  }
  if (pads->size() != 2 * axes.size()) c.fail(fmt::format("{} pads for {} axes", pads->size(), axes.size()));
  DimVec dims = dims_of(x);
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& d = dims[axes[i]];
    d = add(c, d, add(c, (*pads)[i], (*pads)[i + axes.size()]));
    if (d.is_int() && d.value() < 0) c.fail(fmt::format("axis {} would have {} elements", axes[i], d.value()));
  }
  c.set(0, dtype, dims);
}

void center_crop_pad(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (x == nullptr) {
    c.set_unranked(0, dtype);
    return;
  }
  DimVec dims = dims_of(x);
  std::vector<size_t> axes;
  if (auto list = c.attr_ints("axes")) {
    axes = normal_axes(c, *list, x->rank());
  } else {
    for (size_t i = 0; i < x->rank(); ++i) axes.push_back(i);
  }
  const auto target = c.value(1);
  if (target && target->elements.size() != axes.size()) {
    c.fail(fmt::format("{} sizes for {} axes", target->elements.size(), axes.size()));
  }
  for (size_t i = 0; i < axes.size(); ++i) dims[axes[i]] = target ? target->elements[i] : Dim();
  c.set(0, dtype, dims);
}

void gather(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type *x = c.ranked(0), *at = c.ranked(1);
  need_rank_at_least(c, 0, 1);
  if (x == nullptr || at == nullptr || dtype == DType::kUndefined) {
    c.set_unranked(0, dtype);
    return;
  }
  const size_t axis = normal_axis(c, c.attr_int("axis", 0), x->rank());
  DimVec dims(x->dims().begin(), x->dims().begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), at->dims().begin(), at->dims().end());
  dims.insert(dims.end(), x->dims().begin() + static_cast<std::ptrdiff_t>(axis) + 1, x->dims().end());
  c.set(0, dtype, dims);
  if (x->rank() != 1 || !carries_value(c.node().result(0)->type())) return;
  const auto v = c.value(0);
  const auto where = c.ints(1);
  if (!v || !where) return;
  SymbolicValue out;
  out.scalar = at->rank() == 0;
  const auto n = static_cast<int64_t>(v->elements.size());
  for (int64_t i : *where) {
    if (i < -n || i >= n) c.fail(fmt::format("index {} is outside [{}, {})", i, -n, n));
    out.elements.push_back(v->elements[static_cast<size_t>(i < 0 ? i + n : i)]);
  }
  c.set_value(0, std::move(out));
}

void gather_elements(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type *x = c.ranked(0), *at = c.ranked(1);
  if (x != nullptr && at != nullptr && x->rank() != at->rank()) {
    c.fail(fmt::format("data has rank {}, indices {}", x->rank(), at->rank()));
  }
  if (x != nullptr) normal_axis(c, c.attr_int("axis", 0), x->rank());
  set_same_shape(c, dtype, 1);
}

void gather_nd(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type *x = c.ranked(0), *at = c.ranked(1);
  if (x == nullptr || at == nullptr || dtype == DType::kUndefined) {
    c.set_unranked(0, dtype);
    return;
  }
  need_rank_at_least(c, 0, 1);
  need_rank_at_least(c, 1, 1);
  const auto batch = static_cast<size_t>(std::max<int64_t>(0, c.attr_int("batch_dims", 0)));
  const Dim last = at->dim(at->rank() - 1);
  if (!last.is_int()) {
    c.set_unranked(0, dtype);
    return;
  }
  const auto depth = static_cast<size_t>(last.value()) + batch;
  if (last.value() < 0 || depth > x->rank() || batch >= at->rank()) {
    c.fail(fmt::format("indices of length {} after {} batch dims into {}", last.value(), batch, c.show(x)));
  }
  DimVec dims(at->dims().begin(), at->dims().end() - 1);
  for (size_t i = 0; i < batch && i < dims.size(); ++i) dims[i] = same_dim(c, dims[i], x->dim(i), "batch dims");
  dims.insert(dims.end(), x->dims().begin() + static_cast<std::ptrdiff_t>(depth), x->dims().end());
  c.set(0, dtype, dims);
}

void scatter_elements(InferContext& c) {
  const Type *x = c.ranked(0), *at = c.ranked(1), *updates = c.ranked(2);
  if (x != nullptr) normal_axis(c, c.attr_int("axis", 0), x->rank());
  if (x != nullptr && at != nullptr && x->rank() != at->rank()) {
    c.fail(fmt::format("data has rank {}, indices {}", x->rank(), at->rank()));
  }
  if (at != nullptr && updates != nullptr) same_dims(c, at->dims(), updates->dims(), "the shapes of indices and updates");
  set_same(c);
}

void scatter_nd(InferContext& c) {
  const Type *x = c.ranked(0), *at = c.ranked(1), *updates = c.ranked(2);
  need_rank_at_least(c, 0, 1);
  need_rank_at_least(c, 1, 1);
  if (x != nullptr && at != nullptr && updates != nullptr && at->dim(at->rank() - 1).is_int()) {
    const auto depth = static_cast<size_t>(at->dim(at->rank() - 1).value());
    if (depth > x->rank()) c.fail(fmt::format("indices of length {} into {}", depth, c.show(x)));
    DimVec expected(at->dims().begin(), at->dims().end() - 1);
    expected.insert(expected.end(), x->dims().begin() + static_cast<std::ptrdiff_t>(depth), x->dims().end());
    same_dims(c, expected, updates->dims(), "the shape of updates and what the indices select");
  }
  set_same(c);
}

void reverse_sequence(InferContext& c) {
  need_rank_at_least(c, 0, 2);
  need_rank(c, 1, 1);
  set_same(c);
}

}  // namespace sardonyx::onnx::rules
