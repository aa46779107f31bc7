// reduce_window_max, reduce_window_min, reduce_window_sum, reduce_window
// [window_dimensions, window_strides, padding, base_dilation, window_dilation] x
//   max of floats   =>   MaxPool over at most three axes, channels first;  min: -MaxPool(-x)
//   sum of floats   =>   AveragePool, padding counted, times the size of the window
//   else            =>   axis by axis: windows of 1, 2, 4, ... elements by combining x with itself shifted,
//                        then the strides
//   any body        =>   the windows written out, folded by Scan
//   max of complex  =>   the elements of each window compared one after another
//
// Padding of symbolic sizes is passed as auto_pad if it equals SAME.
#include <algorithm>

#include "lower/jax_to_onnx/arrays/pad.h"
#include "lower/jax_to_onnx/lib/complex.h"
#include "lower/jax_to_onnx/reductions/reduction.h"

namespace sardonyx::jax_to_onnx {
namespace {

struct Window {
  std::vector<int64_t> size, stride, dilation;
  std::vector<Padding> padding;

  size_t rank() const { return size.size(); }
  bool is_trivial(size_t axis) const {
    return size[axis] == 1 && stride[axis] == 1 && padding[axis].low.is(0) && padding[axis].high.is(0);
  }
};

Window window_of(Lowering& ctx) {
  Window w;
  w.size = ctx.ints_param("window_dimensions");
  w.stride = ctx.ints_param("window_strides");
  w.dilation = ctx.ints_param("window_dilation");
  w.padding = padding_param(ctx, "padding");
  auto base = ctx.ints_param("base_dilation");
  for (size_t i = 0; i < w.rank(); ++i) w.padding[i].interior = base[i] - 1;
  return w;
}

// Combines windows of `size` elements, `dilation` apart, at every position: each power of two from the
// previous one, then the powers that add up to `size`.
Value* windows_along(Lowering& ctx, const Reduction& r, Value* x, int64_t axis, int64_t size, int64_t dilation) {
  Dims& dims = ctx.b.dims();
  auto length = [&](Value* v) { return v->type()->dim(static_cast<size_t>(axis)); };
  // Element `first` of each window of `total` elements that fits.
  Dim whole = length(x);
  auto from = [&](Value* v, int64_t first, int64_t total) {
    Dim stop = dims.sub(dims.add(whole, Dim::of(first * dilation)), Dim::of((total - 1) * dilation));
    return ctx.slice(v, axis, Dim::of(first * dilation), stop);
  };
  Value* result = nullptr;
  int64_t covered = 0;
  Value* power = x;
  for (int64_t width = 1;; width *= 2) {
    if ((size & width) != 0) {
      int64_t total = covered + width;
      result = result == nullptr ? power : combine(ctx, r, from(result, 0, total), from(power, covered, total));
      covered = total;
    }
    if (width * 2 > size) return result;
    power = combine(ctx, r, from(power, 0, 2 * width), from(power, width, 2 * width));
  }
}

Value* by_axis(Lowering& ctx, const Reduction& r, Value* x, const Window& w, Value* fill) {
  x = pad(ctx, x, w.padding, fill);
  for (size_t i = 0; i < w.rank(); ++i) {
    auto axis = static_cast<int64_t>(i);
    if (w.size[i] > 1) x = windows_along(ctx, r, x, axis, w.size[i], w.dilation[i]);
    if (w.stride[i] > 1) x = ctx.slice(x, axis, Dim::of(0), x->type()->dim(i), w.stride[i]);
  }
  return x;
}

// ONNX's pooling operators: batch and channel axes first, then one to three spatial axes.
class Pool {
 public:
  // Pools operand 0 of the equation.
  Pool(Lowering& ctx, const Window& w) : ctx_(ctx), w_(w) {
    for (size_t i = 0; i < w.rank(); ++i) (w.is_trivial(i) ? plain_ : spatial_).push_back(static_cast<int64_t>(i));
    const bool is_open = std::ranges::any_of(spatial_, [this](int64_t axis) {
      const auto& padding = w_.padding[static_cast<size_t>(axis)];
      return !padding.low.is_int() || !padding.high.is_int();
    });
    std::vector<PaddedAxis> padded;
    for (int64_t axis : spatial_) {
      const auto i = static_cast<size_t>(axis);
      if (w_.dilation[i] != 1 || w_.padding[i].interior != 0) return;
      padded.push_back({w_.padding[i], ctx.in_dims(0)[i], w_.size[i], w_.stride[i]});
    }
    if (is_open) auto_pad_ = auto_pad_of(ctx.b.dims(), padded);
  }

