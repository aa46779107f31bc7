// MIL ops that move elements, index into tensors, or rearrange blocks.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "eval/mil/mil_kernel.h"

namespace sardonyx::eval::mil_kernels {
namespace {

using Ints = std::vector<int64_t>;

// The elements from `begin`, every `step`-th, of every axis.
struct Region {
  Ints begin, step, count;
};

Array region(const Array& x, const Region& r) {
  Ints strides(x.strides());
  int64_t offset = 0;
  for (size_t i = 0; i < x.rank(); ++i) {
    const int64_t n = x.dim(i), first = r.begin[i], last = first + (r.count[i] - 1) * r.step[i];
    if (r.count[i] < 0 || (r.count[i] > 0 && (std::min(first, last) < 0 || std::max(first, last) >= n)))
      throw Error(ErrorCode::kInvalidModel, fmt::format("the slice is out of range for axis {}, which has {} elements", i, n));
    if (r.count[i] > 0) offset += r.begin[i] * strides[i];
    strides[i] *= r.step[i];
  }
  if (product(r.count) == 0) offset = 0;
  return x.view(r.count, strides, offset);
}

// The region that slice_by_index and slice_update address.
Region indexed(const Mil& m, const Array& x, std::string_view begin_slot, std::string_view end_slot) {
  const size_t rank = x.rank();
  const Ints begin = m.ints(begin_slot), end = m.ints(end_slot), stride = m.ints("stride", Ints(rank, 1));
  const Ints begin_mask = m.ints("begin_mask", Ints(rank, 0)), end_mask = m.ints("end_mask", Ints(rank, 0)),
             squeeze_mask = m.ints("squeeze_mask", Ints(rank, 0));
  for (const Ints* list : {&begin, &end, &stride, &begin_mask, &end_mask, &squeeze_mask})
    m.c.require(list->size() == rank, "an operand does not have one element per axis of x");
  Region r;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t n = x.dim(i), step = squeeze_mask[i] != 0 ? 1 : stride[i];
    m.c.require(step != 0, "a stride is 0");
    const auto wrapped = [&](int64_t v) { return v < 0 ? std::max<int64_t>(0, v + n) : v; };
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    int64_t first = begin_mask[i] != 0 ? (step > 0 ? 0 : n - 1) : std::clamp(wrapped(begin[i]), low, high);
    if (squeeze_mask[i] != 0) {
      m.c.require(first >= 0 && first < n, "an index is out of range for its axis");
      r.begin.push_back(first);
      r.step.push_back(1);
      r.count.push_back(1);
      continue;
    }
    const int64_t last = end_mask[i] != 0 ? (step > 0 ? n : -1) : std::clamp(wrapped(end[i]), low, high);
    const int64_t reach = step > 0 ? last - first : first - last, size = step > 0 ? step : -step;
    r.begin.push_back(first);
    r.step.push_back(step);
    r.count.push_back(reach <= 0 ? 0 : (reach + size - 1) / size);
  }
  return r;
}

Ints without_squeezed(const Mil& m, const Ints& shape) {
  const Ints squeezed = m.ints("squeeze_mask", Ints(shape.size(), 0));
  Ints out;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (squeezed[i] == 0) out.push_back(shape[i]);
  }
  return out;
}

// ONNX's kernels take i32 and i64 indices.
Array wide(const Mil& m, const Array& indices) {
  const DType t = indices.dtype();
  return t == DType::kI32 || t == DType::kI64 ? indices : m.cast(indices, DType::kI64);
}

