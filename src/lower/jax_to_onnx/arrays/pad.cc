// pad[padding_config] x fill   =>   Pad(x, pads, fill);  negative edges: Slice
//
// Padding between elements adds a new axis of size 1 after theirs, pads it to 1 + interior, merges the two,
// and cuts off the last `interior` elements.
#include "lower/jax_to_onnx/arrays/pad.h"

#include <algorithm>
#include <cmath>

#include "lower/jax_to_onnx/context.h"

namespace sardonyx::jax_to_onnx {
namespace {

bool is_negative(Dim d) { return d.is_int() && d.value() < 0; }

// Pads each axis by its edges that are not negative.
Value* pad_edges(Lowering& ctx, Value* x, std::span<const Padding> config, Value* fill) {
  std::vector<Dim> low, high;
  bool any = false;
  for (const Padding& p : config) {
    low.push_back(is_negative(p.low) ? Dim::of(0) : p.low);
    high.push_back(is_negative(p.high) ? Dim::of(0) : p.high);
    any = any || !low.back().is(0) || !high.back().is(0);
  }
  if (!any) return x;
  low.insert(low.end(), high.begin(), high.end());
  DType own = x->dtype(), wide = kernel_dtype(ctx, {"Pad"}, own);
  auto zero = splat_value(fill);
  bool is_default = zero && *zero == 0 && !std::signbit(*zero);
  Value* padded = ctx.b.Pad(ctx.cast(x, wide), ctx.shape(low), is_default ? nullptr : ctx.cast(fill, wide));
  return ctx.cast(padded, own);
}

Value* cut_edges(Lowering& ctx, Value* x, std::span<const Padding> config) {
  Dims& dims = ctx.b.dims();
  for (size_t i = 0; i < config.size(); ++i) {
    Dim size = x->type()->dim(i);
    Dim from = is_negative(config[i].low) ? Dim::of(-config[i].low.value()) : Dim::of(0);
    Dim to = is_negative(config[i].high) ? dims.add(size, config[i].high) : size;
    x = ctx.slice(x, static_cast<int64_t>(i), from, to);
  }
  return x;
}

Value* spread(Lowering& ctx, Value* x, size_t axis, int64_t interior, Value* fill) {
  Dims& dims = ctx.b.dims();
  Dim size = x->type()->dim(axis);
  if (interior == 0 || size.is(1)) return x;
  std::vector<Padding> config(x->type()->rank() + 1);
  config[axis + 1].high = Dim::of(interior);
  std::vector<Dim> merged(x->type()->dims().begin(), x->type()->dims().end());
  merged[axis] = dims.mul(size, Dim::of(interior + 1));
  Value* apart = ctx.unsqueeze(x, std::vector{static_cast<int64_t>(axis) + 1});
  x = ctx.reshape(pad_edges(ctx, apart, config, fill), merged);
  return ctx.slice(x, static_cast<int64_t>(axis), Dim::of(0), dims.sub(merged[axis], Dim::of(interior)));
}

}  // namespace

Value* pad(Lowering& ctx, Value* x, std::span<const Padding> config, Value* fill) {
  for (size_t i = 0; i < config.size(); ++i) x = spread(ctx, x, i, config[i].interior, fill);
  // Padding comes first: a negative edge may remove what the other end adds.
  return cut_edges(ctx, pad_edges(ctx, x, config, fill), config);
}

std::vector<Padding> padding_param(Lowering& ctx, std::string_view name) {
  std::vector<Padding> config;
  auto add = [&](std::span<const Dim> p) {
    if (p.size() < 2) ctx.unsupported("parameter '" + std::string(name) + "' is not a list of pairs");
    if (p.size() > 2 && !p[2].is_int()) ctx.unsupported("symbolic interior padding");
    config.push_back({p[0], p[1], p.size() > 2 ? p[2].value() : 0});
  };
  const Attr& a = ctx.param(name);
  const auto* rows = a.get<AttrList>();
  if (rows == nullptr) {
    if (ctx.ints_param(name).empty()) return {};
    ctx.unsupported("parameter '" + std::string(name) + "' is not a list of pairs");
  }
  for (const Attr& row : *rows) {
    std::vector<Dim> entries;
    if (const auto* ints = row.get<Attr::Ints>()) {
      for (int64_t v : *ints) entries.push_back(Dim::of(v));
    } else if (const auto* dims = row.get<Attr::DimList>()) {
      for (Dim d : *dims) entries.push_back(ctx.context().import(d));
    }
    add(entries);
  }
  return config;
}

std::vector<Value*> lower_pad(Lowering& ctx) {
  if (is_complex(ctx.in_dtype(0))) ctx.unsupported("no padding of complex values");
  return {pad(ctx, ctx.in(0), padding_param(ctx, "padding_config"), ctx.in(1))};
}

namespace {

bool is_same(Dims& dims, const PaddedAxis& a, bool upper) {
  if (a.kernel < a.stride) return false;
  const Dim last = dims.mul(dims.sub(dims.ceildiv(a.size, Dim::of(a.stride)), Dim::of(1)), Dim::of(a.stride));
  const Dim missing = dims.sub(dims.add(last, Dim::of(a.kernel)), a.size);
  // The program may write the total either way. `missing` is never negative, since the last window starts
  // less than a stride before the end.
  for (const Dim total : {missing, dims.max(missing, Dim::of(0))}) {
    const Dim less = dims.floordiv(total, Dim::of(2)), more = dims.sub(total, less);
    if (a.padding.low == (upper ? less : more) && a.padding.high == (upper ? more : less)) return true;
  }
  return false;
}

}  // namespace

std::string_view auto_pad_of(Dims& dims, std::span<const PaddedAxis> axes) {
  for (const bool upper : {true, false}) {
    if (std::ranges::all_of(axes, [&](const PaddedAxis& a) { return is_same(dims, a, upper); }))
      return upper ? "SAME_UPPER" : "SAME_LOWER";
  }
  return {};
}

}  // namespace sardonyx::jax_to_onnx
