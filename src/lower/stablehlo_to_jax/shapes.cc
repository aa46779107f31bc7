// broadcast_in_dim, dynamic_broadcast_in_dim, broadcast   =>   broadcast_in_dim[shape, broadcast_dimensions]
// reshape, dynamic_reshape                                =>   reshape[new_sizes]
// slice, real_dynamic_slice                               =>   slice[start_indices, limit_indices, strides]
// real_dynamic_slice of sizes that do not depend on data  =>   dynamic_slice[slice_sizes]
// pad, dynamic_pad                                        =>   pad[padding_config]
// iota, dynamic_iota                                      =>   iota[dtype, shape, dimension]
// concatenate, reverse, transpose                         =>   concatenate, rev, transpose
// get_dimension_size                                      =>   dim_as_value[dim]
//
// Operands that hold sizes are read as expressions (lower/stablehlo_to_jax/elements.cc) and become
// parameters.
#include <algorithm>
#include <optional>
#include <utility>

#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {
namespace {

// broadcast_in_dim of JAX wants ascending axes.
Value* broadcast_to(Lowering& ctx, Value* x, Ints axes, const Type* type) {
  Ints order(axes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::ranges::sort(order, {}, [&](int64_t i) { return axes[static_cast<size_t>(i)]; });
  x = ctx.transpose(x, order);
  std::ranges::sort(axes);
  if (axes.size() == type->rank()) {
    bool same = true;
    for (size_t i = 0; i < axes.size(); ++i) same = same && x->type()->dim(i) == type->dim(i);
    if (same) return x;
  }
  return ctx.broadcast(x, axes, type);
}

// The sizes of the result as far as the operand has them: an axis of size 1 may grow.
DimList grown(const Lowering& ctx, const Ints& axes) {
  DimList dims(ctx.out_rank());
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim d = ctx.in_dims(0)[i];
    if (!d.is(1)) dims[static_cast<size_t>(axes[i])] = d;
  }
  return dims;
}

Ints checked_axes(const Lowering& ctx) {
  Ints axes = ctx.ints_attr("broadcast_dimensions");
  const auto rank = static_cast<int64_t>(ctx.out_rank());
  const bool fits = axes.size() == ctx.in_rank(0) && std::ranges::all_of(axes, [&](int64_t a) { return a >= 0 && a < rank; });
  if (!fits)
    throw Error(ErrorCode::kInvalidModel, "broadcast_dimensions must name one axis of the result for each of the operand");
  return axes;
}

}  // namespace

Values lower_broadcast_in_dim(Lowering& ctx) {
  const Ints axes = checked_axes(ctx);
  return {broadcast_to(ctx, ctx.in(0), axes, ctx.out_type(0, grown(ctx, axes)))};
}

Values lower_dynamic_broadcast_in_dim(Lowering& ctx) {
  const Ints axes = checked_axes(ctx);
  const DimList wanted = ctx.sizes(1, "the shape");
  // JAX broadcasts sizes of 1 only where the type says 1. Elsewhere an open size is the result's, which the
  // names of the sizes then say.
  const Ints expanding = ctx.ints_attr("known_expanding_dimensions");
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    if (axis >= wanted.size() || ctx.in_dims(0)[i].is(1)) continue;
    if (std::ranges::find(expanding, static_cast<int64_t>(i)) == expanding.end())
      ctx.context().equate(ctx.in_dims(0)[i], wanted[axis]);
    if (!(ctx.in_dims(0)[i] == ctx.sizes(1, "the shape")[axis])) ctx.unsupported("an open size that may be broadcast from 1");
  }
  return {broadcast_to(ctx, ctx.in(0), axes, ctx.out_type(0, ctx.sizes(1, "the shape")))};
}

Values lower_broadcast(Lowering& ctx) {
  const auto leading = static_cast<int64_t>(ctx.ints_attr("broadcast_sizes").size());
  Ints axes;
  for (size_t i = 0; i < ctx.in_rank(0); ++i) axes.push_back(leading + static_cast<int64_t>(i));
  return {broadcast_to(ctx, ctx.in(0), axes, ctx.out_type(0, grown(ctx, axes)))};
}

Values lower_reshape(Lowering& ctx) {
  const Type* type = ctx.out_type();
  if (ctx.in_type(0) == type) return {ctx.in(0)};
  return {ctx.reshape(ctx.in(0), type->dims())};
}

Values lower_dynamic_reshape(Lowering& ctx) {
  const Type* type = ctx.out_type(0, ctx.sizes(1, "the shape"));
  if (ctx.in_type(0) == type) return {ctx.in(0)};
  return {ctx.reshape(ctx.in(0), type->dims())};
}

Values lower_transpose(Lowering& ctx) { return {ctx.transpose(ctx.in(0), ctx.ints_attr("permutation"))}; }
Values lower_reverse(Lowering& ctx) { return {ctx.reverse(ctx.in(0), ctx.ints_attr("dimensions"))}; }