Ints iota(size_t n) {
  Ints out(n);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// The axes with `axis` first and the others in order.
Ints to_front(size_t rank, size_t axis) {
  Ints perm = iota(rank);
  std::rotate(perm.begin(), perm.begin() + static_cast<std::ptrdiff_t>(axis),
              perm.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  return perm;
}

Ints inverse(const Ints& perm) {
  Ints out(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) out[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return out;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------
// Shapes

void shape(Mil m) {
  const Ints& s = m.in("x").shape();
  m.set(m.cast(m.i64s(s), DType::kI32));
}

void reshape(Mil m) {
  const Array& x = m.in("x");
  Ints shape = m.ints("shape");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 0) continue;
    const size_t from_end = shape.size() - i;
    shape[i] = from_end > x.rank() ? 1 : x.dim(x.rank() - from_end);
  }
  Ints known;
  std::ranges::copy_if(shape, std::back_inserter(known), [](int64_t d) { return d != -1; });
  const int64_t others = product(known);
  for (int64_t& d : shape) {
    if (d == -1) d = others == 0 ? 0 : x.size() / others;
  }
  m.c.require(product(shape) == x.size(), "the shape has a different number of elements");
  m.set(m.reshape(x, shape));
}

void reshape_like(Mil m) {
  const std::vector<Array> refs = m.list("ref_tensors"), begins = m.list("begins"), ends = m.list("ends"),
                           masks = m.list("end_masks");
  m.c.require(begins.size() == refs.size() && ends.size() == refs.size() && masks.size() == refs.size(),
              "each tensor has a begin, an end and a mask");
  Ints shape;
  for (size_t i = 0; i < refs.size(); ++i) {
    const auto rank = static_cast<int64_t>(refs[i].rank());
    const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const int64_t end = masks[i].int_at(0) != 0 ? rank : clamp(ends[i].int_at(0));
    for (int64_t k = clamp(begins[i].int_at(0)); k < end; ++k) shape.push_back(refs[i].dim(static_cast<size_t>(k)));
  }
  m.c.require(product(shape) == m.in("x").size(), "the shape has a different number of elements");
  m.set(m.reshape(m.in("x"), shape));
}

void expand_dims(Mil m) { m.set(m.onnx("Unsqueeze", {m.in("x"), m.i64s(m.ints("axes"))})); }

void squeeze(Mil m) {
  const Array& x = m.in("x");
  std::vector<bool> gone(x.rank(), !m.has("axes"));
  if (m.has("axes")) {
    for (size_t a : m.c.axes(m.ints("axes"), x.rank())) gone[a] = true;
  }
  Ints shape;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (!gone[i] || x.dim(i) != 1) shape.push_back(x.dim(i));
  }
  m.set(m.reshape(x, shape));
}

void flatten2d(Mil m) {
  const Array& x = m.in("x");
  const auto rank = static_cast<int64_t>(x.rank());
  const int64_t axis = m.integer("axis", 1);
  const auto cut = static_cast<size_t>(std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank));
  m.set(m.reshape(x, {product(std::span(x.shape()).first(cut)), product(std::span(x.shape()).subspan(cut))}));
}

void transpose(Mil m) {
  const Array& x = m.in("x");
  Ints perm;
  for (size_t a : m.c.axes(m.ints("perm"), x.rank())) perm.push_back(static_cast<int64_t>(a));
  m.c.require(perm.size() == x.rank(), "perm and x have different ranks");
  m.set(x.transposed(perm));
}

void concat(Mil m) {
  std::vector<Array> values = m.list("values");
  const int64_t axis = m.integer("axis");
  for (Array& v : values) {
    if (v.rank() == 0) v = m.reshape(v, {1});
  }
  if (!m.flag("interleave")) return m.set(m.onnx("Concat", values, {attr("axis", axis)}));
  // The first of each value, then the second of each, ...
  const size_t at = m.c.axis(axis, values.at(0).rank());
  Ints shape(values[0].shape());
  shape[at] *= static_cast<int64_t>(values.size());
  const Array next = m.i64s({static_cast<int64_t>(at) + 1});
  for (Array& v : values) v = m.onnx("Unsqueeze", {v, next});
  m.set(m.reshape(m.onnx("Concat", values, {attr("axis", static_cast<int64_t>(at) + 1)}), shape));
}

void stack(Mil m) {
  std::vector<Array> values = m.list("values");
  const auto at = static_cast<int64_t>(m.c.axis(m.integer("axis"), values.at(0).rank() + 1));
  for (Array& v : values) v = m.onnx("Unsqueeze", {v, m.i64s({at})});
  m.set(m.onnx("Concat", values, {attr("axis", at)}));
}

