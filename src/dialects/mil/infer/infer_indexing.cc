// Reductions, gather and scatter, slices, and ops that make indices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dialects/mil/infer/rule_util.h"
#include "dialects/mil/infer/rules.h"

namespace sardonyx::mil::rules {
namespace {

void set_reduced(InferContext& c, DType dtype, const std::vector<size_t>& axes) {
  const Type* x = c.ranked(0);
  const bool keep = param_bool(c, "keep_dims");
  std::vector<bool> removed(x->rank());
  for (size_t a : axes) removed[a] = true;
  DimVec dims;
  for (size_t i = 0; i < x->rank(); ++i) {
    if (!removed[i]) {
      dims.push_back(x->dim(i));
    } else if (keep) {
      dims.push_back(Dim::of(1));
    }
  }
  set_dims(c, dtype, dims);
}

}  // namespace

void reduce(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  if (x == nullptr) return c.set_unranked(0, dtype);
  std::vector<size_t> axes;
  if (given(c, "axes")) {
    const auto list = param_ints(c, "axes");
    if (!list) return param_bool(c, "keep_dims") ? set_dims(c, dtype, DimVec(x->rank())) : c.set_unranked(0, dtype);
    axes = normal_axes(c, *list, x->rank());
  } else {
    for (size_t i = 0; i < x->rank(); ++i) axes.push_back(i);
  }
  set_reduced(c, dtype, axes);
  // Reducing a shape value: the product of a shape is a number of elements.
  const auto v = c.value(0);
  if (!v || v->scalar || !carries_value(c.node().result(0)->type()) || c.node().result(0)->type()->rank() != 0) return;
  Dim all = Dim::of(c.op().name == "reduce_prod" ? 1 : 0);
  for (Dim d : v->elements) {
    if (c.op().name == "reduce_prod") {
      all = mul(c, all, d);
    } else if (c.op().name == "reduce_sum") {
      all = add(c, all, d);
    } else {
      return;
    }
  }
  c.set_value(0, {true, {all}});
}

void reduce_arg(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = c.version() < 8 ? DType::kI32 : param_dtype(c, "output_dtype");
  const auto axis = param_int(c, "axis");
  if (x == nullptr || !axis) return c.set_unranked(0, dtype);
  set_reduced(c, dtype, {normal_axis(c, *axis, x->rank())});
}

void argsort(InferContext& c) { set_same_shape(c, DType::kI32); }

void topk(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  DType indices = DType::kI32;
  if (given(c, "output_indices_dtype")) indices = param_dtype(c, "output_indices_dtype");
  const auto axis = param_int(c, "axis");
  if (x == nullptr || !axis) {
    c.set_unranked(0, dtype);
    return c.set_unranked(1, indices);
  }
  const size_t at = normal_axis(c, *axis, x->rank());
  DimVec dims = dims_of(x);
  const size_t slot = operand(c, "k");
  const auto k = slot == kNoSlot ? std::optional(Dim::of(1)) : scalar_value(c, slot);
  if (k && k->is_int() && dims[at].is_int() && k->value() > dims[at].value())
    c.fail(fmt::format("k is {}, the axis has {} elements", k->value(), dims[at].value()));
  dims[at] = k ? *k : Dim();
  set_dims(c, dtype, dims, 0);
  set_dims(c, indices, dims, 1);
}

void non_zero(InferContext& c) {
  const Type* x = c.ranked(0);
  set_dims(c, DType::kI32, DimVec{Dim(), x ? Dim::of(static_cast<int64_t>(x->rank())) : Dim()});
}

void one_hot(InferContext& c) {
  const Type* x = c.ranked(0);
  const size_t on = operand(c, "on_value"), off = operand(c, "off_value"), size = operand(c, "one_hot_vector_size");
  const DType dtype = on != kNoSlot ? dtype_of(c, on) : off != kNoSlot ? dtype_of(c, off) : DType::kI32;
  const auto axis = param_int(c, "axis");
  if (x == nullptr || !axis) return c.set_unranked(0, dtype);
  const size_t at = normal_axis(c, *axis, x->rank() + 1);
  DimVec dims = dims_of(x);
  const auto depth = size == kNoSlot ? std::nullopt : scalar_value(c, size);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), depth ? *depth : Dim());
  set_dims(c, dtype, dims);
}

