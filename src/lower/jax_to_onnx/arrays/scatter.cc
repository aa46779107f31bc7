// scatter, scatter-add, scatter-sub, scatter-mul, scatter-min, scatter-max operand, indices, updates
//   =>   ScatterND<reduction>
//
// All of JAX's dimension numbers and modes. Windows that stick out are clipped or dropped. XLA drops those of
// promise_in_bounds, too, which gradients of x[i] make. Dropped updates become the neutral element if they
// reduce, or go to extra rows after the operand, which are cut off again, if they replace.
//
// x.at[i].apply(f) is a scatter whose update is f of the old element: Scan(x, i) { ScatterND(x, i,
// Scan(GatherND(x, i)) { f }) }. It takes the indices one at a time, because an index that occurs twice
// applies f twice. So do max and min before opset 18, and all scatters of complex numbers but sums: their
// last axis of 2 is one more axis of the window.
#include <algorithm>
#include <limits>

#include "lower/jax_to_onnx/arrays/index_bounds.h"
#include "lower/jax_to_onnx/arrays/indexing.h"
#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/lib/complex.h"

namespace sardonyx::jax_to_onnx {
namespace {

using Ints = std::vector<int64_t>;

bool contains(const Ints& v, int64_t x) { return std::ranges::find(v, x) != v.end(); }

Value* neutral(Lowering& ctx, std::string_view reduction, DType t) {
  const double inf = std::numeric_limits<double>::infinity();
  if (reduction == "add") return is_float(t) ? ctx.b.scalar(t, 0) : ctx.b.scalar_int(t, 0);
  if (reduction == "mul") return is_float(t) ? ctx.b.scalar(t, 1) : ctx.b.scalar_int(t, 1);
  if (is_float(t)) return ctx.b.scalar(t, reduction == "max" ? -inf : inf);
  if (t == DType::kBool) return ctx.b.scalar_int(t, reduction == "max" ? 0 : 1);
  const int64_t lowest = is_signed(t) ? std::numeric_limits<int64_t>::min() >> (64 - bit_width(t)) : 0;
  const auto highest = static_cast<int64_t>(~uint64_t{0} >> (64 - bit_width(t) + (is_signed(t) ? 1 : 0)));
  return ctx.b.scalar_int(t, reduction == "max" ? lowest : highest);
}

// The function of a scatter that maps the old elements instead of replacing or combining them; null for other
// scatters.
const Graph* applied_function(Lowering& ctx) {
  const Graph* f = ctx.node.body("update_jaxpr");
  if (f == nullptr || f->inputs().size() != 2 || f->outputs().size() != 1 || f->output(0) == f->input(1)) return nullptr;
  if (f->input(1)->has_uses()) ctx.unsupported("its update function is not one of add, mul, max, min");
  return f;
}

// A Scan over the rows of `grid` [.., k] and of `more` that changes the elements of x at each index in turn.
// The indexed axes of x come first. `change` gets the old elements, and the row of `more` if there is one.
Value* change_in_turn(Lowering& ctx, Value* x, Value* grid, Value* more,
                      const std::function<Value*(Lowering& inside, Value* found, Value* row)>& change) {
  const Type* type = x->type();
  const Dim k = grid->type()->dims().back();
  const std::vector<Dim> shape(type->dims().begin() + static_cast<std::ptrdiff_t>(k.value()), type->dims().end());
  Graph& each = ctx.make_body("body", [&](Lowering& inside) {
    Graph& g = inside.b.graph();
    Value* whole = g.add_input({}, type);
    Value* index = g.add_input({}, inside.b.types().tensor(DType::kI64, std::span(&k, 1)));
    Value* row = more != nullptr ? g.add_input({}, inside.b.types().tensor(type->dtype(), shape)) : nullptr;
    Value* changed = change(inside, inside.b.GatherND(whole, index), row);
    const std::vector<int64_t> front{0};
    Value* next = inside.b.ScatterND(whole, inside.unsqueeze(index, front), inside.unsqueeze(changed, front));
    g.add_output(*next, {}, type);
  });
  const auto grid_dims = grid->type()->dims();
  const Dim count = ctx.b.dims().product(grid_dims.first(grid_dims.size() - 1));
  std::vector<Value*> inputs{x, ctx.reshape(grid, std::vector<Dim>{count, k})};
  if (more != nullptr) {
    std::vector<Dim> rows{count};
    rows.insert(rows.end(), shape.begin(), shape.end());
    inputs.push_back(ctx.reshape(more, rows));
  }
  const Body bodies[] = {{ctx.b.model().name("body"), &each}};
  return ctx.b.node("Scan", inputs, 1, {attr("num_scan_inputs", static_cast<int64_t>(inputs.size()) - 1)}, {}, bodies).result();
}

// Applies f, a function of scalars, to the elements of x at each index of `grid` in turn.
Value* apply_in_turn(Lowering& ctx, const Graph& f, Value* x, Value* grid, bool in_pairs) {
  const Dim two = Dim::of(2);
  const Type* element = ctx.b.types().tensor(x->type()->dtype(), std::span(&two, in_pairs ? 1 : 0));
  return change_in_turn(ctx, x, grid, nullptr, [&](Lowering& inside, Value* found, Value*) {
    const auto shape = found->type()->dims();
    std::vector<Dim> rows{inside.b.dims().product(in_pairs ? shape.first(shape.size() - 1) : shape)};
    if (in_pairs) rows.push_back(two);
    Graph& map = inside.make_body("body", [&](Lowering& innermost) {
      Value* args[] = {innermost.b.graph().add_input({}, element), nullptr};
      args[1] = args[0];
      innermost.b.graph().add_output(*innermost.inline_body(f, args)[0], {}, element);
    });
    Value* flat[] = {inside.reshape(found, rows)};
    const Body bodies[] = {{inside.b.model().name("body"), &map}};
    Value* mapped = inside.b.node("Scan", flat, 1, {attr("num_scan_inputs", int64_t{1})}, {}, bodies).result();
    return inside.reshape(mapped, shape);
  });
}

Value* combined_pairs(Lowering& ctx, std::string_view reduction, Value* x, Value* y) {
  const Complex z = split(ctx, x), w = split(ctx, y);
  return join(reduction == "mul" ? z * w : reduction == "max" ? larger(z, w) : smaller(z, w));
}

// ScatterND that combines: opset 16 added sums and products, opset 18 max and min. Before that, max and min
// take one index at a time.
Value* combine(Lowering& ctx, std::string_view reduction, Value* x, Value* grid, Value* updates, bool in_pairs) {
  if (reduction == "none") return ctx.b.ScatterND(x, grid, updates);
  if (in_pairs) {
    return change_in_turn(ctx, x, grid, updates, [&](Lowering& inside, Value* found, Value* row) {
      return combined_pairs(inside, reduction, found, row);
    });
  }
  const bool is_extreme = reduction == "max" || reduction == "min";
  if (!is_extreme || ctx.b.opset() >= 18) return ctx.b.ScatterND(x, grid, updates, {.reduction = reduction});
  return change_in_turn(ctx, x, grid, updates, [&](Lowering& inside, Value* found, Value* row) {
    return inside.via(reduction == "max" ? "Max" : "Min", {found, row});
  });
}

Value* scatter(Lowering& ctx, std::string_view reduction, bool negate) {
  const Graph* f = reduction == "none" ? applied_function(ctx) : nullptr;
  const Attr& numbers = ctx.param("dimension_numbers");
  const Ints update_window = ints_field(ctx, numbers, "update_window_dims"),
             inserted = ints_field(ctx, numbers, "inserted_window_dims");
  const Ints batching = ints_field(ctx, numbers, "operand_batching_dims");
  const bool in_pairs = is_complex(ctx.in_dtype(0));
  const auto operand_dims = ctx.stored_in_type(0)->dims();
  // The window's size on each operand axis, and the axis of updates that holds it.
  std::vector<Dim> sizes(operand_dims.size(), Dim::of(1));
  Ints update_labels(ctx.in_rank(2), -1);
  size_t k = 0;
  for (size_t a = 0; a < ctx.in_rank(0); ++a) {
    const auto axis = static_cast<int64_t>(a);
    if (contains(inserted, axis) || contains(batching, axis)) continue;
    const auto place = static_cast<size_t>(update_window[k++]);
    sizes[a] = ctx.in_dims(2)[place];
    update_labels[place] = axis;
  }
  number_index_axes(update_labels);
  if (in_pairs) {
    sizes.back() = Dim::of(2);
    update_labels.push_back(static_cast<int64_t>(ctx.in_rank(0)));
  }
  const Indexing ix(operand_dims, ctx.in_dims(1), sizes, ints_field(ctx, numbers, "scatter_dims_to_operand_dims"), batching,
                    ints_field(ctx, numbers, "scatter_indices_batching_dims"), true);

  const std::string mode = ctx.string_param("mode");
  const DType own = ctx.stored_out_type()->dtype();
  DType wide = kernel_dtype(ctx,
                            {reduction == "none"  ? "Expand"
                             : reduction == "mul" ? "Mul"
                             : reduction == "add" ? "Add"
                                                  : "Max"},
                            own);
  // onnxruntime's ScatterND cannot combine f16.
  if (wide == DType::kF16 && reduction != "none") wide = DType::kF32;
  if (wide == DType::kUndefined) ctx.unsupported("no runtime scatters this element type");
  Value* x = ctx.transpose(ctx.cast(ctx.in(0), wide), ix.operand_perm());
  Value* updates = ctx.cast(ctx.in(2), wide);
  if (negate) updates = ctx.b.Sub(is_float(wide) ? ctx.b.scalar(wide, 0) : ctx.b.scalar_int(wide, 0), updates);

  // Updates as [batching.., free.., windows.., whole..].
  const Ints labels = ix.lead_labels();
  std::vector<Dim> dims = ix.lead();
  const auto lead_rank = static_cast<int64_t>(labels.size());
  Ints full = labels;  // with windows of size 1, for the transpose
  for (int64_t a : ix.indexed) full.push_back(a);
  for (int64_t a : ix.whole) full.push_back(a);
  for (size_t i : ix.windows()) dims.push_back(ix.window[i]);
  for (int64_t a : ix.whole) dims.push_back(ix.operand_dims[static_cast<size_t>(a)]);
  updates = arrange(ctx, updates, update_labels, full, dims);

  if (ix.indexed.empty() && ix.batching.empty()) {
    if (lead_rank != 0 || f != nullptr) ctx.unsupported("several updates of the whole operand");
    const std::string_view op = reduction == "add" ? "Add" : reduction == "mul" ? "Mul" : reduction == "max" ? "Max" : "Min";
    if (in_pairs && reduction != "none") return combined_pairs(ctx, reduction, x, updates);
    return ctx.cast(reduction == "none" ? updates : ctx.via(op, {x, updates}), own);
  }

  Value* vectors = ix.vectors(ctx, ctx.in(1));
  Value* starts = ix.starts(ctx, vectors);
  const bool is_inside = is_in_bounds(ctx, 1, ix.limits(ctx));
  const bool clips = mode.find("CLIP") != std::string::npos;
  const bool drop = !is_inside && !clips;
  Value* mask = drop ? ix.inside(ctx, vectors) : nullptr;
  Value* rows = nullptr;  // the size of the first indexed axis, if rows were appended to it
  const auto first = static_cast<int64_t>(ix.batching.size());
  if (clips && !is_inside) {
    starts = ix.clamped(ctx, starts);
  } else if (mask != nullptr && reduction != "none" && !in_pairs) {
    starts = ix.clamped(ctx, starts);
    Ints behind;
    for (auto i = lead_rank; i < static_cast<int64_t>(dims.size()); ++i) behind.push_back(i);
    updates = ctx.select(ctx.unsqueeze(mask, behind), updates, neutral(ctx, reduction, wide));
  } else if (mask != nullptr) {
    const Dim size = ix.operand_dims[static_cast<size_t>(ix.indexed[0])];
    std::vector<Dim> extra(x->type()->dims().begin(), x->type()->dims().end());
    extra[static_cast<size_t>(first)] = ix.window[0];
    x = ctx.b.Concat({x, ctx.zeros(wide, extra)}, {.axis = first});
    std::vector<Dim> corner(ix.indexed.size(), Dim::of(0));
    corner[0] = size;
    rows = ctx.shape(corner);
    starts = ctx.b.Where(ctx.unsqueeze(mask, Ints{lead_rank}), starts, rows);
  }
  Value* grid = ix.grid(ctx, starts, true);
  Value* y = f != nullptr ? apply_in_turn(ctx, *f, x, grid, in_pairs) : combine(ctx, reduction, x, grid, updates, in_pairs);
  if (rows != nullptr) y = ctx.slice(y, first, Dim::of(0), ix.operand_dims[static_cast<size_t>(ix.indexed[0])]);
  const Ints perm = ix.operand_perm();
  Ints back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return ctx.cast(ctx.transpose(y, back), own);
}

}  // namespace

std::vector<Value*> lower_scatter(Lowering& ctx) { return {scatter(ctx, "none", false)}; }
std::vector<Value*> lower_scatter_add(Lowering& ctx) { return {scatter(ctx, "add", false)}; }
std::vector<Value*> lower_scatter_sub(Lowering& ctx) { return {scatter(ctx, "add", true)}; }
std::vector<Value*> lower_scatter_mul(Lowering& ctx) { return {scatter(ctx, "mul", false)}; }
std::vector<Value*> lower_scatter_min(Lowering& ctx) { return {scatter(ctx, "min", false)}; }
std::vector<Value*> lower_scatter_max(Lowering& ctx) { return {scatter(ctx, "max", false)}; }

std::vector<Value*> complex_scatter(Lowering& ctx) {
  return applied_function(ctx) == nullptr ? part_by_part(ctx, lower_scatter) : lower_scatter(ctx);
}

}  // namespace sardonyx::jax_to_onnx