void split(Mil m) {
  const Array& x = m.in("x");
  const size_t n = m.c.node.num_results();
  AttrInit attrs{attr("axis", m.integer("axis"))};
  std::vector<Array> in{x};
  if (m.has("split_sizes")) {
    in.push_back(m.cast(m.in("split_sizes"), DType::kI64));
  } else {
    attrs.push_back(attr("num_outputs", static_cast<int64_t>(n)));
  }
  const auto parts = m.onnx_all("Split", in, std::move(attrs), n);
  for (size_t i = 0; i < n; ++i) m.set(parts[i], i);
}

void tile(Mil m) { m.set(m.onnx("Tile", {m.in("x"), m.cast(m.in("reps"), DType::kI64)})); }

void pad(Mil m) {
  const Array& x = m.in("x");
  const Ints by = m.ints("pad");
  const size_t axes = by.size() / 2, skipped = x.rank() - axes;
  m.c.require(by.size() % 2 == 0 && axes <= x.rank(), "pad has two elements for each of the last axes");
  Ints pads(2 * x.rank(), 0);
  for (size_t i = 0; i < axes; ++i) {
    pads[skipped + i] = by[2 * i];
    pads[x.rank() + skipped + i] = by[2 * i + 1];
  }
  const std::string mode = m.text("mode", "constant");
  m.set(m.onnx("Pad", {x, m.i64s(pads), m.like(x, m.number("constant_val", 0))},
               {attr("mode", mode == "replicate" ? std::string("edge") : mode)}));
}

void fill(Mil m) {
  const Array one = m.has("value") ? m.in("value") : m.c.full(DType::kF32, {}, 0);
  const Ints shape = m.ints("shape");
  (void)product(shape);  // refuses sizes that no tensor has
  m.set(m.reshape(one, {}).broadcast_to(shape));
}

void fill_like(Mil m) {
  const Array one = m.has("value") ? m.in("value") : m.c.full(DType::kF32, {}, 0);
  m.set(m.reshape(one, {}).broadcast_to(m.in("ref_tensor").shape()));
}

void reverse(Mil m) {
  const Array& x = m.in("x");
  Region r{Ints(x.rank(), 0), Ints(x.rank(), 1), x.shape()};
  Ints axes = m.ints("axes", iota(x.rank()));
  for (size_t a : m.c.axes(axes, x.rank())) {
    r.begin[a] = x.dim(a) - 1;
    r.step[a] = -1;
  }
  m.set(m.c.dense(region(x, r)));
}

void reverse_sequence(Mil m) {
  m.set(m.onnx("ReverseSequence", {m.in("x"), m.cast(m.in("lengths"), DType::kI64)},
               {attr("batch_axis", m.integer("batch_axis")), attr("time_axis", m.integer("seq_axis"))}));
}

void sliding_windows(Mil m) {
  const Array& x = m.in("x");
  const size_t axis = m.c.axis(m.integer("axis"), x.rank());
  const int64_t size = m.integer("size"), stride = m.integer("stride", 1);
  m.c.require(stride > 0 && size > 0 && size <= x.dim(axis), "the window does not fit");
  Ints shape(x.shape()), strides(x.strides());
  shape[axis] = (x.dim(axis) - size) / stride + 1;
  const auto behind = static_cast<std::ptrdiff_t>(axis) + 1;
  shape.insert(shape.begin() + behind, size);
  strides.insert(strides.begin() + behind, strides[axis]);
  strides[axis] *= stride;
  m.set(m.c.dense(x.view(shape, strides)));
}

// Zeroes everything but a band around the diagonal of the last two axes. -1 keeps all elements on that side.
void band_part(Mil m) {
  Array x = m.in("x");
  const int64_t lower = m.integer("lower", -1), upper = m.integer("upper", -1);
  if (lower >= 0) x = m.onnx("Trilu", {x, m.reshape(m.i64s({-lower}), {})}, {attr("upper", 1)});
  if (upper >= 0) x = m.onnx("Trilu", {x, m.reshape(m.i64s({upper}), {})}, {attr("upper", 0)});
  m.set(x);
}

void depth_to_space(Mil m) {
  m.set(m.onnx("DepthToSpace", {m.in("x")}, {attr("blocksize", m.integer("block_size")), attr("mode", "DCR")}));
}

void space_to_depth(Mil m) { m.set(m.onnx("SpaceToDepth", {m.in("x")}, {attr("blocksize", m.integer("block_size"))})); }

