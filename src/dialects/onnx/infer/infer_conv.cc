// Convolutions and pooling: windows that slide over the trailing dims.
#include <algorithm>

#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {
namespace {

struct Window {
  size_t n = 0;  // spatial dims
  DimVec kernel;
  std::vector<int64_t> strides, dilations, pads;
  std::string auto_pad = "NOTSET";
  bool pads_known = true;
};

void read_list(const InferContext& c, std::string_view name, size_t size, int64_t otherwise, std::vector<int64_t>& out) {
  const auto list = c.attr_ints(name);
  if (!list || list->empty()) {
    out.assign(size, otherwise);
    return;
  }
  if (list->size() != size) c.fail(fmt::format("attribute '{}' has {} entries, not {}", name, list->size(), size));
  constexpr int64_t kBound = int64_t{1} << 40;
  for (int64_t v : *list) {
    if (v > kBound || v < -kBound) c.fail(fmt::format("attribute '{}' has {}", name, v));
  }
  out = *list;
}

Window read_window(const InferContext& c, size_t n) {
  Window w;
  w.n = n;
  read_list(c, "strides", n, 1, w.strides);
  read_list(c, "dilations", n, 1, w.dilations);
  read_list(c, "pads", 2 * n, 0, w.pads);
  w.auto_pad = c.attr_string("auto_pad").value_or("NOTSET");
  if (w.auto_pad.empty()) w.auto_pad = "NOTSET";
  for (int64_t s : w.strides) {
    if (s < 1) c.fail("a stride is below 1");
  }
  for (int64_t d : w.dilations) {
    if (d < 1) c.fail("a dilation is below 1");
  }
  return w;
}

// The extent of a kernel of k taps: (k - 1) * dilation + 1.
Dim reach(const InferContext& c, Dim k, int64_t dilation) { return add(c, mul(c, sub(c, k, 1), dilation), 1); }

// The number of window positions along one axis.
Dim positions(const InferContext& c, const Window& w, size_t i, Dim size, bool ceil_mode) {
  const Dim kernel = w.kernel[i];
  const int64_t stride = w.strides[i];
  if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER") {
    return ceildiv(c, size, stride);
  }
  if (kernel.is_unknown() || size.is_unknown()) return Dim();
  const int64_t before = w.auto_pad == "VALID" ? 0 : w.pads[i], after = w.auto_pad == "VALID" ? 0 : w.pads[i + w.n];
  const Dim span = sub(c, add(c, size, before + after), reach(c, kernel, w.dilations[i]));
  if (!ceil_mode) {
    const Dim out = add(c, floordiv(c, span, stride), 1);
    if (out.is_int() && out.value() < 0) c.fail(fmt::format("the window is larger than axis {} with its pads", i + 2));
    return out;
  }
  Dim out = add(c, ceildiv(c, span, stride), 1);
  if (out.is_int() && out.value() < 0) c.fail(fmt::format("the window is larger than axis {} with its pads", i + 2));
  // The last window must begin inside the data or the padding before it.
  if (out.is_int() && size.is_int() && (out.value() - 1) * stride >= size.value() + before) out = Dim::of(out.value() - 1);
  if (!out.is_int() && stride > 1) {
    const Dim limit = ceildiv(c, add(c, size, before), stride);
    out = c.dims().min(out, limit);
  }
  return out;
}

