// Pooling.
#include <fmt/format.h>

#include <algorithm>

#include "lower/mil/window.h"

namespace sardonyx::to_mil {
namespace {

// With ceil_mode, the last window may extend beyond the end. If sizes are known, this is extra padding at the end.
struct Pool {
  Window w;
  bool ceil = false;
  bool is_longer = false;  // padded at the end for ceil_mode
};

Pool pool_of(Lowering& ctx, std::string_view op) {
  Pool p;
  p.w = window_of(ctx, ctx.ints_attr("kernel_shape", ctx.rank(0) - 2, 1));
  Value* x = ctx.in(0);
  if (!ctx.takes(op, x->dtype())) ctx.unsupported(fmt::format("Core ML's {} takes no {}", op, to_string(x->dtype())));
  if (std::ranges::any_of(p.w.dilations, [](int64_t d) { return d != 1; })) ctx.unsupported("pools with dilation");
  if (ctx.int_attr("ceil_mode", 0) == 0 || p.w.pad_type != "custom") return p;
  const auto in = ctx.in_dims(0).subspan(2), out = ctx.out_dims().subspan(2);
  for (size_t i = 0; i < p.w.spatial(); ++i) {
    int64_t& after = p.w.pads[2 * i + 1];
    if (!in[i].is_int() || !out[i].is_int()) {
      if (p.w.pads[2 * i] != after || p.w.spatial() > 2)
        ctx.unsupported("ceil_mode on sizes that are open, with padding that is not the same on both sides");
      p.ceil = true;
      continue;
    }
    const int64_t missing = (out[i].value() - 1) * p.w.strides[i] + p.w.reach(i) - (in[i].value() + p.w.pads[2 * i] + after);
    if (missing > 0) {
      after += missing;
      p.is_longer = true;
    }
  }
  if (p.ceil && p.is_longer) ctx.unsupported("ceil_mode where some sizes are open");
  return p;
}

}  // namespace

std::vector<Value*> lower_AveragePool(Lowering& ctx) {
  const Pool p = pool_of(ctx, "avg_pool");
  const bool counts = ctx.int_attr("count_include_pad", 0) != 0;
  if (counts && p.is_longer) ctx.unsupported("an average that counts padding, with ceil_mode");
  return {ctx.b.avg_pool(ctx.in(0), {.ceil_mode = p.ceil,
                                     .exclude_padding_from_average = !counts,
                                     .kernel_sizes = p.w.kernel,
                                     .pad = p.w.pads,
                                     .pad_type = p.w.is_padded() ? p.w.pad_type : "valid",
                                     .strides = p.w.strides})};
}

std::vector<Value*> lower_MaxPool(Lowering& ctx) {
  if (ctx.is_used(1)) ctx.unsupported("the places of the maxima");
  const Pool p = pool_of(ctx, "max_pool");
  return {ctx.b.max_pool(ctx.in(0), {.ceil_mode = p.ceil,
                                     .kernel_sizes = p.w.kernel,
                                     .pad = p.w.pads,
                                     .pad_type = p.w.is_padded() ? p.w.pad_type : "valid",
                                     .strides = p.w.strides})};
}

std::vector<Value*> lower_GlobalAveragePool(Lowering& ctx) {
  return {ctx.b.reduce_mean(ctx.in(0), {.axes = iota(ctx.rank(0) - 2, 2), .keep_dims = true})};
}

std::vector<Value*> lower_GlobalMaxPool(Lowering& ctx) {
  return {ctx.b.reduce_max(ctx.in(0), {.axes = iota(ctx.rank(0) - 2, 2), .keep_dims = true})};
}

}  // namespace sardonyx::to_mil