Values lower_concatenate(Lowering& ctx) {
  const auto axis = static_cast<size_t>(ctx.int_attr("dimension"));
  if (axis >= ctx.out_rank()) throw Error(ErrorCode::kInvalidModel, "concatenate has no such dimension");
  if (ctx.num_inputs() == 1) return {ctx.in(0)};
  for (size_t k = 0; k < ctx.num_inputs(); ++k) {
    if (ctx.in_rank(k) != ctx.out_rank())
      throw Error(ErrorCode::kInvalidModel, "concatenate joins operands of different ranks");
  }
  for (size_t k = 1; k < ctx.num_inputs(); ++k) {
    for (size_t i = 0; i < ctx.in_rank(k); ++i) {
      if (i != axis) ctx.context().equate(ctx.in_dims(k - 1)[i], ctx.in_dims(k)[i]);
    }
  }
  DimList dims(ctx.in_dims(0).begin(), ctx.in_dims(0).end());
  for (size_t k = 1; k < ctx.num_inputs(); ++k) dims[axis] = ctx.dims().add(dims[axis], ctx.in_dims(k)[axis]);
  return {ctx.make("concatenate", ctx.operands(), ctx.out_type(0, dims), {attr("dimension", static_cast<int64_t>(axis))})};
}

Values lower_slice(Lowering& ctx) {
  const Ints from = ctx.per_axis("start_indices"), to = ctx.per_axis("limit_indices"), steps = ctx.per_axis("strides");
  DimList starts, limits;
  for (size_t i = 0; i < from.size(); ++i) {
    starts.push_back(Dim::of(from[i]));
    limits.push_back(Dim::of(to[i]));
  }
  const bool all = std::ranges::equal(limits, ctx.in_dims(0)) && std::ranges::all_of(starts, [](Dim d) { return d.is(0); }) &&
                   std::ranges::all_of(steps, [](int64_t s) { return s == 1; });
  return {all ? ctx.in(0) : ctx.slice(ctx.in(0), starts, limits, steps)};
}

namespace {

Value* lowered(const Lowering& ctx, const Value& v) { return ctx.context().value(v, ctx.b); }

std::optional<Elements> elements_of(const Lowering& ctx, const Value& v) { return ctx.context().elements(*lowered(ctx, v)); }

// Element i of a vector of integers of the module, as a scalar.
Value* element(Lowering& ctx, const Value& vector, size_t i) {
  const Node* n = vector.def();
  const bool is_joined = n != nullptr && n->is("concatenate") && std::cmp_equal(n->num_inputs(), vector.type()->dim(0).value());
  if (is_joined) {
    const Value& part = *n->input(i);
    const bool is_scalar = part.def() != nullptr && part.def()->is("reshape") && part.def()->input(0)->type()->rank() == 0;
    return is_scalar ? lowered(ctx, *part.def()->input(0)) : ctx.reshape(lowered(ctx, part), {});
  }
  const Dim from = Dim::of(static_cast<int64_t>(i)), to = Dim::of(static_cast<int64_t>(i) + 1);
  return ctx.reshape(ctx.slice(lowered(ctx, vector), {&from, 1}, {&to, 1}), {});
}

// The sizes of a slice in steps of 1 whose end is its start and these sizes; nullopt for other ones.
std::optional<DimList> sizes_behind_start(const Lowering& ctx) {
  const Value &start = *ctx.node.input(1), &end = *ctx.node.input(2);
  const Node* sum = end.def();
  if (sum == nullptr || !sum->is("add") || (sum->input(0) != &start && sum->input(1) != &start)) return std::nullopt;
  if (!start.ranked() || start.type()->rank() != 1 || !start.type()->dim(0).is(static_cast<int64_t>(ctx.in_rank(0))))
    return std::nullopt;
  const auto sizes = elements_of(ctx, *sum->input(sum->input(0) == &start ? 1 : 0));
  const auto steps = ctx.context().elements(*ctx.in(3));
  const auto is_one = [](Dim d) { return d.is(1); };
  const auto is_known = [&](Dim d) { return ctx.context().is_known(d); };
  if (!sizes || !steps || sizes->size() != ctx.in_rank(0) || steps->size() != ctx.in_rank(0)) return std::nullopt;
  return std::ranges::all_of(*steps, is_one) && std::ranges::all_of(*sizes, is_known) ? sizes : std::nullopt;
}

// The start before it is clamped to what leaves room for the slice, which JAX's dynamic_slice does as well.
const Value& unclamped(const Lowering& ctx, const Value& start, const DimList& sizes) {
  const Node* n = start.def();
  if (n == nullptr || !n->is("clamp")) return start;
  const auto low = elements_of(ctx, *n->input(0)), high = elements_of(ctx, *n->input(2));
  if (!low || !high || low->size() != sizes.size() || high->size() != sizes.size()) return start;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!(*low)[i].is(0) || (*high)[i] != ctx.dims().sub(ctx.in_dims(0)[i], sizes[i])) return start;
  }
  return *n->input(1);
}

}  // namespace