  bool fits(std::string_view op, DType t) const {
    if (spatial_.empty() || spatial_.size() > 3 || kernel_dtype(ctx_, {op}, t) == DType::kUndefined) return false;
    // AveragePool has dilations from opset 19 on.
    if (op == "AveragePool" && ctx_.b.opset() < 19 &&
        std::ranges::any_of(spatial_, [&](int64_t axis) { return w_.dilation[static_cast<size_t>(axis)] != 1; }))
      return false;
    return is_same() || std::ranges::all_of(spatial_, [&](int64_t axis) {
             const Padding& p = w_.padding[static_cast<size_t>(axis)];
             int64_t size = w_.size[static_cast<size_t>(axis)];
             auto is_edge = [&](Dim d) { return d.is_int() && d.value() >= 0 && d.value() < size; };
             return is_edge(p.low) && is_edge(p.high) && p.interior == 0;
           });
  }

  Value* run(std::string_view op, Value* x, bool count_padding) {
    DType own = x->dtype(), wide = kernel_dtype(ctx_, {op}, own);
    std::vector<int64_t> perm = plain_;
    perm.insert(perm.end(), spatial_.begin(), spatial_.end());
    Value* transposed = ctx_.transpose(ctx_.cast(x, wide), perm);
    std::vector<Dim> dims(transposed->type()->dims().begin(), transposed->type()->dims().end());
    Value* result = ctx_.b.op(op, {as_batch(transposed)}, attributes(count_padding));
    // Restores the axes: plain ones have their old sizes, spatial ones the result's.
    for (size_t i = 0; i < spatial_.size(); ++i) dims[plain_.size() + i] = ctx_.out_dims()[static_cast<size_t>(spatial_[i])];
    if (plain_.size() == 1) result = ctx_.squeeze(result, std::vector<int64_t>{0});
    if (plain_.empty()) result = ctx_.squeeze(result, std::vector<int64_t>{0, 1});
    result = ctx_.reshape(result, dims);
    std::vector<int64_t> back(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
    return ctx_.cast(ctx_.transpose(result, back), own);
  }

 private:
  bool is_same() const { return !auto_pad_.empty(); }

  // Merges the plain axes into two before the spatial ones.
  Value* as_batch(Value* x) {
    if (plain_.empty()) return ctx_.unsqueeze(x, std::vector<int64_t>{0, 1});
    if (plain_.size() == 1) return ctx_.unsqueeze(x, std::vector<int64_t>{0});
    if (plain_.size() == 2) return x;
    auto dims = x->type()->dims();
    std::vector<Dim> merged{ctx_.b.dims().product(dims.subspan(0, plain_.size() - 1))};
    merged.insert(merged.end(), dims.begin() + static_cast<ptrdiff_t>(plain_.size()) - 1, dims.end());
    return ctx_.reshape(x, merged);
  }

  AttrInit attributes(bool count_padding) const {
    std::vector<int64_t> size, stride, dilation, low, high;
    for (int64_t axis : spatial_) {
      auto i = static_cast<size_t>(axis);
      size.push_back(w_.size[i]);
      stride.push_back(w_.stride[i]);
      dilation.push_back(w_.dilation[i]);
      low.push_back(is_same() ? 0 : w_.padding[i].low.value());
      high.push_back(is_same() ? 0 : w_.padding[i].high.value());
    }
    low.insert(low.end(), high.begin(), high.end());
    auto all_are = [](const std::vector<int64_t>& v, int64_t n) {
      return std::ranges::all_of(v, [n](int64_t e) { return e == n; });
    };
    AttrInit attrs{attr("kernel_shape", size)};
    if (!all_are(stride, 1)) attrs.push_back(attr("strides", stride));
    if (!all_are(dilation, 1)) attrs.push_back(attr("dilations", dilation));
    if (is_same()) attrs.push_back(attr("auto_pad", std::string(auto_pad_)));
    if (!all_are(low, 0)) attrs.push_back(attr("pads", low));
    if (count_padding && (is_same() || !all_are(low, 0))) attrs.push_back(attr("count_include_pad", 1));
    return attrs;
  }

  Lowering& ctx_;
  const Window& w_;
  std::vector<int64_t> plain_, spatial_;
  std::string_view auto_pad_;  // SAME_UPPER or SAME_LOWER, for sizes known only at run time
};

// A window that covers its whole axis, of a size known only at run time, reduces the axis. Returns whether
// every window covers its axis or has size 1.
bool covers_axes(Lowering& ctx, std::vector<int64_t>& covered) {
  const auto sizes = ctx.dims_param("window_dimensions");
  if (std::ranges::all_of(sizes, &Dim::is_int)) return false;
  const auto padding = padding_param(ctx, "padding");
  const auto base = ctx.ints_param("base_dilation"), dilation = ctx.ints_param("window_dilation");
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_plain = padding[i].low.is(0) && padding[i].high.is(0) && base[i] == 1 && dilation[i] == 1;
    if (!is_plain) return false;
    if (sizes[i].is(1) && ctx.out_dims()[i] == ctx.in_dims(0)[i]) continue;
    if (!(sizes[i] == ctx.in_dims(0)[i])) return false;
    covered.push_back(static_cast<int64_t>(i));
  }
  return true;
}

std::vector<Value*> reduce_window(Lowering& ctx, std::string_view primitive) {
  const Reduction& r = *find_reduction(primitive);
  Value* x = ctx.operands()[0];
  if (std::vector<int64_t> axes; covers_axes(ctx, axes)) {
    if (is_float(x->dtype())) return {reduce(ctx, r.reduce_op, x, axes, /*keepdims=*/true)};
    return {ctx.unsqueeze(reduce_with(ctx, r, x, axes), axes)};
  }
  Window w = window_of(ctx);
  Pool pool(ctx, w);
  bool is_average = primitive == "add";
  if (primitive == "mul" || !pool.fits(is_average ? "AveragePool" : "MaxPool", x->dtype()))
    return {by_axis(ctx, r, x, w, identity_element(ctx, r, x->dtype()))};
  if (primitive == "max") return {pool.run("MaxPool", x, false)};
  // min is a negated max. Not for integers: the least one has no negative.
  if (primitive == "min" && !is_float(x->dtype())) return {by_axis(ctx, r, x, w, identity_element(ctx, r, x->dtype()))};
  if (primitive == "min") return {ctx.via("Neg", {pool.run("MaxPool", ctx.via("Neg", {x}), false)})};
  int64_t count = 1;
  for (int64_t n : w.size) count *= n;
  Value* average = pool.run("AveragePool", x, true);
  return {ctx.via("Mul", {average, ctx.like(average, static_cast<double>(count))})};
}

}  // namespace

std::vector<Value*> lower_reduce_window_max(Lowering& ctx) { return reduce_window(ctx, "max"); }
std::vector<Value*> lower_reduce_window_min(Lowering& ctx) { return reduce_window(ctx, "min"); }
std::vector<Value*> lower_reduce_window_sum(Lowering& ctx) { return reduce_window(ctx, "add"); }

namespace {

// x with each window written out: [windows, elements of a window].
Value* windows_as_rows(Lowering& ctx, Value* x, const Window& w, Value* fill) {
  OnnxBuilder& b = ctx.b;
  x = pad(ctx, x, w.padding, fill);
  std::vector<int64_t> order;
  std::vector<Dim> counts, sizes;
  for (size_t i = 0; i < w.rank(); ++i) {
    auto axis = static_cast<int64_t>(2 * i);
    Dim count = ctx.out_dims()[i], size = Dim::of(w.size[i]);
    Value* first = b.Mul(ctx.iota(DType::kI64, count), b.i64(w.stride[i]));
    Value* offset = b.Mul(ctx.iota(DType::kI64, size), b.i64(w.dilation[i]));
    x = b.Gather(x, b.Add(ctx.unsqueeze(first, std::vector<int64_t>{1}), offset), {.axis = axis});
    counts.push_back(count);
    sizes.push_back(size);
    order.push_back(axis);
  }
  for (size_t i = 0; i < w.rank(); ++i) order.push_back(static_cast<int64_t>(2 * i + 1));
  const Dim rows[] = {b.dims().product(counts), b.dims().product(sizes)};
  return ctx.reshape(ctx.transpose(x, order), rows);
}

// Which elements of the windows are elements of the operand, as rows; null if all are.
Value* inside_rows(Lowering& ctx, const Window& w) {
  const auto is_none = [](const Padding& p) { return p.low.is(0) && p.high.is(0) && p.interior == 0; };
  if (std::ranges::all_of(w.padding, is_none)) return nullptr;
  Value* all = ctx.expand(ctx.b.scalar_int(DType::kBool, 1), ctx.in_dims(0));
  return windows_as_rows(ctx, all, w, ctx.b.scalar_int(DType::kBool, 0));
}

}  // namespace

// Every window starts from the initial value. As in XLA on CPUs, positions outside of x do not count. Any
// other body folds the windows element by element.
std::vector<Value*> lower_reduce_window(Lowering& ctx) {
  auto inputs = ctx.operands();
  Window w = window_of(ctx);
  size_t n = inputs.size() / 2;
  if (const Reduction* r = n == 1 ? find_reduction_of_body(ctx) : nullptr)
    return {combine(ctx, *r, by_axis(ctx, *r, inputs[0], w, identity_element(ctx, *r, inputs[0]->dtype())), inputs[1])};
  std::vector<Value*> xs;
  for (size_t i = 0; i < n; ++i) xs.push_back(windows_as_rows(ctx, inputs[i], w, inputs[n + i]));
  auto results = fold_rows(ctx, *ctx.node.bodies()[0].graph, xs, std::span(inputs).subspan(n), inside_rows(ctx, w));
  for (size_t i = 0; i < n; ++i) results[i] = ctx.reshape_like(results[i], ctx.out_type(i));
  return results;
}

// Writes out the windows of both parts side by side and folds them element by element. Padding does not
// change products and sums.
std::vector<Value*> complex_reduce_window(Lowering& ctx) {
  const Window w = window_of(ctx);
  const size_t n = ctx.num_inputs() / 2;
  const Reduction* r = n == 1 ? find_reduction_of_body(ctx) : nullptr;
  const bool has_neutral = r != nullptr && (r->identity == Identity::kZero || r->identity == Identity::kOne);
  std::vector<Value*> xs, inits;
  for (size_t i = 0; i < n; ++i) {
    const Complex x = operand(ctx, i), init = operand(ctx, n + i);
    const auto rows = [&](const Num& part, Value* fill) { return Num(ctx, windows_as_rows(ctx, part.value(), w, fill)); };
    const auto neutral = [&](bool is_real) { return ctx.like(x.re.value(), is_real && r->identity == Identity::kOne ? 1 : 0); };
    Complex windows = rows(x.re, has_neutral ? neutral(true) : init.re.value());
    if (is_complex(ctx.in_dtype(i))) windows.im = rows(x.imaginary(), has_neutral ? neutral(false) : init.imaginary().value());
    xs.push_back(join(windows));
    inits.push_back(ctx.in(n + i));
  }
  auto results = fold_rows(ctx, *ctx.node.bodies()[0].graph, xs, inits, has_neutral ? nullptr : inside_rows(ctx, w));
  for (size_t i = 0; i < n; ++i) results[i] = ctx.reshape_like(results[i], ctx.stored_out_type(i));
  return results;
}

namespace {

// The elements of a window as offsets along each axis, last axis fastest.
std::vector<std::vector<int64_t>> offsets_in_window(const std::vector<int64_t>& size) {
  std::vector<std::vector<int64_t>> offsets(1);
  for (int64_t n : size) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& offset : offsets) {
      for (int64_t i = 0; i < n; ++i) {
        longer.push_back(offset);
        longer.back().push_back(i);
      }
    }
    offsets = std::move(longer);
  }
  return offsets;
}

