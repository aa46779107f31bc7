// NonMaxSuppression: each iteration of a loop selects the best remaining box of every image and class, and
// removes the boxes that overlap it too much. Core ML's own op returns a fixed number of boxes; ONNX returns
// only the selected ones, which non_zero finds.
#include <algorithm>
#include <limits>

#include "lower/onnx_to_mil/control/counted_loop.h"

namespace sardonyx::onnx_to_mil {
namespace {

// The corners of boxes, and their areas: [batch, classes, boxes], of one box [batch, classes, 1].
struct Corners {
  Value *top, *left, *bottom, *right;
  Value* area;
};

Corners corners(Lowering& ctx, const std::vector<Dim>& dims) {
  MilBuilder& b = ctx.b;
  const auto part = [&](int64_t k) {
    Value* column = b.slice_by_index(ctx.in(0), {0, 0, k}, {0, 0, k + 1},
                                     {.begin_mask = {true, true, false}, .end_mask = {true, true, false}});
    return b.transpose(column, {.perm = {0, 2, 1}});
  };
  Value* p[4] = {part(0), part(1), part(2), part(3)};
  Corners c{};
  if (ctx.int_attr("center_point_box", 0) != 0) {  // x, y, width, height
    Value *x = p[0], *y = p[1], *half_width = b.mul(p[2], 0.5), *half_height = b.mul(p[3], 0.5);
    c = {b.sub(y, half_height), b.sub(x, half_width), b.add(y, half_height), b.add(x, half_width), nullptr};
  } else {  // two opposite corners, y and x
    c = {b.minimum(p[0], p[2]), b.minimum(p[1], p[3]), b.maximum(p[0], p[2]), b.maximum(p[1], p[3]), nullptr};
  }
  c.area = b.mul(b.sub(c.bottom, c.top), b.sub(c.right, c.left));
  for (Value** v : {&c.top, &c.left, &c.bottom, &c.right, &c.area}) *v = ctx.expand(*v, dims);
  return c;
}

// Intersection over union; 0 for boxes without an area.
Value* overlap(MilBuilder& b, const Corners& one, const Corners& all) {
  Value* height = b.sub(b.minimum(one.bottom, all.bottom), b.maximum(one.top, all.top));
  Value* width = b.sub(b.minimum(one.right, all.right), b.maximum(one.left, all.left));
  Value* both = b.mul(b.maximum(height, 0.0), b.maximum(width, 0.0));
  return b.real_div(both, b.maximum(b.sub(b.add(one.area, all.area), both), 1e-30));
}

}  // namespace

std::vector<Value*> lower_NonMaxSuppression(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* scores = ctx.in(1);
  const std::vector<Dim> dims(scores->type()->dims().begin(), scores->type()->dims().end());
  const auto known = ctx.has(2) ? ctx.splat_value(2) : 0.0;
  if (known && *known <= 0) ctx.unsupported("max_output_boxes_per_class of 0, the default, which selects no box");
  const auto one = [&](size_t i) { return ctx.reshape(ctx.in(i), {}); };
  Value* limit = ctx.has(3) ? ctx.cast(one(3), scores->dtype()) : ctx.like(scores, 0);
  Value* none = ctx.like(scores, -std::numeric_limits<double>::infinity());
  if (ctx.has(4)) scores = b.select(b.greater(scores, ctx.cast(one(4), scores->dtype())), scores, none);
  const Corners all = corners(ctx, dims);
  Value* boxes_by_index = b.range_1d(b.squeeze(ctx.size_of(scores, 2), {.axes = {0}}), 0, 1);
  Counted loop;
  loop.most = b.squeeze(ctx.size_of(scores, 2), {.axes = {0}});
  constexpr double kAll = std::numeric_limits<int32_t>::max();  // exporters write the largest i64
  if (!known || *known < kAll) loop.most = b.minimum(known ? b.i32(static_cast<int32_t>(*known)) : one(2), loop.most);
  loop.vars.push_back(scores);
  loop.stacked = 1;
  loop.rows.push_back(ctx.types().tensor(DType::kI32, std::vector<Dim>{dims[0], dims[1]}));
  loop.step = [&](MilBuilder& block, Value*, std::span<Value* const> vars) -> std::vector<Value*> {
    Value* left = vars[0];
    Value* best = block.reduce_argmax(left, {.axis = 2, .keep_dims = true});
    Value* is_box = block.greater(block.reduce_max(left, {.axes = {2}, .keep_dims = true}), none);
    const auto taken = [&](Value* v) { return block.gather_along_axis(v, best, {.axis = 2}); };
    const Corners chosen{taken(all.top), taken(all.left), taken(all.bottom), taken(all.right), taken(all.area)};
    Value* gone = block.logical_or(block.greater(overlap(block, chosen, all), limit), block.equal(boxes_by_index, best));
    Value* row = block.select(is_box, best, block.i32(-1));
    return {block.select(gone, none, left), block.squeeze(row, {.axes = {2}})};
  };
  // [picks, batch, classes]   =>   [batch, classes, picks]
  Value* picks = b.transpose(run(ctx, loop)[1], {.perm = {1, 2, 0}});
  Value* rows = b.non_zero(ctx.cast(b.greater_equal(picks, 0), DType::kI32));
  Value* boxes = b.expand_dims(b.gather_nd(picks, rows), {.axes = {1}});
  Value* images = b.slice_by_index(rows, {0, 0}, {0, 2}, {.begin_mask = {true, false}, .end_mask = {true, false}});
  return {b.concat(std::vector<Value*>{images, boxes}, {.axis = 1, .interleave = false})};
}

}  // namespace sardonyx::onnx_to_mil
