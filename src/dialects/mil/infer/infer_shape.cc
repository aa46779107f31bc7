// Ops that rearrange elements: shapes, list slices, concatenation.
#include <fmt/format.h>

#include <algorithm>

#include "dialects/mil/infer/rule_util.h"
#include "dialects/mil/infer/rules.h"

namespace sardonyx::mil::rules {

void shape(InferContext& c) {
  const Type* x = c.ranked(0);
  if (x == nullptr) return set_dims(c, DType::kI32, DimVec{Dim()});
  set_dims(c, DType::kI32, DimVec{Dim::of(static_cast<int64_t>(x->rank()))});
  c.set_value(0, {false, dims_of(x)});
}

void reshape(InferContext& c) {
  need_rank(c, 1, 1);
  auto target = c.value(1);
  const Type* x = c.ranked(0);
  if (target && x != nullptr) {
    // 0 copies a size. Until iOS 16 the ranks must be equal; from iOS 17 on positions count from the end, and
    // missing sizes of x are 1.
    auto& sizes = target->elements;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (!sizes[i].is(0)) continue;
      const size_t from_end = sizes.size() - i;
      if (from_end > x->rank() && c.version() < 8) c.fail("a 0 in shape copies a size that x does not have");
      sizes[i] = from_end > x->rank() ? Dim::of(1) : x->dim(x->rank() - from_end);
    }
  }
  onnx::rules::reshape_to(c, target, /*zero_is_zero=*/true);
}

void reshape_like(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Range refs = list(c, "ref_tensors"), begins = list(c, "begins"), ends = list(c, "ends"), masks = list(c, "end_masks");
  DimVec dims;
  for (size_t i = 0; refs.first + i < refs.last; ++i) {
    const Type* ref = c.ranked(refs.first + i);
    const auto begin = scalar_int(c, begins.first + i), end = scalar_int(c, ends.first + i),
               mask = scalar_int(c, masks.first + i);
    if (ref == nullptr || !begin || !end || !mask) return c.set_unranked(0, dtype);
    const auto rank = static_cast<int64_t>(ref->rank());
    const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    for (int64_t k = clamp(*begin); k < (*mask != 0 ? rank : clamp(*end)); ++k)
      dims.push_back(ref->dim(static_cast<size_t>(k)));
  }
  set_dims(c, dtype, dims);
}

void transpose(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  const auto perm = param_ints(c, "perm");
  if (x == nullptr) return c.set_unranked(0, dtype);
  if (!perm) return set_dims(c, dtype, DimVec(x->rank()));
  if (perm->size() != x->rank()) c.fail(fmt::format("perm has {} elements, x has rank {}", perm->size(), x->rank()));
  DimVec dims;
  for (size_t axis : normal_axes(c, *perm, x->rank(), "perm")) dims.push_back(x->dim(axis));
  set_dims(c, dtype, dims);
}

void expand_dims(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  const auto axes = param_ints(c, "axes");
  if (x == nullptr || !axes) return c.set_unranked(0, dtype);
  const size_t rank = x->rank() + axes->size();
  std::vector<bool> added(rank);
  for (size_t a : normal_axes(c, *axes, rank)) added[a] = true;
  DimVec dims;
  for (size_t i = 0, from = 0; i < rank; ++i) dims.push_back(added[i] ? Dim::of(1) : x->dim(from++));
  set_dims(c, dtype, dims);
  if (rank == 1) {
    if (auto v = c.value(0)) c.set_value(0, {false, std::move(v->elements)});
  }
}

void squeeze(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  if (x == nullptr) return c.set_unranked(0, dtype);
  std::vector<bool> removed(x->rank());
  if (given(c, "axes")) {
    const auto axes = param_ints(c, "axes");
    if (!axes) return c.set_unranked(0, dtype);
    for (size_t a : normal_axes(c, *axes, x->rank())) removed[a] = true;
  } else {
    for (size_t i = 0; i < x->rank(); ++i) removed[i] = x->dim(i).is(1);
  }
  DimVec dims;
  for (size_t i = 0; i < x->rank(); ++i) {
    // An axis of another size is not squeezed. Nor, in the types that coremltools writes, is one of unknown
    // size.
    if (!removed[i] || !x->dim(i).is(1)) dims.push_back(x->dim(i));
  }
  set_dims(c, dtype, dims);
  if (dims.empty()) {
    if (auto v = c.value(0); v && v->elements.size() == 1) c.set_value(0, {true, std::move(v->elements)});
  }
}