// The element at `offset` of every window of x: the result has as many elements along each axis as there are
// windows.
Value* element_of_windows(Lowering& ctx, Value* x, std::span<const Dim> windows, std::span<const int64_t> stride,
                          std::span<const int64_t> offset) {
  Dims& dims = ctx.b.dims();
  for (size_t i = 0; i < windows.size(); ++i) {
    Dim last = dims.mul(dims.sub(windows[i], Dim::of(1)), Dim::of(stride[i]));
    x = ctx.slice(x, static_cast<int64_t>(i), Dim::of(offset[i]), dims.add(last, Dim::of(offset[i] + 1)), stride[i]);
  }
  return x;
}

// Complex numbers have no pooling: compares the elements of each window one after another.
std::vector<Value*> complex_extreme_of_windows(Lowering& ctx, bool greatest) {
  const Window w = window_of(ctx);
  const Complex x = operand(ctx, 0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double edge = greatest ? -kInfinity : kInfinity;
  const auto padded = [&](const Num& part, double fill) {
    return pad(ctx, part.value(), w.padding, ctx.like(part.value(), fill));
  };
  Value *re = padded(x.re, edge), *im = padded(*x.im, 0);
  std::optional<Complex> best;
  for (auto offset : offsets_in_window(w.size)) {
    for (size_t i = 0; i < w.rank(); ++i) offset[i] *= w.dilation[i];
    const auto here = [&](Value* part) { return Num(ctx, element_of_windows(ctx, part, ctx.out_dims(), w.stride, offset)); };
    const Complex z{here(re), here(im)};
    best = !best ? z : greatest ? larger(*best, z) : smaller(*best, z);
  }
  return {result(ctx, *best)};
}

bool selects_greatest(const Lowering& ctx) { return ctx.string_param("select_prim").find("ge") != std::string::npos; }

}  // namespace

