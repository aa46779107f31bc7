// gather operand, indices   =>   Gather, Slice, GatherElements or GatherND
//
// All of JAX's dimension numbers and modes. In mode `fill`, windows that stick out become the fill value; in
// mode `clip` they are shifted inside. `promise_in_bounds`, the mode of x[i], clips too, as XLA does:
// programs break the promise (padded neighbor lists, ignored labels), and a runtime refuses such an index.
// Indices that provably lie in bounds need neither.
#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "lower/jax_to_onnx/arrays/index_bounds.h"
#include "lower/jax_to_onnx/arrays/indexing.h"
#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/lib/complex.h"
#include "lower/jax_to_onnx/lib/wide_integers.h"

namespace sardonyx::jax_to_onnx {
namespace {

using Ints = std::vector<int64_t>;

// If `imaginary`, zero: the fill value is a real number.
Value* fill_value(Lowering& ctx, DType t, bool imaginary) {
  if (imaginary) return ctx.b.scalar(t, 0);
  if (const Attr* given = ctx.find_param("fill_value")) {
    if (const auto* v = given->get<double>()) return ctx.b.scalar(t, *v);
    if (const auto* v = given->get<int64_t>())
      return is_float(t) ? ctx.b.scalar(t, static_cast<double>(*v)) : ctx.b.scalar_int(t, *v);
    if (const auto* v = given->get<bool>()) return is_float(t) ? ctx.b.scalar(t, *v) : ctx.b.scalar_int(t, *v);
    if (const auto* v = given->get<TensorPtr>(); v && (*v)->size() == 1) return ctx.cast(ctx.b.constant((*v)->reshaped({})), t);
    // A number beyond i64: jnp.take fills u64 with its largest number.
    if (const auto* v = given->get<OpaqueAttr>(); v && t == DType::kU64) {
      uint64_t number = 0;
      const char* end = v->text.data() + v->text.size();
      if (std::from_chars(v->text.data(), end, number).ptr == end) return ctx.b.scalar_int(t, static_cast<int64_t>(number));
    }
    ctx.unsupported("fill_value is not a number");
  }
  if (is_float(t)) return ctx.b.scalar(t, std::numeric_limits<double>::quiet_NaN());
  if (t == DType::kBool) return ctx.b.scalar_int(t, 1);
  if (is_signed(t)) return ctx.b.scalar_int(t, std::numeric_limits<int64_t>::min() >> (64 - bit_width(t)));
  return ctx.b.scalar_int(t, static_cast<int64_t>(~uint64_t{0} >> (64 - bit_width(t))));
}

// The indices before the program adds the size to negative ones, in the shape of the lead axes; null if it
// does not do so.
Value* counted_from_the_end(Lowering& ctx, const Indexing& ix) {
  Value* own = before_wrapping(ctx, ctx.in(1), ix.operand_dims[static_cast<size_t>(ix.indexed[0])]);
  return own != nullptr && own->ranked() && std::ranges::equal(own->type()->dims(), ix.lead()) ? own : nullptr;
}

// x[a::k], whose indices count up within bounds, as a Slice; null for other indices.
Value* slice_in_steps(Lowering& ctx, const Indexing& ix) {
  const auto counted = ix.index_map.size() == 1 ? index_sequence(ctx, *ctx.node.input(1)) : std::nullopt;
  if (!counted || counted->step < 1) return nullptr;
  Dims& dims = ctx.b.dims();
  const int64_t axis = ix.indexed[0];
  const Dim stop = dims.add(counted->start, dims.mul(Dim::of(counted->step), ix.lead()[0]));
  return ctx.slice(ctx.in(0), axis, counted->start, stop, counted->step);
}

std::vector<Value*> gather(Lowering& ctx, bool imaginary) {
  const Attr& numbers = ctx.param("dimension_numbers");
  const Ints offset_dims = ints_field(ctx, numbers, "offset_dims"),
             collapsed = ints_field(ctx, numbers, "collapsed_slice_dims");
  const std::vector<Dim> sizes = ctx.dims_param("slice_sizes");
  const Indexing ix(ctx.in_dims(0), ctx.in_dims(1), sizes, ints_field(ctx, numbers, "start_index_map"),
                    ints_field(ctx, numbers, "operand_batching_dims"), ints_field(ctx, numbers, "start_indices_batching_dims"),
                    false);
  const std::string mode = ctx.string_param("mode");
  const bool is_inside = is_in_bounds(ctx, 1, ix.limits(ctx));
  const bool fill = mode.find("FILL") != std::string::npos && !is_inside;
  const bool one_index = ix.indexed.size() == 1 && ix.window[0].is(1);

  Value* x = ctx.in(0);
  Value* sliced = is_inside && one_index && ix.batching.empty() && ix.free.size() == 1 ? slice_in_steps(ctx, ix) : nullptr;
  Value *mask = nullptr, *starts = nullptr;
  Value* index = one_index && ix.batching.empty() && ix.index_map.size() == 1 ? counted_from_the_end(ctx, ix) : nullptr;
  if (sliced != nullptr) {
    x = sliced;
  } else if (index != nullptr) {
    if (!is_inside) {
      const Dim size = ix.operand_dims[static_cast<size_t>(ix.indexed[0])];
      Value* first = ctx.cast(ctx.dim(ctx.b.dims().sub(Dim::of(0), size)), index->dtype());
      Value* last = ctx.cast(ctx.dim(ctx.b.dims().sub(size, Dim::of(1))), index->dtype());
      if (fill) mask = ctx.b.And(ctx.b.GreaterOrEqual(index, first), ctx.b.LessOrEqual(index, last));
      index = clamped_index(ctx, index, first, last);
    }
  } else {
    std::vector<Dim> lows;
    const bool is_sliced = ix.lead_labels().empty() && !one_index;  // Slice ends a row of -1 at 0
    Value* vectors = ix.vectors(ctx, is_sliced ? ctx.in(1) : ix.unwrapped(ctx, ctx.in(1), lows));
    mask = fill ? ix.inside(ctx, vectors, lows) : nullptr;
    starts = ix.starts(ctx, vectors);
    if (!is_inside) starts = ix.clamped(ctx, starts, lows);
  }

  Ints labels = ix.lead_labels();
  const auto lead_rank = static_cast<int64_t>(labels.size());
  // Whether the lead axes come first in x: the mask needs them in the same position.
  bool lead_first = true;

  if (ix.indexed.empty()) {
    std::vector<Dim> sizes_of_result = ix.lead();
    Ints middle;
    for (size_t i = ix.batching.size(); i < static_cast<size_t>(lead_rank); ++i) middle.push_back(static_cast<int64_t>(i));
    for (int64_t a : ix.whole) sizes_of_result.push_back(ix.operand_dims[static_cast<size_t>(a)]);
    x = ctx.expand(ctx.unsqueeze(ctx.transpose(x, ix.operand_perm()), middle), sizes_of_result);
    labels.insert(labels.end(), ix.whole.begin(), ix.whole.end());
  } else if (one_index && ix.batching.empty()) {
    const int64_t axis = ix.indexed[0];
    if (sliced == nullptr) {
      if (index == nullptr) index = ctx.squeeze(starts, Ints{lead_rank});
      x = ctx.b.Gather(x, index, {.axis = axis});
    }
    Ints all;
    for (int64_t a : ix.whole) {
      if (a < axis) all.push_back(a);
    }
    lead_first = all.empty();
    all.insert(all.end(), labels.begin(), labels.end());
    for (int64_t a : ix.whole) {
      if (a > axis) all.push_back(a);
    }
    labels = std::move(all);
  } else if (lead_rank == 0) {
    Value* stops = ctx.b.Add(starts, ctx.shape(ix.window));
    x = ctx.b.Slice(x, starts, stops, ctx.b.i64s(ix.indexed));
    for (size_t a = 0; a < ix.operand_dims.size(); ++a) labels.push_back(static_cast<int64_t>(a));
    // Slice keeps axes of windows of size 1: the last reshape removes the collapsed ones.
    std::vector<Dim> kept;
    for (size_t a = 0; a < sizes.size(); ++a) {
      if (std::ranges::find(collapsed, static_cast<int64_t>(a)) == collapsed.end()) kept.push_back(sizes[a]);
    }
    x = ctx.reshape(x, kept);
    std::erase_if(labels, [&](int64_t a) { return std::ranges::find(collapsed, a) != collapsed.end(); });
  } else if (one_index && ix.whole.empty() && ix.free.size() == 1) {
    x = ctx.b.GatherElements(ctx.transpose(x, ix.operand_perm()), ctx.squeeze(starts, Ints{lead_rank}),
                             {.axis = lead_rank - 1});
  } else {
    x = ctx.b.GatherND(ctx.transpose(x, ix.operand_perm()), ix.grid(ctx, starts, false),
                       {.batch_dims = static_cast<int64_t>(ix.batching.size())});
    for (size_t i : ix.windows()) labels.push_back(ix.indexed[i]);
    labels.insert(labels.end(), ix.whole.begin(), ix.whole.end());
  }

  if (mask != nullptr) {
    // The mask has only the lead axes: append axes of size 1 for the others.
    const auto first = std::ranges::find_if(labels, [](int64_t l) { return l >= kIndexAxis; });
    const auto before = lead_first ? 0 : first - labels.begin();
    Ints behind;
    for (auto i = lead_rank; i < static_cast<int64_t>(labels.size()) - before; ++i) behind.push_back(i);
    x = ctx.select(ctx.unsqueeze(mask, behind), x, fill_value(ctx, x->dtype(), imaginary));
  }

  // The source of each axis of the result.
  Ints wanted(ctx.out_dims().size(), -1);
  size_t k = 0;
  for (size_t a = 0; a < ix.operand_dims.size(); ++a) {
    const auto axis = static_cast<int64_t>(a);
    if (std::ranges::find(collapsed, axis) != collapsed.end() || std::ranges::find(ix.batching, axis) != ix.batching.end())
      continue;
    wanted[static_cast<size_t>(offset_dims[k++])] = axis;
  }
  number_index_axes(wanted);
  return {arrange(ctx, x, labels, wanted, ctx.out_dims())};
}

}  // namespace

std::vector<Value*> lower_gather(Lowering& ctx) { return gather(ctx, false); }

std::vector<Value*> complex_gather(Lowering& ctx) {
  bool imaginary = false;  // the parts come in this order
  return part_by_part(ctx, [&](Lowering& part) { return gather(part, std::exchange(imaginary, true)); });
}

}  // namespace sardonyx::jax_to_onnx