void non_maximum_suppression(InferContext& c) {
  const Type* scores = c.ranked(1);
  const auto max_boxes = param_int(c, "max_boxes");
  if (scores == nullptr) return;
  need_rank(c, 1, 3);
  const Dim n = scores->dim(0), kept = max_boxes ? Dim::of(*max_boxes) : Dim();
  if (c.version() >= 8) {
    set_dims(c, dtype_of(c, 0), DimVec{n, Dim::of(4), kept}, 0);
    set_dims(c, dtype_of(c, 1), DimVec{n, scores->dim(1), kept}, 1);
    set_dims(c, DType::kI32, DimVec{n, kept}, 2);
    return;
  }
  set_dims(c, dtype_of(c, 0), DimVec{n, kept, Dim::of(4)}, 0);
  set_dims(c, dtype_of(c, 1), DimVec{n, kept, scores->dim(2)}, 1);
  set_dims(c, DType::kI32, DimVec{n, kept}, 2);
  set_dims(c, DType::kI32, DimVec{n}, 3);
}

void range_1d(InferContext& c) {
  const DType dtype = dtype_of(c, given(c, "end") ? operand(c, "end") : 0);
  Dim length;
  const auto start = param_dim(c, "start"), end = param_dim(c, "end");
  const auto step = param_int(c, "step");
  if (is_float(dtype)) {
    const auto from = param_float(c, "start"), to = param_float(c, "end"), by = param_float(c, "step");
    const double steps = std::ceil((to.value_or(NAN) - from.value_or(NAN)) / by.value_or(NAN));
    if (steps < 1e15) length = Dim::of(static_cast<int64_t>(std::max(0.0, steps)));
  } else if (start && end && step.value_or(0) != 0) {
    const Dim reach = sub(c, *end, *start);
    length = *step == 1 ? reach : c.dims().ceildiv(reach, Dim::of(*step));
    if (length.is_int() && length.value() < 0) length = Dim::of(0);
  }
  set_dims(c, dtype, DimVec{length});
  if (!length.is_int() || length.value() > 64 || !start || !start->is_int() || !step) return;
  SymbolicValue v;
  for (int64_t i = 0; i < length.value(); ++i) v.elements.push_back(Dim::of(start->value() + i * *step));
  c.set_value(0, std::move(v));
}

// ---------------------------------------------------------------------------------------------------------------------
// Gather and scatter

void gather(InferContext& c) {
  const Type *x = c.ranked(0), *indices = c.ranked(1);
  const DType dtype = dtype_of(c, 0);
  const auto axis = param_int(c, "axis");
  const auto batch = c.version() >= 7 ? param_int(c, "batch_dims") : std::optional<int64_t>(0);
  if (x == nullptr || indices == nullptr || !axis || !batch) return c.set_unranked(0, dtype);
  if (x->rank() == 0) c.fail("x is a scalar");
  const size_t at = normal_axis(c, *axis, x->rank());
  const auto shared = static_cast<size_t>(std::max<int64_t>(0, *batch));
  if (shared > at || shared > indices->rank()) c.fail(fmt::format("batch_dims is {}, the axis {}", shared, at));
  DimVec dims(x->dims().begin(), x->dims().begin() + static_cast<std::ptrdiff_t>(at));
  for (size_t i = shared; i < indices->rank(); ++i) dims.push_back(indices->dim(i));
  for (size_t i = at + 1; i < x->rank(); ++i) dims.push_back(x->dim(i));
  set_dims(c, dtype, dims);
  // Gathering one size or several from a shape value.
  if (x->rank() != 1 || dims.size() > 1 || !carries_value(c.node().result(0)->type())) return;
  const auto v = c.value(0);
  const auto which = c.ints(1);
  if (!v || !which) return;
  SymbolicValue out;
  out.scalar = dims.empty();
  const auto n = static_cast<int64_t>(v->elements.size());
  for (int64_t i : *which) {
    if (i < -n || i >= n) c.fail(fmt::format("index {} of a list of {}", i, n));
    out.elements.push_back(v->elements[static_cast<size_t>(i < 0 ? i + n : i)]);
  }
  c.set_value(0, std::move(out));
}

void gather_along_axis(InferContext& c) {
  const Type *x = c.ranked(0), *indices = c.ranked(1);
  if (x != nullptr && indices != nullptr && x->rank() != indices->rank())
    c.fail(fmt::format("{} and the indices {} must have the same rank", c.show(x), c.show(indices)));
  set_same_shape(c, dtype_of(c, 0), 1);
}

