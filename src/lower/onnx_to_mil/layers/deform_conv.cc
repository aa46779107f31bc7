// DeformConv: a convolution whose window elements are read at computed offsets.
//
//   x, offset ── read between four pixels ──┐
//                                    mask ── mul ── matmul(w) ── add(bias) ── y
//
// For each element of the window and each position of the result, four pixels of the flattened image are
// gathered and weighted; pixels outside of the image count as zero. The convolution is then one product.
// After torchvision's deform_conv2d; ONNX DeformConv 19.
#include <fmt/format.h>

#include "lower/onnx_to_mil/layers/window.h"

namespace sardonyx::onnx_to_mil {
namespace {

class DeformableWindows {
 public:
  explicit DeformableWindows(Lowering& ctx) : ctx_(ctx), b_(ctx.b) {
    if (ctx.rank(0) != 4) ctx.unsupported("images without exactly two spatial axes");
    groups_ = ctx.int_attr("group", 1);
    offset_groups_ = ctx.int_attr("offset_group", 1);
    if (groups_ < 1 || offset_groups_ < 1) ctx.unsupported("a number of groups below 1");
    channels_ = known(0, 1);
    out_channels_ = known(1, 0);
    if (channels_ % groups_ != 0 || channels_ % offset_groups_ != 0 || out_channels_ % groups_ != 0)
      ctx.unsupported("channels that do not divide into groups");
    height_ = known(0, 2);
    width_ = known(0, 3);
    w_ = window_of(ctx, {known(1, 2), known(1, 3)});
    rows_ = known(2, 2);
    columns_ = known(2, 3);
    batch_ = ctx.in_dims(0)[0];
    groups_of_all_ = ctx.dims().mul(batch_, Dim::of(offset_groups_));
    taps_ = w_.kernel[0] * w_.kernel[1];
    positions_ = rows_ * columns_;
  }

  Value* result() {
    Value* weight = ctx_.reshape(
        ctx_.in(1), std::vector<Dim>{Dim::of(groups_), Dim::of(out_channels_ / groups_), Dim::of(channels_ / groups_ * taps_)});
    Value* columns = ctx_.reshape(
        read(), std::vector<Dim>{batch_, Dim::of(groups_), Dim::of(channels_ / groups_ * taps_), Dim::of(positions_)});
    Value* y = b_.matmul(weight, columns, {.transpose_x = false, .transpose_y = false});
    y = ctx_.reshape(y, std::vector<Dim>{batch_, Dim::of(out_channels_), Dim::of(rows_), Dim::of(columns_)});
    if (ctx_.has(3)) y = b_.add(y, ctx_.unsqueeze(ctx_.in(3), std::vector<int64_t>{1, 2}));
    return y;
  }

 private:
  int64_t known(size_t operand, size_t axis) {
    const Dim d = ctx_.in_dims(operand)[axis];
    if (!d.is_int()) ctx_.unsupported("sizes of images, kernels or offsets that are open");
    return d.value();
  }

  // Where the windows read without offsets, along one axis: f32[1, taps, positions].
  Value* regular(size_t axis) {
    std::vector<float> at;
    for (int64_t i = 0; i < w_.kernel[0]; ++i) {
      for (int64_t j = 0; j < w_.kernel[1]; ++j) {
        for (int64_t p = 0; p < positions_; ++p) {
          const int64_t window = axis == 0 ? p / columns_ : p % columns_, element = axis == 0 ? i : j;
          at.push_back(static_cast<float>(window * w_.strides[axis] - w_.pads[2 * axis] + element * w_.dilations[axis]));
        }
      }
    }
    return b_.constant(Tensor::of<float>(DType::kF32, {1, taps_, positions_}, at));
  }

  // Along one axis, with offsets: f32[batch * offset groups, taps, positions].
  Value* coordinates(Value* offsets, int64_t axis) {
    Value* moves = b_.slice_by_index(offsets, {0, 0, axis, 0}, {0, 0, axis + 1, 0},
                                     {.begin_mask = {true, true, false, true},
                                      .end_mask = {true, true, false, true},
                                      .squeeze_mask = {false, false, true, false}});
    return b_.add(moves, regular(static_cast<size_t>(axis)));
  }

  // A pixel on one side of a coordinate, as an index within the image, and its weight, which is zero outside.
  struct Pixel {
    Value *at, *weight;
  };
  std::vector<Pixel> pixels(Value* coordinate, int64_t size) {
    Value* low = b_.floor(coordinate);
    Value* over = b_.sub(coordinate, low);
    const auto pixel = [&](Value* at, Value* weight) {
      const auto last = static_cast<double>(size - 1);
      Value* is_inside = b_.logical_and(b_.greater_equal(at, 0.0), b_.less_equal(at, last));
      return Pixel{b_.minimum(b_.maximum(at, 0.0), last), b_.mul(weight, b_.cast(is_inside, {.dtype = DType::kF32}))};
    };
    return {pixel(low, b_.sub(b_.scalar(DType::kF32, 1), over)), pixel(b_.add(low, 1.0), over)};
  }

  // What all windows read: [batch * offset groups, channels of a group, taps * positions].
  Value* read() {
    const std::vector<Dim> flat{groups_of_all_, Dim::of(taps_ * positions_)};
    const std::vector<Dim> wide{groups_of_all_, Dim::of(channels_ / offset_groups_), flat[1]};
    Value* offsets = ctx_.reshape(ctx_.cast(ctx_.in(2), DType::kF32),
                                  std::vector<Dim>{groups_of_all_, Dim::of(taps_), Dim::of(2), Dim::of(positions_)});
    Value* image = ctx_.reshape(ctx_.in(0), std::vector<Dim>{groups_of_all_, wide[1], Dim::of(height_ * width_)});
    const auto above = pixels(coordinates(offsets, 0), height_), beside = pixels(coordinates(offsets, 1), width_);
    Value* sum = nullptr;
    for (const Pixel& row : above) {
      for (const Pixel& column : beside) {
        Value* at = b_.add(b_.mul(row.at, static_cast<double>(width_)), column.at);
        at = b_.expand_dims(ctx_.reshape(b_.cast(at, {.dtype = DType::kI32}), flat), {.axes = {1}});
        Value* share = ctx_.reshape(b_.mul(row.weight, column.weight), flat);
        if (ctx_.has(4)) share = b_.mul(share, ctx_.reshape(ctx_.cast(ctx_.in(4), DType::kF32), flat));
        Value* found = b_.gather_along_axis(image, ctx_.expand(at, wide), {.axis = 2});
        found = b_.mul(found, ctx_.cast(b_.expand_dims(share, {.axes = {1}}), found->dtype()));
        sum = sum == nullptr ? found : b_.add(sum, found);
      }
    }
    return sum;
  }

  Lowering& ctx_;
  MilBuilder& b_;
  Window w_;
  Dim batch_, groups_of_all_;
  int64_t groups_ = 1, offset_groups_ = 1, channels_ = 0, out_channels_ = 0;
  int64_t height_ = 0, width_ = 0;    // of the image
  int64_t rows_ = 0, columns_ = 0;    // of the result
  int64_t taps_ = 0, positions_ = 0;  // elements of the window, elements of the result
};

}  // namespace

std::vector<Value*> lower_DeformConv(Lowering& ctx) { return {DeformableWindows(ctx).result()}; }

}  // namespace sardonyx::onnx_to_mil