std::vector<Value*> complex_reduce_window_max(Lowering& ctx) { return complex_extreme_of_windows(ctx, true); }
std::vector<Value*> complex_reduce_window_min(Lowering& ctx) { return complex_extreme_of_windows(ctx, false); }

// select_and_gather_add[select_prim, ...] tangents x
//   =>   the tangent at the (first) maximum or minimum of each window of x
std::vector<Value*> lower_select_and_gather_add(Lowering& ctx) {
  auto inputs = ctx.operands();
  Window w = window_of(ctx);
  bool is_max = selects_greatest(ctx);
  Value* edge = identity_element(ctx, *find_reduction(is_max ? "max" : "min"), inputs[1]->dtype());
  Value* zero = ctx.like(inputs[0], 0);
  Value *x = pad(ctx, inputs[1], w.padding, edge), *tangents = pad(ctx, inputs[0], w.padding, zero);
  Value *best = edge, *chosen = zero;
  for (auto offset : offsets_in_window(w.size)) {
    for (size_t i = 0; i < w.rank(); ++i) offset[i] *= w.dilation[i];
    Value* here = element_of_windows(ctx, x, ctx.out_dims(), w.stride, offset);
    Value* tangent = element_of_windows(ctx, tangents, ctx.out_dims(), w.stride, offset);
    Value* stays = ctx.via(is_max ? "GreaterOrEqual" : "LessOrEqual", {best, here});
    best = ctx.select(stays, best, here);
    chosen = ctx.select(stays, chosen, tangent);
  }
  return {chosen};
}