Values lower_real_dynamic_slice(Lowering& ctx) {
  const auto begin = ctx.context().elements(*ctx.in(1));
  const bool is_static = begin && std::ranges::all_of(*begin, [&](Dim d) { return ctx.context().is_known(d); });
  if (const auto sizes = sizes_behind_start(ctx); sizes && !is_static) {
    const Value& start = unclamped(ctx, *ctx.node.input(1), *sizes);
    Values operands{ctx.in(0)};
    for (size_t i = 0; i < sizes->size(); ++i) operands.push_back(element(ctx, start, i));
    return {ctx.make("dynamic_slice", operands, ctx.out_type(0, *sizes), {attr("slice_sizes", sizes_param(*sizes))})};
  }
  const DimList limits = ctx.sizes(2, "the end");
  if (limits.size() != ctx.in_rank(0)) throw Error(ErrorCode::kInvalidModel, "the end must have one entry for each axis");
  const Ints steps = ctx.numbers(3, "the stride");
  Value* x = ctx.in(0);
  const auto from = ctx.context().elements(*ctx.in(1));
  if (from && from->size() == limits.size() && steps.size() == limits.size() &&
      std::ranges::all_of(*from, [&](Dim d) { return ctx.context().is_known(d); })) {
    Value* y = ctx.slice(x, *from, limits, steps);
    y->set_type(ctx.out_type(0, y->type()->dims()));
    return {y};
  }
  ctx.unsupported("the start depends on data");
}

namespace {

Values padded(Lowering& ctx, std::span<const Dim> low, std::span<const Dim> high, const Ints& interior) {
  Dims& dims = ctx.dims();
  const size_t rank = ctx.in_rank(0);
  if (low.size() != rank || high.size() != rank || interior.size() != rank)
    throw Error(ErrorCode::kInvalidModel, "the padding must have one entry for each axis of the operand");
  DimList sizes;
  AttrList config;
  for (size_t i = 0; i < interior.size(); ++i) {
    const Dim n = ctx.in_dims(0)[i];
    const Dim gaps =
        interior[i] == 0 ? Dim::of(0) : dims.mul(Dim::of(interior[i]), dims.max(dims.sub(n, Dim::of(1)), Dim::of(0)));
    sizes.push_back(dims.add(dims.add(n, gaps), dims.add(low[i], high[i])));
    const Dim row[] = {low[i], high[i], Dim::of(interior[i])};
    config.push_back(sizes_param(row));
  }
  return {ctx.make("pad", {ctx.in(0), ctx.in(1)}, ctx.out_type(0, sizes), {attr("padding_config", std::move(config))})};
}

DimList as_sizes(const Ints& ints) {
  DimList dims;
  for (int64_t i : ints) dims.push_back(Dim::of(i));
  return dims;
}

}  // namespace

Values lower_pad(Lowering& ctx) {
  return padded(ctx, as_sizes(ctx.per_axis("edge_padding_low")), as_sizes(ctx.per_axis("edge_padding_high")),
                ctx.per_axis("interior_padding"));
}

Values lower_dynamic_pad(Lowering& ctx) {
  return padded(ctx, ctx.sizes(2, "the padding"), ctx.sizes(3, "the padding"), ctx.numbers(4, "the interior padding"));
}

namespace {

Values counted(Lowering& ctx, const Type* type) {
  return {ctx.make("iota", {}, type,
                   {attr("dimension", ctx.int_attr("iota_dimension")), attr("dtype", type->dtype()),
                    attr("shape", sizes_param(type->dims())), attr("sharding", Attr())})};
}

}  // namespace

Values lower_iota(Lowering& ctx) { return counted(ctx, ctx.out_type()); }
Values lower_dynamic_iota(Lowering& ctx) { return counted(ctx, ctx.out_type(0, ctx.sizes(0, "the shape"))); }

Values lower_get_dimension_size(Lowering& ctx) {
  const auto axis = static_cast<size_t>(ctx.int_attr("dimension"));
  if (axis >= ctx.in_rank(0)) throw Error(ErrorCode::kInvalidModel, "get_dimension_size has no such dimension");
  const Dim d = ctx.in_dims(0)[axis];
  if (d.is_int()) return {ctx.b.scalar_int(ctx.out_dtype(), d.value())};
  if (!ctx.context().is_known(d)) ctx.unsupported("the size depends on data");
  Value* v = ctx.make("dim_as_value", {}, ctx.out_type(), {attr("dim", d)});
  ctx.context().set_elements(*v, {d});
  return {v};
}

}  // namespace sardonyx::stablehlo_to_jax