void pixel_shuffle(Mil m) {
  m.set(m.onnx("DepthToSpace", {m.in("x")}, {attr("blocksize", m.integer("upscale_factor")), attr("mode", "CRD")}));
}

void pixel_unshuffle(Mil m) {
  const Array& x = m.in("x");
  const int64_t f = m.integer("downscale_factor");
  m.c.require(x.rank() == 4 && f > 0 && x.dim(2) % f == 0 && x.dim(3) % f == 0, "the sizes are not multiples of the factor");
  const Array split = m.reshape(x, {x.dim(0), x.dim(1), x.dim(2) / f, f, x.dim(3) / f, f});
  m.set(m.reshape(split.transposed(Ints{0, 1, 3, 5, 2, 4}), {x.dim(0), x.dim(1) * f * f, x.dim(2) / f, x.dim(3) / f}));
}

void space_to_batch(Mil m) {
  const Array& x = m.in("x");
  const Ints b = m.ints("block_shape"), by = m.ints("paddings");
  m.c.require(x.rank() == 4 && b.size() == 2 && by.size() == 4 && b[0] > 0 && b[1] > 0, "x has rank 4, and blocks two sizes");
  const Array wide = m.onnx("Pad", {x, m.i64s({0, 0, by[0], by[2], 0, 0, by[1], by[3]})});
  const int64_t h = wide.dim(2) / b[0], w = wide.dim(3) / b[1];
  const Array split = m.reshape(wide, {x.dim(0), x.dim(1), h, b[0], w, b[1]});
  m.set(m.reshape(split.transposed(Ints{3, 5, 0, 1, 2, 4}), {x.dim(0) * b[0] * b[1], x.dim(1), h, w}));
}

void batch_to_space(Mil m) {
  const Array& x = m.in("x");
  const Ints b = m.ints("block_shape"), by = m.ints("crops");
  m.c.require(x.rank() == 4 && b.size() == 2 && by.size() == 4 && b[0] > 0 && b[1] > 0, "x has rank 4, and blocks two sizes");
  const int64_t n = x.dim(0) / (b[0] * b[1]), h = x.dim(2) * b[0], w = x.dim(3) * b[1];
  const Array split = m.reshape(x, {b[0], b[1], n, x.dim(1), x.dim(2), x.dim(3)});
  const Array whole = m.reshape(split.transposed(Ints{2, 3, 4, 0, 5, 1}), {n, x.dim(1), h, w});
  m.set(m.c.dense(region(whole, {{0, 0, by[0], by[2]}, {1, 1, 1, 1}, {n, x.dim(1), h - by[0] - by[1], w - by[2] - by[3]}})));
}

void crop(Mil m) {
  const Array& x = m.in("x");
  const Ints height = m.ints("crop_height"), width = m.ints("crop_width");
  m.c.require(x.rank() >= 2 && height.size() == 2 && width.size() == 2, "x needs two axes, and each crop two sizes");
  Region r{Ints(x.rank(), 0), Ints(x.rank(), 1), x.shape()};
  for (const auto& [axis, by] : {std::pair(x.rank() - 2, height), std::pair(x.rank() - 1, width)}) {
    r.begin[axis] = by[0];
    r.count[axis] -= by[0] + by[1];
  }
  m.set(m.c.dense(region(x, r)));
}

// ---------------------------------------------------------------------------------------------------------------------
// Slices and indices

void slice_by_index(Mil m) {
  const Array& x = m.in("x");
  const Region r = indexed(m, x, "begin", "end");
  m.set(m.reshape(region(x, r), without_squeezed(m, r.count)));
}

void slice_update(Mil m) {
  const Array& x = m.in("x");
  const Region r = indexed(m, x, "begin", "end");
  Array out = m.c.make(x.dtype(), x.shape());
  copy_elements(x, out);
  Array target = region(out, r);
  copy_elements(m.reshape(m.in("update"), r.count), target);
  m.set(out);
}