// select_and_scatter_add[select_prim, ...] source x
//   =>   source, added at the (first) maximum or minimum of each window of x
//
// For each element of the window: the source where this element is selected, else 0, spread over the strides.
std::vector<Value*> lower_select_and_scatter_add(Lowering& ctx) {
  OnnxBuilder& b = ctx.b;
  Dims& dims = b.dims();
  auto inputs = ctx.operands();
  Value* source = inputs[0];
  auto size = ctx.ints_param("window_dimensions"), stride = ctx.ints_param("window_strides");
  auto padding = padding_param(ctx, "padding");
  bool is_max = selects_greatest(ctx);
  Value* x = pad(ctx, inputs[1], padding, identity_element(ctx, *find_reduction(is_max ? "max" : "min"), source->dtype()));

  auto offsets = offsets_in_window(size);
  Value *best = nullptr, *chosen = nullptr;
  for (size_t k = 0; k < offsets.size(); ++k) {
    Value* here = element_of_windows(ctx, x, source->type()->dims(), stride, offsets[k]);
    Value* number = b.i64(static_cast<int64_t>(k));
    if (best == nullptr) {
      best = here;
      chosen = number;
      continue;
    }
    Value* stays = ctx.via(is_max ? "GreaterOrEqual" : "LessOrEqual", {best, here});
    best = ctx.select(stays, best, here);
    chosen = b.Where(stays, chosen, number);
  }
  Value* zero = b.scalar(source->dtype(), 0);
  Value* sum = nullptr;
  for (size_t k = 0; k < offsets.size(); ++k) {
    Value* received = ctx.select(b.Equal(chosen, b.i64(static_cast<int64_t>(k))), source, zero);
    // If a symbolic size may leave no window, inference knows less about the slices above than the equation
    // says.
    const Type* known = b.types().with_dtype(source->type(), received->dtype());
    if (b.types().meet(received->type(), known) != nullptr) received->set_type(known);
    std::vector<Padding> spread(size.size());
    for (size_t i = 0; i < size.size(); ++i) {
      // From the first placed element to the last; nothing if there is no window.
      Dim placed = dims.add(dims.mul(dims.sub(source->type()->dim(i), Dim::of(1)), Dim::of(stride[i])), Dim::of(1));
      Dim covered = dims.add(dims.max(placed, Dim::of(0)), Dim::of(offsets[k][i]));
      spread[i] = {Dim::of(offsets[k][i]), dims.sub(x->type()->dim(i), covered), stride[i] - 1};
    }
    Value* placed = pad(ctx, received, spread, zero);
    sum = sum == nullptr ? placed : ctx.via("Add", {sum, placed});
  }
  for (Padding& p : padding) p = {dims.sub(Dim::of(0), p.low), dims.sub(Dim::of(0), p.high)};
  return {pad(ctx, sum, padding, zero)};
}

}  // namespace sardonyx::jax_to_onnx