void flatten2d(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  const auto axis = param_int(c, "axis");
  if (x == nullptr || !axis) return set_dims(c, dtype, DimVec(2));
  const auto rank = static_cast<int64_t>(x->rank());
  const auto cut = static_cast<size_t>(std::clamp<int64_t>(*axis < 0 ? *axis + rank : *axis, 0, rank));
  set_dims(c, dtype, DimVec{c.dims().product(x->dims().first(cut)), c.dims().product(x->dims().subspan(cut))});
}

void concat(InferContext& c) {
  const Range values = list(c, "values");
  if (values.first == values.last) c.fail("takes one operand or more");
  const DType dtype = dtype_of(c, values.first);
  const auto axis = param_int(c, "axis");
  DimVec dims;
  Dim sum = Dim::of(0);
  size_t at = 0;
  for (size_t i = values.first; i < values.last; ++i) {
    const Type* t = c.ranked(i);
    if (t == nullptr || !axis) return c.set_unranked(0, dtype);
    if (dtype_of(c, i) != dtype && dtype_of(c, i) != DType::kUndefined && dtype != DType::kUndefined)
      c.fail(fmt::format("operands have different element types, {} and {}", to_string(dtype), to_string(dtype_of(c, i))));
    if (t->rank() == 0) {  // scalars become rank 1
      sum = add(c, sum, Dim::of(1));
      dims.resize(1);
      continue;
    }
    if (i == values.first) {
      dims = dims_of(t);
      at = normal_axis(c, *axis, t->rank());
      sum = t->dim(at);
      continue;
    }
    if (t->rank() != dims.size()) c.fail(fmt::format("operands have ranks {} and {}", dims.size(), t->rank()));
    for (size_t k = 0; k < dims.size(); ++k) {
      if (k != at) dims[k] = same_dim(c, dims[k], t->dim(k), "sizes outside of the axis");
    }
    sum = add(c, sum, t->dim(at));
  }
  dims[at] = sum;
  set_dims(c, dtype, dims);
  if (dims.size() != 1 || !carries_value(c.node().result(0)->type()) || param_bool(c, "interleave")) return;
  SymbolicValue all;
  for (size_t i = values.first; i < values.last; ++i) {
    const auto v = c.value(i);
    if (v) {
      all.elements.insert(all.elements.end(), v->elements.begin(), v->elements.end());
      continue;
    }
    const Type* t = c.ranked(i);
    const auto n = t->rank() == 0 ? std::optional<size_t>(1) : list_length(c, i);
    if (!n) return;
    for (size_t k = 0; k < *n; ++k) all.elements.push_back(c.dims().fresh_unknown());
  }
  c.set_value(0, std::move(all));
}

void stack(InferContext& c) {
  const Range values = list(c, "values");
  if (values.first == values.last) c.fail("takes one operand or more");
  const DType dtype = dtype_of(c, values.first);
  const auto axis = param_int(c, "axis");
  DimVec dims;
  for (size_t i = values.first; i < values.last; ++i) {
    const Type* t = c.ranked(i);
    if (t == nullptr || !axis) return c.set_unranked(0, dtype);
    dims = i == values.first ? dims_of(t) : same_dims(c, dims, t->dims(), "the shapes of the operands");
  }
  const size_t at = normal_axis(c, *axis, dims.size() + 1);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), Dim::of(static_cast<int64_t>(values.last - values.first)));
  set_dims(c, dtype, dims);
  if (dims.size() != 1 || !carries_value(c.node().result(0)->type())) return;
  SymbolicValue all;
  for (size_t i = values.first; i < values.last; ++i)
    all.elements.push_back(scalar_value(c, i).value_or(c.dims().fresh_unknown()));
  c.set_value(0, std::move(all));
}