void gather_nd(InferContext& c) {
  const Type *x = c.ranked(0), *indices = c.ranked(1);
  const DType dtype = dtype_of(c, 0);
  const auto batch = c.version() >= 7 ? param_int(c, "batch_dims") : std::optional<int64_t>(0);
  if (x == nullptr || indices == nullptr || !batch || indices->rank() == 0) return c.set_unranked(0, dtype);
  const Dim depth = indices->dim(indices->rank() - 1);
  if (!depth.is_int()) return c.set_unranked(0, dtype);
  const int64_t used = *batch + depth.value();
  if (*batch < 0 || used > static_cast<int64_t>(x->rank()))
    c.fail(fmt::format("the indices address {} axes of {}", used, c.show(x)));
  DimVec dims(indices->dims().begin(), indices->dims().end() - 1);
  for (size_t i = static_cast<size_t>(used); i < x->rank(); ++i) dims.push_back(x->dim(i));
  set_dims(c, dtype, dims);
}

void scatter(InferContext& c) {
  const Type* data = c.ranked(0);
  if (const auto axis = param_int(c, "axis"); axis && data != nullptr) (void)normal_axis(c, *axis, data->rank());
  set_same(c);
}

// ---------------------------------------------------------------------------------------------------------------------
// Slices

namespace {

// The size of x[begin:end:stride] along an axis of that size; nullopt is an unknown bound.
Dim sliced(InferContext& c, Dim size, std::optional<Dim> begin, std::optional<Dim> end, int64_t stride, bool from_start,
           bool to_end) {
  if (from_start && to_end) return ceildiv(c, size, std::abs(stride));
  const bool ints = begin && end && begin->is_int() && end->is_int();
  if (!from_start && !to_end && ints) {
    // The result does not depend on the axis size: none or one element.
    const int64_t b = begin->value(), e = end->value();
    int64_t n = -1;
    if (b >= 0 && e >= 0 && stride > 0) {
      if (e < b) c.fail(fmt::format("begin is {} and end {}", b, e));
      n = (e - b + stride - 1) / stride;
    }
    if (b < 0 && e < 0 && stride < 0) n = std::max<int64_t>(0, (b - e - stride - 1) / -stride);
    if (n == 0 || n == 1) return Dim::of(n);
  }
  if (!from_start && to_end && begin && begin->is_int()) {
    if ((begin->is(0) && stride < 0) || (begin->is(-1) && stride > 0)) return Dim::of(1);
  }
  if (size.is(1)) return Dim::of(1);
  if ((!from_start && !begin) || (!to_end && !end)) return Dim();
  const bool known = size.is_int() && (from_start || begin->is_int()) && (to_end || end->is_int());
  if (!known) {
    // x[b:] and x[:e] with symbolic sizes.
    if (stride == 1 && to_end && begin->is_int() && begin->value() >= 0) {
      const Dim rest = sub(c, size, *begin);
      return c.dims().less_equal(Dim::of(0), rest) ? rest : c.dims().max(rest, Dim::of(0));
    }
    if (stride == 1 && from_start && end->is_int() && end->value() < 0) {
      const Dim rest = add(c, size, *end);
      return c.dims().less_equal(Dim::of(0), rest) ? rest : c.dims().max(rest, Dim::of(0));
    }
    if (stride == 1 && from_start && *end == size) return size;
    return Dim();
  }
  const int64_t n = size.value();
  const auto at = [&](const std::optional<Dim>& v) {
    return v->value() < 0 ? std::max<int64_t>(0, v->value() + n) : v->value();
  };
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? n : n - 1;
  int64_t first, last;  // in ascending order
  if (stride > 0) {
    first = from_start ? low : at(begin);
    last = to_end ? high : std::min(at(end), high);
  } else {
    first = to_end ? low : at(end);
    last = from_start ? high : std::min(at(begin), high);
  }
  const int64_t step = std::abs(stride);
  return Dim::of(std::max<int64_t>(0, last <= first ? 0 : (last - first + step - 1) / step));
}

}  // namespace