void conv_shape(InferContext& c, size_t xi, size_t wi, DType dtype) {
  const Type *x = c.ranked(xi), *w = c.ranked(wi);
  if (dtype == DType::kUndefined) return;
  const Type* either = x != nullptr ? x : w;
  if (either == nullptr) {
    c.set_unranked(0, dtype);
    return;
  }
  if (either->rank() < 2) c.fail(fmt::format("operands need a batch and a channel dim: {}", c.show(either)));
  if (x != nullptr && w != nullptr && x->rank() != w->rank()) {
    c.fail(fmt::format("X and W have ranks {} and {}", x->rank(), w->rank()));
  }
  const size_t n = either->rank() - 2;
  Window window = read_window(c, n);
  const auto kernel = c.attr_ints("kernel_shape");
  if (kernel && !kernel->empty() && kernel->size() != n)
    c.fail(fmt::format("kernel_shape has {} entries, not {}", kernel->size(), n));
  for (size_t i = 0; i < n; ++i) {
    Dim k = w ? w->dim(i + 2) : Dim();
    if (kernel && !kernel->empty()) k = w ? same_dim(c, k, Dim::of((*kernel)[i]), "kernel_shape and W") : Dim::of((*kernel)[i]);
    window.kernel.push_back(k);
  }
  const int64_t group = c.attr_int("group", 1);
  if (group < 1) c.fail("group is below 1");
  if (x != nullptr && w != nullptr) {
    const Dim channels = x->dim(1), per_group = w->dim(1);
    if (channels.is_int() && per_group.is_int() && !(mul(c, per_group, group) == channels)) {
      c.fail(fmt::format("X has {} channels, W takes {} in {} groups", channels.value(), per_group.value(), group));
    }
    if (w->dim(0).is_int() && w->dim(0).value() % group != 0) {
      c.fail(fmt::format("{} filters do not divide into {} groups", w->dim(0).value(), group));
    }
  }
  DimVec dims{x ? x->dim(0) : Dim(), w ? w->dim(0) : Dim()};
  for (size_t i = 0; i < n; ++i) dims.push_back(x ? positions(c, window, i, x->dim(i + 2), false) : Dim());
  c.set(0, dtype, dims);
}

}  // namespace

void conv(InferContext& c) { conv_shape(c, 0, 1, dtype_of(c, 0)); }
void conv_integer(InferContext& c) { conv_shape(c, 0, 1, DType::kI32); }
void qlinear_conv(InferContext& c) { conv_shape(c, 0, 3, dtype_of(c, 7)); }
void deform_conv(InferContext& c) { conv_shape(c, 0, 1, dtype_of(c, 0)); }

void conv_transpose(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type *x = c.ranked(0), *w = c.ranked(1);
  if (x == nullptr || w == nullptr || dtype == DType::kUndefined) {
    c.set_unranked(0, dtype);
    return;
  }
  if (x->rank() < 2 || x->rank() != w->rank()) c.fail(fmt::format("X is {} and W is {}", c.show(x), c.show(w)));
  const size_t n = x->rank() - 2;
  Window window = read_window(c, n);
  const auto kernel = c.attr_ints("kernel_shape");
  for (size_t i = 0; i < n; ++i) {
    Dim k = w->dim(i + 2);
    if (kernel && kernel->size() == n) k = same_dim(c, k, Dim::of((*kernel)[i]), "kernel_shape and W");
    window.kernel.push_back(k);
  }
  std::vector<int64_t> output_padding;
  read_list(c, "output_padding", n, 0, output_padding);
  const auto output_shape = c.attr_ints("output_shape");
  const int64_t group = c.attr_int("group", 1);
  if (x->dim(1).is_int() && w->dim(0).is_int()) same_dim(c, x->dim(1), w->dim(0), "the channels of X and W");
  DimVec dims{x->dim(0), mul(c, w->dim(1), group)};
  for (size_t i = 0; i < n; ++i) {
    const Dim size = x->dim(i + 2);
    if (output_shape && !output_shape->empty()) {
      // All dims in old models, only the spatial ones today.
      const size_t skip = output_shape->size() == n + 2 ? 2 : 0;
      if (output_shape->size() != n + skip) c.fail(fmt::format("output_shape has {} entries", output_shape->size()));
      dims.push_back(Dim::of((*output_shape)[i + skip]));
    } else if (window.auto_pad == "SAME_UPPER" || window.auto_pad == "SAME_LOWER") {
      dims.push_back(mul(c, size, window.strides[i]));
    } else if (size.is_unknown() || window.kernel[i].is_unknown()) {
      dims.push_back(Dim());
    } else {
      const bool valid = window.auto_pad == "VALID";
      const int64_t pads = valid ? 0 : window.pads[i] + window.pads[i + n];
      Dim out = add(c, mul(c, sub(c, size, 1), window.strides[i]), reach(c, window.kernel[i], window.dilations[i]));
      dims.push_back(add(c, out, output_padding[i] - pads));
    }
  }
  c.set(0, dtype, dims);
}

