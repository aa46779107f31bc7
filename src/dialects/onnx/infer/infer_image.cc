// Images: resizing, sampling grids, boxes.
#include <algorithm>
#include <cmath>

#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {
namespace {

// floor(d * scale), where scale is an f32. A symbolic d only if the product is exact: p / 2^k.
Dim scaled(const InferContext& c, Dim d, float scale) {
  if (scale == 1.0f) return d;
  if (d.is_int()) {
    const float size = std::floor(static_cast<float>(d.value()) * scale);
    if (!(size < 1e18f)) c.fail(fmt::format("a scale is {}", scale));
    return Dim::of(static_cast<int64_t>(size));
  }
  if (d.is_unknown() || !(scale > 0)) return Dim();
  int64_t divisor = 1;
  double numerator = scale;
  while (numerator != std::floor(numerator) && divisor <= 4096) {
    numerator *= 2;
    divisor *= 2;
  }
  if (numerator != std::floor(numerator) || numerator > 1e6) return Dim();
  return floordiv(c, mul(c, d, static_cast<int64_t>(numerator)), divisor);
}

std::optional<std::vector<float>> floats(const InferContext& c, size_t i) {
  const TensorPtr t = c.constant(i);
  if (t == nullptr || !is_float(t->dtype())) return std::nullopt;
  std::vector<float> out;
  for (int64_t k = 0; k < t->size() && k < 64; ++k) out.push_back(static_cast<float>(t->as_double(k)));
  return out;
}

void scale_all(InferContext& c, const Type* x, const std::vector<size_t>& axes, const std::vector<float>& scales) {
  if (scales.size() != axes.size()) c.fail(fmt::format("{} scales for {} axes", scales.size(), axes.size()));
  DimVec dims = dims_of(x);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!(scales[i] > 0)) c.fail("a scale is not positive");
    dims[axes[i]] = scaled(c, dims[axes[i]], scales[i]);
  }
  c.set(0, x->dtype(), dims);
}

}  // namespace

void upsample(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (x == nullptr) return c.set_unranked(0, dtype);
  std::vector<size_t> axes;
  for (size_t i = 0; i < x->rank(); ++i) axes.push_back(i);
  if (c.op().since_version == 1) {
    const auto height = c.attr_float("height_scale"), width = c.attr_float("width_scale");
    if (!height || !width || x->rank() != 4) return c.set_unranked(0, dtype);
    return scale_all(c, x, axes, {1, 1, static_cast<float>(*height), static_cast<float>(*width)});
  }
  std::optional<std::vector<float>> scales;
  if (c.op().since_version < 9) {
    if (const Attr* a = c.attr("scales")) {
      if (const auto* list = a->get<Attr::Floats>()) scales.emplace(list->begin(), list->end());
    }
  } else {
    scales = floats(c, 1);
  }
  if (scales) return scale_all(c, x, axes, *scales);
  c.set(0, dtype, DimVec(x->rank()));
}

void resize(InferContext& c) {
  if (c.op().since_version < 11) return upsample(c);
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (x == nullptr) return c.set_unranked(0, dtype);
  std::vector<size_t> axes;
  if (auto list = c.attr_ints("axes")) {
    axes = normal_axes(c, *list, x->rank());
  } else {
    for (size_t i = 0; i < x->rank(); ++i) axes.push_back(i);
  }
  // An empty tensor for scales or sizes means "not given".
  const auto given = [&](size_t i) {
    const Type* t = c.ranked(i);
    return c.has_input(i) && !(t != nullptr && t->rank() == 1 && t->dim(0).is(0));
  };
  if (given(3)) {
    const auto sizes = c.value(3);
    if (!sizes) {
      DimVec dims = dims_of(x);
      for (size_t a : axes) dims[a] = Dim();
      c.set(0, dtype, dims);
      return;
    }
    if (sizes->elements.size() != axes.size()) c.fail(fmt::format("{} sizes for {} axes", sizes->elements.size(), axes.size()));
    DimVec dims = dims_of(x);
    const std::string policy = c.attr_string("keep_aspect_ratio_policy").value_or("stretch");
    if (policy.empty() || policy == "stretch") {
      for (size_t i = 0; i < axes.size(); ++i) dims[axes[i]] = sizes->elements[i];
    } else {
      // Keeping the aspect ratio: one scale for all axes, the smallest or largest that the sizes imply.
      bool known = true;
      float scale = 0;
      for (size_t i = 0; i < axes.size(); ++i) {
        const Dim from = dims[axes[i]], to = sizes->elements[i];
        if (!from.is_int() || !to.is_int() || from.value() <= 0) {
          known = false;
          break;
        }
        const float s = static_cast<float>(to.value()) / static_cast<float>(from.value());
        scale = i == 0 ? s : policy == "not_larger" ? std::min(scale, s) : std::max(scale, s);
      }
      for (size_t a : axes) {
        dims[a] = known ? Dim::of(static_cast<int64_t>(std::floor(scale * static_cast<float>(dims[a].value()) + 0.5f))) : Dim();
      }
    }
    c.set(0, dtype, dims);
    return;
  }
  if (given(2)) {
    if (auto scales = floats(c, 2)) return scale_all(c, x, axes, *scales);
  }
  DimVec dims = dims_of(x);
  for (size_t a : axes) dims[a] = Dim();
  c.set(0, dtype, dims);
}

void grid_sample(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type *x = c.ranked(0), *grid = c.ranked(1);
  need_rank_at_least(c, 0, 3);
  need_rank_at_least(c, 1, 3);
  if (x != nullptr && grid != nullptr && x->rank() != grid->rank()) {
    c.fail(fmt::format("X has rank {}, the grid {}", x->rank(), grid->rank()));
  }
  const Type* either = x != nullptr ? x : grid;
  if (either == nullptr || dtype == DType::kUndefined) return c.set_unranked(0, dtype);
  DimVec dims{x ? x->dim(0) : grid->dim(0), x ? x->dim(1) : Dim()};
  if (x != nullptr && grid != nullptr) dims[0] = same_dim(c, x->dim(0), grid->dim(0), "the batch sizes of X and the grid");
  for (size_t i = 1; i + 1 < either->rank(); ++i) dims.push_back(grid ? grid->dim(i) : Dim());
  c.set(0, dtype, dims);
}

void affine_grid(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const auto size = c.value(1);
  std::optional<size_t> n = list_length(c, 1);
  if (size) n = size->elements.size();
  if (!n) return c.set_unranked(0, dtype);
  if (*n != 4 && *n != 5) c.fail(fmt::format("size has {} entries, not 4 or 5", *n));
  if (dtype == DType::kUndefined) return;
  DimVec dims{size ? size->elements[0] : Dim()};
  for (size_t i = 2; i < *n; ++i) dims.push_back(size ? size->elements[i] : Dim());
  dims.push_back(Dim::of(static_cast<int64_t>(*n) - 2));
  c.set(0, dtype, dims);
}

void image_decoder(InferContext& c) {
  const std::string format = c.attr_string("pixel_format").value_or("RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale")
    c.fail(fmt::format("attribute 'pixel_format' is '{}'", format));
  c.set(0, DType::kU8, DimVec{Dim(), Dim(), Dim::of(format == "Grayscale" ? 1 : 3)});
}

void non_max_suppression(InferContext& c) { c.set(0, DType::kI64, DimVec{Dim(), Dim::of(3)}); }

}  // namespace sardonyx::onnx::rules