void slice_by_size(Mil m) {
  const Array& x = m.in("x");
  Region r{m.ints("begin"), Ints(x.rank(), 1), m.ints("size")};
  m.c.require(r.begin.size() == x.rank() && r.count.size() == x.rank(), "begin and size have an element for each axis");
  for (size_t i = 0; i < x.rank(); ++i) {
    if (r.begin[i] < 0) r.begin[i] += x.dim(i);
    if (r.count[i] == -1) r.count[i] = x.dim(i) - r.begin[i];
    m.c.require(r.begin[i] >= 0 && r.count[i] >= 0 && r.begin[i] + r.count[i] <= x.dim(i), "the slice is out of range for x");
  }
  m.set(m.c.dense(region(x, r)));
}

void gather(Mil m) {
  const Array& x = m.in("x");
  const Array indices = wide(m, m.in("indices"));
  const size_t axis = m.c.axis(m.integer("axis"), x.rank());
  const auto batch = static_cast<size_t>(m.c.version() >= 7 ? m.integer("batch_dims") : 0);
  if (batch == 0) return m.set(m.onnx("Gather", {x, indices}, {attr("axis", static_cast<int64_t>(axis))}));
  m.c.require(batch <= axis && batch <= indices.rank(), "batch_dims is larger than the axis");
  // One gather per batch, concatenated.
  const int64_t batches = product(std::span(x.shape()).first(batch));
  Ints part(x.shape().begin() + static_cast<std::ptrdiff_t>(batch), x.shape().end());
  Ints index_part(indices.shape().begin() + static_cast<std::ptrdiff_t>(batch), indices.shape().end());
  Ints all(part), all_indices(index_part);
  all.insert(all.begin(), batches);
  all_indices.insert(all_indices.begin(), batches);
  const Array xs = m.reshape(x, all), is = m.reshape(indices, all_indices);
  std::vector<Array> parts;
  for (int64_t i = 0; i < batches; ++i) {
    const Array number = m.reshape(m.i64s({i}), {});
    const Array one = m.onnx("Gather", {xs, number}, {attr("axis", 0)}), at = m.onnx("Gather", {is, number}, {attr("axis", 0)});
    parts.push_back(m.onnx("Gather", {one, at}, {attr("axis", static_cast<int64_t>(axis - batch))}));
  }
  Ints shape(parts.at(0).shape());
  shape.insert(shape.begin(), x.shape().begin(), x.shape().begin() + static_cast<std::ptrdiff_t>(batch));
  for (Array& p : parts) p = m.onnx("Unsqueeze", {p, m.i64s({0})});
  m.set(m.reshape(m.onnx("Concat", parts, {attr("axis", 0)}), shape));
}

void gather_along_axis(Mil m) {
  m.set(m.onnx("GatherElements", {m.in("x"), wide(m, m.in("indices"))}, {attr("axis", m.integer("axis"))}));
}

void gather_nd(Mil m) {
  m.set(m.onnx("GatherND", {m.in("x"), m.cast(m.in("indices"), DType::kI64)},
               {attr("batch_dims", m.c.version() >= 7 ? m.integer("batch_dims") : 0)}));
}

namespace {

// How an update changes an element: ONNX's name for it, and the updates in the form it expects.
std::string reduction(const Mil& m, Array& updates) {
  std::string mode = m.text("mode", "add");
  if (mode == "update") return "none";
  if (mode == "sub") {
    updates = m.onnx("Neg", {updates});
    return "add";
  }
  if (mode == "div") m.c.unsupported("scatter by division is not evaluated");
  return mode;
}

}  // namespace

void scatter(Mil m) {
  const Array& data = m.in("data");
  const Array& indices = m.in("indices");
  Array updates = m.in("updates");
  const size_t axis = m.c.axis(m.integer("axis"), data.rank());
  const std::string mode = reduction(m, updates);
  // Move the axis and the indexed axes to the front, then scatter rows.
  m.c.require(updates.rank() >= axis + indices.rank(), "the updates have too few axes");
  const Ints perm = to_front(data.rank(), axis);
  Ints update_perm = iota(updates.rank());
  const auto first = update_perm.begin() + static_cast<std::ptrdiff_t>(axis);
  std::rotate(update_perm.begin(), first, first + static_cast<std::ptrdiff_t>(indices.rank()));
  Ints index_shape(indices.shape());
  index_shape.push_back(1);
  const Array at = m.reshape(m.cast(indices, DType::kI64), index_shape);
  const Array rows = m.onnx("ScatterND", {m.c.dense(data.transposed(perm)), at, m.c.dense(updates.transposed(update_perm))},
                            {attr("reduction", mode)});
  m.set(m.c.dense(rows.transposed(inverse(perm))));
}

