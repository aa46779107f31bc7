// RoiAlign: gathers the four pixels around each sample from the flattened images and sums them by weight;
// then averages the samples of each cell, first along its height.
#include <fmt/format.h>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {
namespace {

// The samples of all boxes along one axis: [boxes, samples].
struct Samples {
  Value *low, *high;                // i32: the indices before and after the sample
  Value *low_weight, *high_weight;  // f32; zero outside of the image
};

class Boxes {
 public:
  explicit Boxes(Lowering& ctx) : ctx_(ctx), b_(ctx.b) {
    const std::string coordinates = ctx.string_attr("coordinate_transformation_mode", "half_pixel");
    half_ = coordinates == "half_pixel";
    grid_ = ctx.int_attr("sampling_ratio", 0);
    if (ctx.string_attr("mode", "avg") != "avg") ctx.unsupported("the mode max");
    if (grid_ <= 0) ctx.unsupported("a number of samples that depends on the sizes of the boxes");
    boxes_ = b_.mul(ctx.cast(ctx.in(1), DType::kF32), f(ctx.float_attr("spatial_scale", 1)));
    if (half_) boxes_ = b_.sub(boxes_, f(0.5));
  }

  Value* result() {
    const auto dims = ctx_.in_dims(0);
    const int64_t height = ctx_.int_attr("output_height", 1), width = ctx_.int_attr("output_width", 1);
    const Dim count = ctx_.in_dims(1)[0], channels = dims[1];
    const Samples rows = samples(1, height, 2), columns = samples(0, width, 3);
    Value* pixels = flattened(channels);
    Value* image = b_.expand_dims(ctx_.in(2), {.axes = {1, 2}});
    Value* sum = nullptr;
    for (const bool below : {false, true}) {
      Value* row = b_.expand_dims(below ? rows.high : rows.low, {.axes = {2}});
      row = b_.mul(b_.add(b_.mul(image, ctx_.size_of(ctx_.in(0), 2)), row), ctx_.size_of(ctx_.in(0), 3));
      Value* tall = b_.expand_dims(below ? rows.high_weight : rows.low_weight, {.axes = {2}});
      for (const bool right : {false, true}) {
        Value* at = b_.add(row, b_.expand_dims(right ? columns.high : columns.low, {.axes = {1}}));
        Value* share = b_.mul(tall, b_.expand_dims(right ? columns.high_weight : columns.low_weight, {.axes = {1}}));
        Value* corner = b_.mul(b_.gather(pixels, at, {.axis = 0}), b_.expand_dims(share, {.axes = {3}}));
        sum = sum == nullptr ? corner : b_.add(sum, corner);
      }
    }
    const auto times = [&](Dim d, int64_t n) { return ctx_.dims().mul(d, Dim::of(n)); };
    // [boxes * height, grid, width * grid * channels], then [boxes * height * width, grid, channels].
    sum = averaged(sum, times(count, height), times(channels, width * grid_));
    sum = averaged(sum, times(count, height * width), channels);
    sum = ctx_.reshape(sum, std::vector<Dim>{count, Dim::of(height), Dim::of(width), channels});
    return ctx_.cast(b_.transpose(sum, {.perm = {0, 3, 1, 2}}), ctx_.in(0)->dtype());
  }

 private:
  Value* f(double v) { return b_.scalar(DType::kF32, v); }

  // All pixels of all images: f32[n, channels].
  Value* flattened(Dim channels) {
    Value* x = b_.transpose(ctx_.cast(ctx_.in(0), DType::kF32), {.perm = {0, 2, 3, 1}});
    const auto dims = ctx_.in_dims(0);
    return ctx_.reshape(x, std::vector<Dim>{ctx_.dims().product(std::vector<Dim>{dims[0], dims[2], dims[3]}), channels});
  }

  Value* averaged(Value* x, Dim rows, Dim rest) {
    if (grid_ == 1) return x;
    return b_.reduce_mean(ctx_.reshape(x, std::vector<Dim>{rows, Dim::of(grid_), rest}), {.axes = {1}, .keep_dims = false});
  }

  // Column `k` of the boxes: [boxes, 1].
  Value* column(int64_t k) {
    return b_.slice_by_index(boxes_, {0, k}, {0, k + 1}, {.begin_mask = {true, false}, .end_mask = {true, false}});
  }

  // The samples along one axis of the image, between columns `first` and `first` + 2 of the boxes.
  Samples samples(int64_t first, int64_t cells, size_t axis) {
    Value *start = column(first), *length = b_.sub(column(first + 2), start);
    if (!half_) length = b_.maximum(length, f(1));
    std::vector<float> steps;
    for (int64_t k = 0; k < cells * grid_; ++k) steps.push_back((static_cast<float>(k) + 0.5F) / static_cast<float>(grid_));
    Value* step = b_.constant(Tensor::of<float>(DType::kF32, {1, as_int(steps.size())}, steps));
    Value* at = b_.add(b_.mul(b_.real_div(length, f(static_cast<double>(cells))), step), start);
    Value* size = ctx_.cast(ctx_.size_of(ctx_.in(0), axis), DType::kF32);
    Value* inside = b_.logical_and(b_.greater_equal(at, f(-1)), b_.less_equal(at, size));
    Value *weight = b_.cast(inside, {.dtype = DType::kF32}), *last = b_.sub(size, f(1));
    at = b_.minimum(b_.maximum(at, f(0)), last);
    Value* low = b_.floor(at);
    Value *over = b_.sub(at, low), *high = b_.minimum(b_.add(low, f(1)), last);
    const auto index = [&](Value* v) { return b_.cast(v, {.dtype = DType::kI32}); };
    return {index(low), index(high), b_.mul(b_.sub(f(1), over), weight), b_.mul(over, weight)};
  }

  Lowering& ctx_;
  MilBuilder& b_;
  Value* boxes_ = nullptr;
  int64_t grid_ = 0;
  bool half_ = true;
};

}  // namespace

std::vector<Value*> lower_RoiAlign(Lowering& ctx) { return {Boxes(ctx).result()}; }

}  // namespace sardonyx::onnx_to_mil