void slice_by_index(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  if (x == nullptr) return c.set_unranked(0, dtype);
  const size_t rank = x->rank();
  const auto flags = [&](std::string_view name) {
    std::vector<int64_t> all(rank, 0);
    if (!given(c, name)) return std::optional(all);
    auto list = param_ints(c, name);
    if (list && list->size() != rank) c.fail(fmt::format("{} has {} elements, x has rank {}", name, list->size(), rank));
    return list;
  };
  const auto begin_mask = flags("begin_mask"), end_mask = flags("end_mask"), squeeze_mask = flags("squeeze_mask");
  auto stride = given(c, "stride") ? param_ints(c, "stride") : std::optional(std::vector<int64_t>(rank, 1));
  if (!begin_mask || !end_mask || !squeeze_mask || !stride) return c.set_unranked(0, dtype);
  if (stride->size() != rank) c.fail(fmt::format("stride has {} elements, x has rank {}", stride->size(), rank));
  const auto bounds = [&](std::string_view name) {
    const size_t i = operand(c, name);
    auto v = i == kNoSlot ? std::nullopt : c.value(i);
    if (v && v->elements.size() != rank)
      c.fail(fmt::format("{} has {} elements, x has rank {}", name, v->elements.size(), rank));
    return v;
  };
  const auto begin = bounds("begin"), end = bounds("end");
  DimVec dims;
  for (size_t i = 0; i < rank; ++i) {
    if ((*squeeze_mask)[i] != 0) continue;
    if ((*stride)[i] == 0) c.fail("a stride is 0");
    const auto at = [&](const std::optional<SymbolicValue>& v) {
      return v && !v->elements[i].is_unknown() ? std::optional(v->elements[i]) : std::nullopt;
    };
    dims.push_back(sliced(c, x->dim(i), at(begin), at(end), (*stride)[i], (*begin_mask)[i] != 0, (*end_mask)[i] != 0));
  }
  set_dims(c, dtype, dims);
  // Slicing a shape value.
  const auto v = c.value(0);
  if (rank != 1 || !v || !carries_value(c.node().result(0)->type())) return;
  const auto n = static_cast<int64_t>(v->elements.size());
  const int64_t step = (*stride)[0];
  const auto bound = [&](const std::optional<SymbolicValue>& b, bool masked, int64_t otherwise) -> std::optional<int64_t> {
    if (masked) return otherwise;
    if (!b || !b->elements[0].is_int()) return std::nullopt;
    const int64_t at = b->elements[0].value();
    return std::clamp<int64_t>(at < 0 ? at + n : at, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
  };
  const auto first = bound(begin, (*begin_mask)[0] != 0, step > 0 ? 0 : n - 1);
  if (!first) return;
  if ((*squeeze_mask)[0] != 0) {
    if (*first >= 0 && *first < n) c.set_value(0, {true, {v->elements[static_cast<size_t>(*first)]}});
    return;
  }
  const auto last = bound(end, (*end_mask)[0] != 0, step > 0 ? n : -1);
  if (!last) return;
  SymbolicValue out;
  for (int64_t i = *first; step > 0 ? i < *last : i > *last; i += step)
    out.elements.push_back(v->elements[static_cast<size_t>(i)]);
  const Type* t = c.node().result(0)->type();
  if (t->dim(0).is(static_cast<int64_t>(out.elements.size()))) c.set_value(0, std::move(out));
}

void slice_by_size(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  if (x == nullptr) return c.set_unranked(0, dtype);
  const size_t b = operand(c, "begin"), s = operand(c, "size");
  const auto size = s == kNoSlot ? std::nullopt : c.value(s);
  if (!size) return set_dims(c, dtype, DimVec(x->rank()));
  if (size->elements.size() != x->rank())
    c.fail(fmt::format("size has {} elements, x has rank {}", size->elements.size(), x->rank()));
  const auto begin = b == kNoSlot ? std::nullopt : c.value(b);
  DimVec dims;
  for (size_t i = 0; i < x->rank(); ++i) {
    const Dim d = size->elements[i];
    if (!d.is(-1)) {
      dims.push_back(d);
    } else {
      dims.push_back(begin && i < begin->elements.size() ? sub(c, x->dim(i), begin->elements[i]) : Dim());
    }
  }
  set_dims(c, dtype, dims);
}

// ---------------------------------------------------------------------------------------------------------------------
// Random numbers

namespace {

void random(InferContext& c, std::string_view like) {
  const size_t i = operand(c, like);
  const DType dtype = i == kNoSlot ? DType::kF32 : dtype_of(c, i);
  const auto sizes = c.value(0);
  if (sizes) return set_dims(c, dtype, sizes->elements);
  const auto n = list_length(c, 0);
  if (!n) return c.set_unranked(0, dtype);
  set_dims(c, dtype, DimVec(*n));
}

}  // namespace

void random_bernoulli(InferContext& c) { random(c, "prob"); }
void random_normal(InferContext& c) { random(c, "mean"); }
void random_uniform(InferContext& c) { random(c, "low"); }

void random_categorical(InferContext& c) {
  const Type* x = c.ranked(0);
  const auto size = param_int(c, "size");
  if (x == nullptr || x->rank() == 0) return c.set_unranked(0, dtype_of(c, 0));
  DimVec dims = dims_of(x);
  dims.back() = size ? Dim::of(*size) : Dim();
  set_dims(c, dtype_of(c, 0), dims);
}

}  // namespace sardonyx::mil::rules
