// Convolutions, pooling, resizing.
#include <fmt/format.h>

#include <cmath>

#include "dialects/mil/infer/rule_util.h"
#include "dialects/mil/infer/rules.h"

namespace sardonyx::mil::rules {
namespace {

struct Window {
  std::vector<int64_t> strides, dilations, pads;
  std::string pad_type;
  bool known = true;  // all sizes are known
};

Window window(InferContext& c, size_t spatial) {
  Window w;
  const auto ints = [&](std::string_view name, size_t count, int64_t otherwise) {
    if (!given(c, name)) return std::vector<int64_t>(count, otherwise);
    auto list = param_ints(c, name);
    if (!list) {
      w.known = false;
      return std::vector<int64_t>(count, otherwise);
    }
    if (list->size() != count) c.fail(fmt::format("{} has {} elements, not {}", name, list->size(), count));
    return std::move(*list);
  };
  w.strides = ints("strides", spatial, 1);
  w.dilations = ints("dilations", spatial, 1);
  w.pads = ints("pad", 2 * spatial, 0);
  for (int64_t s : w.strides) {
    if (s < 1) c.fail("a stride is less than 1");
  }
  const auto type = given(c, "pad_type") ? param_string(c, "pad_type") : std::optional<std::string>("valid");
  w.known = w.known && type.has_value();
  w.pad_type = type.value_or("valid");
  if (w.pad_type != "valid" && w.pad_type != "same" && w.pad_type != "same_lower" && w.pad_type != "custom")
    c.fail(fmt::format("pad_type '{}' is not known", w.pad_type));
  if (w.pad_type != "custom") w.pads.assign(2 * spatial, 0);
  return w;
}

// The number of window positions along one axis; `kernel` includes dilation.
Dim windows(InferContext& c, const Window& w, size_t axis, Dim x, int64_t kernel, bool ceil_mode) {
  const int64_t stride = w.strides[axis], pad = w.pads[2 * axis] + w.pads[2 * axis + 1];
  if (w.pad_type == "same" || w.pad_type == "same_lower") return ceildiv(c, x, stride);
  const Dim room = add(c, x, Dim::of(pad - kernel));
  if (!ceil_mode) {
    const Dim n = add(c, floordiv(c, room, stride), Dim::of(1));
    if (n.is_int() && n.value() < 1) c.fail(fmt::format("the window of {} does not fit", kernel));
    return n;
  }
  if (!x.is_int()) return Dim();
  int64_t n = (x.value() + pad - kernel + stride - 1) / stride + 1;
  if (pad > 0 && 2 * (n - 1) * stride >= 2 * x.value() + pad) --n;
  return Dim::of(n);
}

}  // namespace

void conv(InferContext& c) {
  const Type *x = c.ranked(0), *weight = c.ranked(1);
  const DType dtype = dtype_of(c, 0);
  if (x == nullptr || weight == nullptr) return c.set_unranked(0, dtype);
  if (x->rank() < 3 || x->rank() != weight->rank())
    c.fail(fmt::format("{} and the weight {} must have the same rank, 3 or more", c.show(x), c.show(weight)));
  const size_t spatial = x->rank() - 2;
  const Window w = window(c, spatial);
  const auto groups = param_int(c, "groups");
  if (groups && x->dim(1).is_int() && weight->dim(1).is_int() && x->dim(1).value() != *groups * weight->dim(1).value())
    c.fail(fmt::format("{} channels in {} groups do not fit the weight {}", x->dim(1).value(), *groups, c.show(weight)));
  if (const size_t i = operand(c, "bias"); i != kNoSlot && c.ranked(i) != nullptr) {
    need_rank(c, i, 1);
    same_dim(c, weight->dim(0), c.ranked(i)->dim(0), "the results of the weight and of the bias");
  }
  DimVec dims{x->dim(0), weight->dim(0)};
  for (size_t i = 0; i < spatial; ++i) {
    const Dim k = weight->dim(i + 2);
    if (!w.known || !k.is_int()) {
      dims.push_back(Dim());
      continue;
    }
    dims.push_back(windows(c, w, i, x->dim(i + 2), (k.value() - 1) * w.dilations[i] + 1, false));
  }
  set_dims(c, dtype, dims);
}

void conv_transpose(InferContext& c) {
  const Type *x = c.ranked(0), *weight = c.ranked(1);
  const DType dtype = dtype_of(c, 0);
  if (x == nullptr || weight == nullptr) return c.set_unranked(0, dtype);
  if (x->rank() < 3 || x->rank() != weight->rank())
    c.fail(fmt::format("{} and the weight {} must have the same rank, 3 or more", c.show(x), c.show(weight)));
  if (given(c, "output_shape")) {
    if (const auto shape = param_ints(c, "output_shape")) {
      if (shape->size() != x->rank()) c.fail("output_shape and x have different ranks");
      DimVec dims;
      for (int64_t d : *shape) dims.push_back(Dim::of(d));
      return set_dims(c, dtype, dims);
    }
  }
  const size_t spatial = x->rank() - 2;
  const Window w = window(c, spatial);
  const auto groups = param_int(c, "groups");
  DimVec dims{x->dim(0), groups ? mul(c, weight->dim(1), Dim::of(*groups)) : Dim()};
  for (size_t i = 0; i < spatial; ++i) {
    const Dim k = weight->dim(i + 2), d = x->dim(i + 2);
    if (!w.known || !k.is_int()) {
      dims.push_back(Dim());
    } else if (w.pad_type == "same" || w.pad_type == "same_lower") {
      dims.push_back(mul(c, d, Dim::of(w.strides[i])));
    } else {
      const int64_t kernel = (k.value() - 1) * w.dilations[i] + 1;
      const Dim reach = mul(c, sub(c, d, Dim::of(1)), Dim::of(w.strides[i]));
      dims.push_back(add(c, reach, Dim::of(kernel - w.pads[2 * i] - w.pads[2 * i + 1])));
    }
  }
  set_dims(c, dtype, dims);
}

void pool(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  const auto kernel = param_ints(c, "kernel_sizes");
  if (x == nullptr) return c.set_unranked(0, dtype);
  need_rank_at_least(c, 0, 3);
  const size_t spatial = x->rank() - 2;
  const Window w = window(c, spatial);
  if (kernel && kernel->size() != spatial) c.fail(fmt::format("{} kernel sizes for {} axes", kernel->size(), spatial));
  const bool ceil_mode = param_bool(c, "ceil_mode");
  DimVec dims{x->dim(0), x->dim(1)};
  for (size_t i = 0; i < spatial; ++i)
    dims.push_back(kernel && w.known ? windows(c, w, i, x->dim(i + 2), (*kernel)[i], ceil_mode) : Dim());
  set_dims(c, dtype, dims);
}

// ---------------------------------------------------------------------------------------------------------------------
// Images: the last two axes are height and width

namespace {

void set_image(InferContext& c, Dim height, Dim width) {
  const Type* x = c.ranked(0);
  if (x == nullptr) return c.set_unranked(0, dtype_of(c, 0));
  need_rank_at_least(c, 0, 3);
  DimVec dims = dims_of(x);
  dims[dims.size() - 2] = height;
  dims[dims.size() - 1] = width;
  set_dims(c, dtype_of(c, 0), dims);
}

Dim param_size(InferContext& c, std::string_view name) {
  const auto v = param_int(c, name);
  return v ? Dim::of(*v) : Dim();
}

Dim scaled(InferContext& c, std::string_view name, Dim d) {
  const auto factor = param_float(c, name);
  if (!factor || d.is_unknown()) return Dim();
  if (*factor == std::floor(*factor)) return mul(c, d, Dim::of(static_cast<int64_t>(*factor)));
  return d.is_int() ? Dim::of(static_cast<int64_t>(std::floor(*factor * static_cast<double>(d.value())))) : Dim();
}

}  // namespace

void upsample(InferContext& c) {
  const Type* x = c.ranked(0);
  if (x == nullptr || x->rank() < 3) return set_image(c, Dim(), Dim());
  const Dim height = scaled(c, "scale_factor_height", x->dim(x->rank() - 2));
  set_image(c, height, scaled(c, "scale_factor_width", x->dim(x->rank() - 1)));
}

void resize_to(InferContext& c) { set_image(c, param_size(c, "target_size_height"), param_size(c, "target_size_width")); }

void affine(InferContext& c) {
  need_rank(c, 0, 4);
  set_image(c, param_size(c, "output_height"), param_size(c, "output_width"));
}

void resample(InferContext& c) {
  need_rank(c, 0, 4);
  need_rank(c, 1, 4);
  const Type* at = c.ranked(1);
  set_image(c, at ? at->dim(1) : Dim(), at ? at->dim(2) : Dim());
}

void crop(InferContext& c) {
  const Type* x = c.ranked(0);
  const auto height = param_ints(c, "crop_height"), width = param_ints(c, "crop_width");
  if ((height && height->size() != 2) || (width && width->size() != 2))
    c.fail("crop_height and crop_width have two elements each");
  if (x == nullptr || x->rank() < 3 || !height || !width) return set_image(c, Dim(), Dim());
  const auto less = [&](size_t axis, const std::vector<int64_t>& by) { return sub(c, x->dim(axis), Dim::of(by[0] + by[1])); };
  set_image(c, less(x->rank() - 2, *height), less(x->rank() - 1, *width));
}

void crop_resize(InferContext& c) {
  const Type *x = c.ranked(0), *boxes = c.ranked(1);
  const DType dtype = dtype_of(c, 0);
  if (x == nullptr || boxes == nullptr) return c.set_unranked(0, dtype);
  need_rank(c, 0, 4);
  need_rank_at_least(c, 1, 1);
  DimVec dims{boxes->dim(0)};
  if (c.version() < 8) dims.push_back(x->dim(0));
  dims.insert(dims.end(), {x->dim(1), param_size(c, "target_height"), param_size(c, "target_width")});
  set_dims(c, dtype, dims);
}

void resize(InferContext& c) {
  const Type* x = c.ranked(0);
  const DType dtype = dtype_of(c, 0);
  const auto count = param_int(c, "resized_dims");
  const size_t slot = operand(c, "shape");
  if (x == nullptr || !count || *count < 0 || *count > static_cast<int64_t>(x->rank()) || slot == kNoSlot)
    return c.set_unranked(0, dtype);
  const auto n = static_cast<size_t>(*count);
  const auto shape = c.value(slot);
  if (shape && shape->elements.size() < n) c.fail("shape is shorter than resized_dims");
  DimVec dims = dims_of(x);
  for (size_t i = 0; i < n; ++i) {
    const size_t axis = dims.size() - n + i;
    const Dim to = shape ? shape->elements[shape->elements.size() - n + i] : Dim();
    if (!to.is(0)) dims[axis] = to;  // 0 keeps the size
  }
  set_dims(c, dtype, dims);
}

}  // namespace sardonyx::mil::rules