void scatter_along_axis(Mil m) {
  Array updates = m.in("updates");
  const std::string mode = reduction(m, updates);
  m.set(m.onnx("ScatterElements", {m.in("data"), wide(m, m.in("indices")), updates},
               {attr("axis", m.integer("axis")), attr("reduction", mode)}));
}

void scatter_nd(Mil m) {
  Array updates = m.in("updates");
  const std::string mode = reduction(m, updates);
  m.set(m.onnx("ScatterND", {m.in("data"), m.cast(m.in("indices"), DType::kI64), updates}, {attr("reduction", mode)}));
}

void one_hot(Mil m) {
  const Array on = m.has("on_value") ? m.in("on_value") : m.c.full(DType::kI32, {}, 1);
  const Array off = m.has("off_value") ? m.in("off_value") : m.c.full(on.dtype(), {}, 0);
  const Array values = m.onnx("Concat", {m.reshape(off, {1}), m.reshape(m.cast(on, off.dtype()), {1})}, {attr("axis", 0)});
  m.set(m.onnx("OneHot", {m.in("indices"), m.i64s({m.integer("one_hot_vector_size")}), values},
               {attr("axis", m.integer("axis", -1))}));
}

void non_zero(Mil m) {
  if (m.in("x").rank() == 0) {  // a scalar has no coordinates: an empty row per nonzero element
    const bool any = m.onnx("Cast", {m.in("x")}, {attr("to", static_cast<int64_t>(DType::kBool))}).int_at(0) != 0;
    return m.set(m.c.make(DType::kI32, {any ? 1 : 0, 0}));
  }
  const Array found = m.onnx("NonZero", {m.in("x")});  // one row for each axis
  m.set(m.cast(m.c.dense(found.transposed(Ints{1, 0})), DType::kI32));
}

void argsort(Mil m) {
  const Array& x = m.in("x");
  const size_t axis = m.c.axis(m.integer("axis", -1), x.rank());
  const auto out = m.onnx_all("TopK", {x, m.i64s({x.dim(axis)})},
                              {attr("axis", static_cast<int64_t>(axis)), attr("largest", m.flag("ascending") ? 0 : 1)}, 2);
  m.set(m.cast(out[1], DType::kI32));
}

void topk(Mil m) {
  const auto out = m.onnx_all("TopK", {m.in("x"), m.i64s({m.integer("k", 1)})},
                              {attr("axis", m.integer("axis", -1)), attr("largest", m.flag("ascending") ? 0 : 1)}, 2);
  m.set(out[0], 0);
  m.set(m.cast(out[1], m.has("output_indices_dtype") ? m.dtype("output_indices_dtype") : DType::kI32), 1);
}

void range_1d(Mil m) { m.set(m.onnx("Range", {m.in("start"), m.in("end"), m.in("step")})); }

// ---------------------------------------------------------------------------------------------------------------------
// Blocks

void cond(Mil m) {
  m.c.require(m.in("pred").size() == 1, "a condition is one truth value");
  const bool yes = m.in("pred").int_at(0) != 0;
  m.c.results = m.c.run_body(m.c.body(yes ? "true_fn" : "false_fn"), {});
}

void while_loop(Mil m) {
  const size_t test = m.c.body("cond"), body = m.c.body("body");
  std::vector<EvalValue> state;
  for (size_t i = 0; i < m.c.num_inputs(); ++i) state.push_back(m.c.value(i));
  while (true) {
    const auto go_on = m.c.run_body(test, state);
    m.c.require(go_on.size() == 1 && go_on[0].array() != nullptr && go_on[0].array()->size() == 1,
                "a condition is one truth value");
    if (go_on[0].array()->int_at(0) == 0) break;
    m.c.count_iteration();
    state = m.c.run_body(body, std::move(state));
  }
  m.c.results = std::move(state);
}

}  // namespace sardonyx::eval::mil_kernels
