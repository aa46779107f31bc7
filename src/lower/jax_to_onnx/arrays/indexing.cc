#include "lower/jax_to_onnx/arrays/indexing.h"

#include <algorithm>
#include <numeric>

#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/lib/wide_integers.h"

namespace sardonyx::jax_to_onnx {
namespace {

bool contains(const std::vector<int64_t>& v, int64_t x) { return std::ranges::find(v, x) != v.end(); }

std::vector<int64_t> counting(size_t from, size_t n) {
  std::vector<int64_t> v(n);
  std::iota(v.begin(), v.end(), static_cast<int64_t>(from));
  return v;
}

}  // namespace

Indexing::Indexing(std::span<const Dim> operand, std::span<const Dim> indices, std::span<const Dim> slice_sizes, Ints map,
                   Ints batching_axes, Ints index_batching_axes, bool need_index)
    : batching(std::move(batching_axes)),
      index_batching(std::move(index_batching_axes)),
      operand_dims(operand.begin(), operand.end()),
      index_dims(indices.begin(), indices.end() - 1),
      index_map(std::move(map)),
      slice(slice_sizes.begin(), slice_sizes.end()) {
  for (size_t a = 0; a < operand_dims.size(); ++a) {
    const auto axis = static_cast<int64_t>(a);
    if (contains(batching, axis)) continue;
    const auto named = std::ranges::find(index_map, axis);
    const bool all = slice[a] == operand_dims[a];
    if (all) {
      whole.push_back(axis);
      continue;
    }
    indexed.push_back(axis);
    component.push_back(named - index_map.begin());
    if (named == index_map.end()) {  // a window that always starts at 0
      index_map.push_back(axis);
      ++zeros;
    }
    window.push_back(slice[a]);
  }
  if (need_index && indexed.empty() && !index_map.empty()) {
    const int64_t axis = index_map[0];
    std::erase(whole, axis);
    indexed.push_back(axis);
    component.push_back(0);
    window.push_back(slice[static_cast<size_t>(axis)]);
  }
  for (size_t i = 0; i < index_dims.size(); ++i) {
    if (!contains(index_batching, static_cast<int64_t>(i))) free.push_back(static_cast<int64_t>(i));
  }
}

Indexing::Ints Indexing::operand_perm() const {
  Ints perm = batching;
  perm.insert(perm.end(), indexed.begin(), indexed.end());
  perm.insert(perm.end(), whole.begin(), whole.end());
  return perm;
}

std::vector<size_t> Indexing::windows() const {
  std::vector<size_t> out;
  for (size_t i = 0; i < window.size(); ++i) {
    if (!window[i].is(1)) out.push_back(i);
  }
  return out;
}

Indexing::Ints Indexing::lead_labels() const {
  Ints labels;
  for (int64_t a : index_batching) labels.push_back(kIndexAxis + a);
  for (int64_t a : free) labels.push_back(kIndexAxis + a);
  return labels;
}

void number_index_axes(std::vector<int64_t>& labels) {
  int64_t next = kIndexAxis;
  for (int64_t& label : labels) {
    if (label < 0) label = next++;
  }
}

std::vector<Dim> Indexing::lead() const {
  std::vector<Dim> out;
  for (int64_t a : index_batching) out.push_back(index_dims[static_cast<size_t>(a)]);
  for (int64_t a : free) out.push_back(index_dims[static_cast<size_t>(a)]);
  return out;
}

Value* Indexing::vectors(Lowering& ctx, Value* indices) const {
  Ints perm = index_batching;
  perm.insert(perm.end(), free.begin(), free.end());
  perm.push_back(static_cast<int64_t>(index_dims.size()));
  Value* given = ctx.transpose(ctx.cast(indices, DType::kI64), perm);
  if (zeros == 0) return given;
  std::vector<Dim> dims = lead();
  dims.push_back(Dim::of(zeros));
  Value* starts[] = {given, ctx.zeros(DType::kI64, dims)};
  return ctx.concat(starts, static_cast<int64_t>(dims.size()) - 1);
}

namespace {

// The columns of index vectors that a Concat joins from single components; empty for other vectors.
std::vector<Value*> columns_of(const Value& vectors) {
  const Node* made_by = vectors.def();
  if (made_by != nullptr && made_by->is("Cast")) made_by = made_by->input(0)->def();
  if (made_by == nullptr || !made_by->is("Concat")) return {};
  const auto last = static_cast<int64_t>(vectors.type()->rank()) - 1;
  const int64_t axis = made_by->attr_int("axis", 0);
  if (axis != last && axis != -1) return {};
  std::vector<Value*> columns;
  for (const Use& part : made_by->operands()) {
    if (!part.value->ranked() || !part.value->type()->dim(static_cast<size_t>(last)).is(1)) return {};
    columns.push_back(part.value);
  }
  return columns;
}

// The given components of index vectors that a Concat joins, as batched dynamic_slice does. Other components,
// such as a column of zeros, are dropped. Null for other vectors.
Value* picked(Lowering& ctx, const Value& vectors, const Indexing::Ints& component) {
  const std::vector<Value*> columns = columns_of(vectors);
  if (component.empty() || columns.empty()) return nullptr;
  std::vector<Value*> wanted;
  for (const int64_t c : component) {
    if (c >= static_cast<int64_t>(columns.size())) return nullptr;
    wanted.push_back(ctx.cast(columns[static_cast<size_t>(c)], DType::kI64));
  }
  return ctx.concat(wanted, static_cast<int64_t>(vectors.type()->rank()) - 1);
}

}  // namespace

Value* Indexing::unwrapped(Lowering& ctx, Value* indices, std::vector<Dim>& lows) const {
  std::vector<Value*> columns = columns_of(*indices);
  lows.assign(index_map.size(), Dim::of(0));
  bool any = false;
  for (size_t k = 0; k < columns.size() && k < index_map.size(); ++k) {
    const auto axis = static_cast<size_t>(index_map[k]);
    // Only for windows of size 1: a longer one that starts before the end would continue at the beginning.
    Value* own = slice[axis].is(1) ? before_wrapping(ctx, columns[k], operand_dims[axis]) : nullptr;
    if (own == nullptr) continue;
    const auto dims = columns[k]->type()->dims();
    const bool is_one_axis_short = std::ranges::equal(own->type()->dims(), dims.first(dims.size() - 1));
    columns[k] = is_one_axis_short ? ctx.unsqueeze(own, Ints{static_cast<int64_t>(dims.size()) - 1}) : ctx.reshape(own, dims);
    lows[k] = ctx.b.dims().sub(Dim::of(0), operand_dims[axis]);
    any = true;
  }
  return any ? ctx.concat(columns, static_cast<int64_t>(indices->type()->rank()) - 1) : indices;
}

Value* Indexing::starts(Lowering& ctx, Value* vectors) const {
  if (component == counting(0, index_map.size())) return vectors;
  if (Value* some = picked(ctx, *vectors, component)) return some;
  return ctx.b.Gather(vectors, ctx.b.i64s(component), {.axis = -1});
}

std::vector<Dim> Indexing::limits(Lowering& ctx) const {
  std::vector<Dim> found;
  for (size_t k = 0; k + static_cast<size_t>(zeros) < index_map.size(); ++k) {
    const auto axis = static_cast<size_t>(index_map[k]);
    found.push_back(ctx.b.dims().sub(operand_dims[axis], slice[axis]));
  }
  return found;
}

namespace {

// 0 if all are; else a tensor.
Value* low_ends(Lowering& ctx, std::span<const Dim> lows) {
  return std::ranges::all_of(lows, [](Dim d) { return d.is(0); }) ? ctx.b.i64(0) : ctx.shape(lows);
}

}  // namespace

Value* Indexing::inside(Lowering& ctx, Value* vectors, const std::vector<Dim>& lows) const {
  if (index_map.empty()) return nullptr;
  std::vector<Dim> limits;
  for (int64_t a : index_map)
    limits.push_back(ctx.b.dims().sub(operand_dims[static_cast<size_t>(a)], slice[static_cast<size_t>(a)]));
  Value* low = ctx.b.GreaterOrEqual(vectors, low_ends(ctx, lows));
  Value* high = ctx.b.LessOrEqual(vectors, ctx.shape(limits));
  Value* both = ctx.b.And(low, high);
  const auto last = static_cast<int64_t>(vectors->type()->rank()) - 1;
  if (limits.size() == 1) return ctx.squeeze(both, Ints{last});
  return reduce(ctx, "ReduceMin", both, Ints{last});
}

Value* Indexing::clamped(Lowering& ctx, Value* starts, const std::vector<Dim>& lows) const {
  if (indexed.empty()) return starts;
  std::vector<Dim> limits, firsts;
  for (size_t i = 0; i < indexed.size(); ++i) {
    limits.push_back(ctx.b.dims().sub(operand_dims[static_cast<size_t>(indexed[i])], window[i]));
    firsts.push_back(lows.empty() ? Dim::of(0) : lows[static_cast<size_t>(component[i])]);
  }
  return clamped_index(ctx, starts, low_ends(ctx, firsts), ctx.shape(limits));
}

Value* Indexing::grid(Lowering& ctx, Value* starts, bool batch_counters) const {
  const std::vector<size_t> with_axis = windows();
  const size_t lead_rank = batching.size() + free.size();
  if (!with_axis.empty()) {
    // Offsets [windows.., indexed]: an iota along each window's own axis.
    std::vector<Dim> sizes;
    for (size_t i : with_axis) sizes.push_back(window[i]);
    sizes.push_back(Dim::of(1));
    std::vector<Value*> columns;
    for (size_t i = 0; i < indexed.size(); ++i) {
      const auto axis = std::ranges::find(with_axis, i);
      if (axis == with_axis.end()) {
        columns.push_back(ctx.zeros(DType::kI64, sizes));
        continue;
      }
      std::vector<Dim> along(sizes.size(), Dim::of(1));
      along[static_cast<size_t>(axis - with_axis.begin())] = window[i];
      columns.push_back(ctx.expand(ctx.reshape(ctx.iota(DType::kI64, window[i]), along), sizes));
    }
    Value* offsets = ctx.concat(columns, static_cast<int64_t>(with_axis.size()));
    starts = ctx.b.Add(ctx.unsqueeze(starts, counting(lead_rank, with_axis.size())), offsets);
  }
  if (!batch_counters || batching.empty()) return starts;
  std::vector<Dim> sizes = lead();
  for (size_t i : with_axis) sizes.push_back(window[i]);
  sizes.push_back(Dim::of(1));
  std::vector<Value*> columns;
  for (size_t i = 0; i < batching.size(); ++i) {
    std::vector<Dim> along(sizes.size(), Dim::of(1));
    along[i] = sizes[i];
    columns.push_back(ctx.expand(ctx.reshape(ctx.iota(DType::kI64, sizes[i]), along), sizes));
  }
  columns.push_back(starts);
  return ctx.concat(columns, static_cast<int64_t>(sizes.size()) - 1);
}

Value* before_wrapping(Lowering& ctx, Value* index, Dim size) {
  const auto is_number = [&](const Value* v, Dim wanted) {
    if (const TensorPtr& known = v->constant()) return known->size() == 1 && wanted.is(known->as_int(0));
    const SymbolicValue* known = ctx.b.facts().find(*v);
    return known != nullptr && known->elements.size() == 1 && known->elements[0] == wanted;
  };
  const Node* n = index->def();
  while (n != nullptr && (n->is("Unsqueeze") || n->is("Reshape") || n->is("Cast"))) {
    if (n->is("Cast") && n->input(0)->dtype() != DType::kI32) return nullptr;
    n = n->input(0)->def();
  }
  if (n == nullptr || !n->is("Where")) return nullptr;
  Value* own = n->input(2);
  const Node *negative = n->input(0)->def(), *wrapped = n->input(1)->def();
  if (negative == nullptr || !negative->is("Less") || negative->input(0) != own || !is_number(negative->input(1), Dim::of(0)))
    return nullptr;
  if (wrapped == nullptr || !wrapped->is("Add") || wrapped->input(0) != own || !is_number(wrapped->input(1), size))
    return nullptr;
  return own->dtype() == DType::kI32 || own->dtype() == DType::kI64 ? own : nullptr;
}

Value* arrange(Lowering& ctx, Value* x, const std::vector<int64_t>& from, const std::vector<int64_t>& to,
               std::span<const Dim> dims) {
  std::vector<int64_t> kept, dropped, perm;
  for (size_t i = 0; i < from.size(); ++i) {
    if (contains(to, from[i]))
      kept.push_back(from[i]);
    else
      dropped.push_back(static_cast<int64_t>(i));
  }
  if (!dropped.empty()) x = ctx.squeeze(x, dropped);
  for (int64_t label : to) {
    const auto place = std::ranges::find(kept, label);
    if (place != kept.end()) perm.push_back(place - kept.begin());
  }
  return ctx.reshape(ctx.transpose(x, perm), dims);
}

}  // namespace sardonyx::jax_to_onnx