void split(InferContext& c) {
  const size_t slot = operand(c, "x");
  if (slot == kNoSlot) c.fail("x is required");
  const Type* x = c.ranked(slot);
  const DType dtype = dtype_of(c, slot);
  const auto axis = param_int(c, "axis");
  const size_t n = c.num_results();
  if (x == nullptr || !axis) {
    for (size_t i = 0; i < n; ++i) c.set_unranked(i, dtype);
    return;
  }
  const size_t at = normal_axis(c, *axis, x->rank());
  DimVec sizes(n);
  if (given(c, "split_sizes")) {
    const auto list = c.value(operand(c, "split_sizes"));
    if (list && list->elements.size() != n) c.fail(fmt::format("{} sizes for {} results", list->elements.size(), n));
    if (list) sizes = list->elements;
  } else {
    const auto count = param_int(c, "num_splits");
    if (count && *count != static_cast<int64_t>(n)) c.fail(fmt::format("num_splits is {}, there are {} results", *count, n));
    const Dim whole = x->dim(at);
    if (whole.is_int() && whole.value() % static_cast<int64_t>(n) != 0)
      c.fail(fmt::format("{} does not divide into {} equal parts", whole.value(), n));
    const auto part = c.dims().divide_exactly(whole, Dim::of(static_cast<int64_t>(n)));
    for (Dim& d : sizes) d = part ? *part : Dim();
  }
  for (size_t i = 0; i < n; ++i) {
    DimVec dims = dims_of(x);
    dims[at] = sizes[i];
    set_dims(c, dtype, dims, i);
  }
}

void tile(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  if (x == nullptr) return c.set_unranked(0, dtype);
  const auto reps = c.value(1);
  if (!reps) return set_dims(c, dtype, DimVec(x->rank()));
  if (reps->elements.size() != x->rank())
    c.fail(fmt::format("reps has {} elements, x has rank {}", reps->elements.size(), x->rank()));
  DimVec dims;
  for (size_t i = 0; i < x->rank(); ++i) dims.push_back(mul(c, x->dim(i), reps->elements[i]));
  set_dims(c, dtype, dims);
}

void pad(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  if (x == nullptr) return c.set_unranked(0, dtype);
  const size_t slot = operand(c, "pad");
  const auto pads = slot == kNoSlot ? std::nullopt : c.value(slot);
  DimVec dims = dims_of(x);
  if (!pads) {
    const auto n = slot == kNoSlot ? std::nullopt : list_length(c, slot);
    const size_t axes = n ? std::min(*n / 2, dims.size()) : dims.size();
    for (size_t i = dims.size() - axes; i < dims.size(); ++i) dims[i] = Dim();
    return set_dims(c, dtype, dims);
  }
  const size_t axes = pads->elements.size() / 2;
  if (pads->elements.size() % 2 != 0 || axes > dims.size())
    c.fail(fmt::format("pad has {} elements for an x of rank {}", pads->elements.size(), dims.size()));
  for (size_t i = 0; i < axes; ++i) {
    Dim& d = dims[dims.size() - axes + i];
    const Dim before = pads->elements[2 * i], after = pads->elements[2 * i + 1];
    if ((before.is_int() && before.value() < 0) || (after.is_int() && after.value() < 0)) c.fail("pad has a negative element");
    d = add(c, add(c, d, before), after);
  }
  set_dims(c, dtype, dims);
}

void fill(InferContext& c) {
  const size_t value = operand(c, "value");
  const DType dtype = value == kNoSlot ? DType::kF32 : dtype_of(c, value);
  const auto sizes = c.value(0);
  if (!sizes) {
    const auto n = list_length(c, 0);
    if (!n) return c.set_unranked(0, dtype);
    return set_dims(c, dtype, DimVec(*n));
  }
  set_dims(c, dtype, sizes->elements);
  if (value == kNoSlot || !carries_value(c.node().result(0)->type())) return;
  const auto what = scalar_value(c, value);
  const Type* t = c.node().result(0)->type();
  if (!what || t->rank() != 1 || !t->dim(0).is_int() || t->dim(0).value() > 64) return;
  c.set_value(0, {false, DimVec(static_cast<size_t>(t->dim(0).value()), *what)});
}