void pool(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  const auto kernel = c.attr_ints("kernel_shape");
  if (x == nullptr || dtype == DType::kUndefined) {
    c.set_unranked(0, dtype);
    if (c.op().name == "MaxPool") c.set_unranked(1, DType::kI64);
    return;
  }
  need_rank_at_least(c, 0, 2);
  const size_t n = x->rank() - 2;
  Window w = read_window(c, n);
  if (!kernel) {
    c.fail("needs the attribute 'kernel_shape'");
  }
  if (kernel->size() != n) c.fail(fmt::format("kernel_shape has {} entries for {}", kernel->size(), c.show(x)));
  for (int64_t k : *kernel) {
    if (k < 1) c.fail("kernel_shape has a size below 1");
    w.kernel.push_back(Dim::of(k));
  }
  const bool ceil_mode = c.attr_int("ceil_mode", 0) != 0;
  DimVec dims{x->dim(0), x->dim(1)};
  for (size_t i = 0; i < n; ++i) dims.push_back(positions(c, w, i, x->dim(i + 2), ceil_mode));
  const Type* result = c.types().freshen(c.types().tensor(dtype, dims));
  c.set(0, result);
  if (c.op().name == "MaxPool") c.set(1, c.types().with_dtype(result, DType::kI64));
}

void global_pool(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (x == nullptr) return c.set_unranked(0, dtype);
  need_rank_at_least(c, 0, 2);
  DimVec dims(x->rank(), Dim::of(1));
  dims[0] = x->dim(0);
  dims[1] = x->dim(1);
  c.set(0, dtype, dims);
}

void max_unpool(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (c.has_input(2)) {
    if (auto v = c.value(2)) {
      c.set(0, dtype, v->elements);
    } else if (x != nullptr) {
      c.set(0, dtype, DimVec(x->rank()));
    } else {
      c.set_unranked(0, dtype);
    }
    return;
  }
  if (x == nullptr) return c.set_unranked(0, dtype);
  need_rank_at_least(c, 0, 2);
  const size_t n = x->rank() - 2;
  Window w = read_window(c, n);
  const auto kernel = c.attr_ints("kernel_shape");
  if (!kernel || kernel->size() != n) c.fail(fmt::format("kernel_shape must have {} entries", n));
  DimVec dims{x->dim(0), x->dim(1)};
  for (size_t i = 0; i < n; ++i) {
    const Dim spread = mul(c, sub(c, x->dim(i + 2), 1), w.strides[i]);
    dims.push_back(add(c, add(c, spread, (*kernel)[i]), -w.pads[i] - w.pads[i + n]));
  }
  c.set(0, dtype, dims);
}

void max_roi_pool(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type *x = c.ranked(0), *rois = c.ranked(1);
  const auto shape = c.attr_ints("pooled_shape");
  need_rank_at_least(c, 0, 2);
  if (x == nullptr || !shape) return c.set_unranked(0, dtype);
  DimVec dims{rois ? rois->dim(0) : Dim(), x->dim(1)};
  for (int64_t s : *shape) dims.push_back(Dim::of(s));
  c.set(0, dtype, dims);
}

void roi_align(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  need_rank(c, 0, 4);
  need_rank(c, 1, 2);
  need_rank(c, 2, 1);
  const Type *x = c.ranked(0), *rois = c.ranked(1), *batch = c.ranked(2);
  Dim count = rois ? rois->dim(0) : Dim();
  if (batch != nullptr)
    count = rois ? same_dim(c, count, batch->dim(0), "the numbers of rois and batch_indices") : batch->dim(0);
  if (dtype == DType::kUndefined) return;
  c.set(0, dtype,
        DimVec{count, x ? x->dim(1) : Dim(), Dim::of(c.attr_int("output_height", 1)), Dim::of(c.attr_int("output_width", 1))});
}

void col2im(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  need_rank(c, 0, 3);
  const auto image = c.value(1), block = c.value(2);
  std::optional<size_t> n;
  if (image) n = image->elements.size();
  if (block) n = block->elements.size();
  for (std::string_view name : {"dilations", "strides", "pads"}) {
    const auto list = c.attr_ints(name);
    if (!n && list && !list->empty()) n = name == "pads" ? list->size() / 2 : list->size();
  }
  for (size_t i = 1; i <= 2 && !n; ++i) n = list_length(c, i);
  if (!n || *n > 64) return c.set_unranked(0, dtype);
  DimVec dims{x ? x->dim(0) : Dim(), Dim()};
  if (x != nullptr && block) {
    Dim area = Dim::of(1);
    for (Dim d : block->elements) area = mul(c, area, d);
    if (area.is_int() && area.value() > 0) dims[1] = floordiv(c, x->dim(1), area.value());
  }
  for (size_t i = 0; i < *n; ++i) dims.push_back(image ? image->elements[i] : Dim());
  c.set(0, dtype, dims);
}

}  // namespace sardonyx::onnx::rules