void fill_like(InferContext& c) {
  const size_t value = operand(c, "value"), like = operand(c, "ref_tensor");
  const DType dtype = value == kNoSlot ? DType::kF32 : dtype_of(c, value);
  if (like != kNoSlot) set_same_shape(c, dtype, like);
}

// ---------------------------------------------------------------------------------------------------------------------
// Space to depth and back

namespace {

// x is [n, c, h, w]. Multiplies sizes, or divides them if there is no remainder.
void spread(InferContext& c, std::string_view name, bool to_space) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  const auto block = param_int(c, name);
  if (x == nullptr || !block) return c.set_unranked(0, dtype);
  need_rank(c, 0, 4);
  if (*block < 1) c.fail(fmt::format("{} is {}", name, *block));
  const auto divided = [&](Dim d, int64_t by) {
    if (d.is_int()) return Dim::of(d.value() / by);
    const auto exact = c.dims().divide_exactly(d, Dim::of(by));
    return exact ? *exact : c.dims().floordiv(d, Dim::of(by));
  };
  const int64_t b = *block;
  if (to_space) {
    set_dims(c, dtype,
             DimVec{x->dim(0), divided(x->dim(1), b * b), mul(c, x->dim(2), Dim::of(b)), mul(c, x->dim(3), Dim::of(b))});
  } else {
    set_dims(c, dtype, DimVec{x->dim(0), mul(c, x->dim(1), Dim::of(b * b)), divided(x->dim(2), b), divided(x->dim(3), b)});
  }
}

}  // namespace

void depth_to_space(InferContext& c) { spread(c, "block_size", true); }
void space_to_depth(InferContext& c) { spread(c, "block_size", false); }
void pixel_shuffle(InferContext& c) { spread(c, "upscale_factor", true); }
void pixel_unshuffle(InferContext& c) { spread(c, "downscale_factor", false); }

namespace {

void batches(InferContext& c, std::string_view border, bool to_batch) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  const auto block = param_ints(c, "block_shape"), by = param_ints(c, border);
  if (x == nullptr || !block || !by) return c.set_unranked(0, dtype);
  need_rank(c, 0, 4);
  if (block->size() != 2 || by->size() != 4) c.fail(fmt::format("block_shape has two elements and {} two rows of two", border));
  for (int64_t n : *block) {
    if (n < 1) c.fail(fmt::format("block_shape has {}", n));
  }
  const int64_t all = (*block)[0] * (*block)[1];
  const auto divided = [&](Dim d, int64_t n) {
    if (d.is_int() && d.value() % n != 0) c.fail(fmt::format("{} is not a multiple of {}", d.value(), n));
    return c.dims().divide_exactly(d, Dim::of(n)).value_or(c.dims().fresh_unknown());
  };
  DimVec dims = dims_of(x);
  dims[0] = to_batch ? mul(c, dims[0], Dim::of(all)) : divided(dims[0], all);
  for (size_t i = 0; i < 2; ++i) {
    const Dim edge = Dim::of((*by)[2 * i] + (*by)[2 * i + 1]), n = Dim::of((*block)[i]);
    Dim& d = dims[i + 2];
    d = to_batch ? divided(add(c, d, edge), n.value()) : sub(c, mul(c, d, n), edge);
  }
  set_dims(c, dtype, dims);
}

}  // namespace

void space_to_batch(InferContext& c) { batches(c, "paddings", true); }
void batch_to_space(InferContext& c) { batches(c, "crops", false); }

void sliding_windows(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  const auto axis = param_int(c, "axis"), size = param_int(c, "size"), stride = param_int(c, "stride");
  if (x == nullptr || !axis || !size || !stride) return c.set_unranked(0, dtype);
  if (*stride < 1) c.fail("the stride is less than 1");
  const size_t at = normal_axis(c, *axis, x->rank());
  DimVec dims = dims_of(x);
  dims[at] = add(c, floordiv(c, sub(c, dims[at], Dim::of(*size)), *stride), Dim::of(1));
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at) + 1, Dim::of(*size));
  set_dims(c, dtype, dims);
}

}  // namespace sardonyx::mil::rules
