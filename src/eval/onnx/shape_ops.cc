// Operators that rearrange elements. They return views wherever strides can express the result.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dialects/onnx/infer/slice_end.h"
#include "eval/elementwise.h"
#include "eval/kernel.h"

namespace sardonyx::eval {

Array joined(Call& c, std::span<const Array> parts, size_t axis) {
  std::vector<int64_t> shape(parts[0].shape());
  parts[0].dim(axis);
  shape[axis] = 0;
  for (const Array& p : parts) {
    bool fits = p.rank() == shape.size() && p.dtype() == parts[0].dtype();
    for (size_t d = 0; d < shape.size() && fits; ++d) fits = d == axis || p.dim(d) == shape[d];
    if (!fits) {
      c.fail(fmt::format("{} cannot be concatenated with {} along axis {}", describe(p), describe(parts[0]), axis));
    }
    shape[axis] += p.dim(axis);
  }
  Array out = c.make(parts[0].dtype(), shape);
  int64_t at = 0;
  for (const Array& p : parts) {
    Array target = out.view(p.shape(), out.strides(), at * out.strides()[axis]);
    copy_elements(p, target);
    at += p.dim(axis);
  }
  return out;
}

namespace {

// The axes operand or attribute; nullopt when neither is given.
std::optional<std::vector<int64_t>> axes_of(const Call& c, size_t operand, int attribute_before) {
  if (c.version() < attribute_before) return c.ints_attr("axes");
  if (!c.has(operand)) return std::nullopt;
  return c.ints(operand);
}

void pad(Call& c, std::span<const int64_t> before, std::span<const int64_t> after, const std::string& mode, const Array& fill) {
  Array x = c.in(0);
  const size_t rank = x.rank();
  // Negative pads crop.
  std::vector<int64_t> shape(x.shape()), lead(rank), trail(rank);
  int64_t offset = 0;
  for (size_t d = 0; d < rank; ++d) {
    lead[d] = std::max<int64_t>(before[d], 0);
    trail[d] = std::max<int64_t>(after[d], 0);
    const int64_t cut = std::max<int64_t>(-before[d], 0), cut_end = std::max<int64_t>(-after[d], 0);
    shape[d] -= cut + cut_end;
    if (shape[d] < 0) c.fail(fmt::format("axis {} of size {} cannot lose {} elements", d, x.dim(d), cut + cut_end));
    offset += cut * x.strides()[d];
  }
  x = x.view(shape, x.strides(), offset);
  std::vector<int64_t> full(rank);
  for (size_t d = 0; d < rank; ++d) full[d] = shape[d] + lead[d] + trail[d];
  Array out = c.make(x.dtype(), full);
  if (mode == "constant") {
    copy_elements(fill.view(full, std::vector<int64_t>(rank, 0)), out);
    int64_t at = 0;
    for (size_t d = 0; d < rank; ++d) at += lead[d] * out.strides()[d];
    Array middle = out.view(shape, out.strides(), at);
    copy_elements(x, middle);
    return c.set(0, out);
  }
  // Other modes work axis by axis: each result index copies the index that it mirrors.
  std::vector<std::vector<int64_t>> sources(rank);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t n = shape[d];
    if (n == 0 && full[d] > 0) c.fail(fmt::format("axis {} is empty, so it cannot be padded in this mode", d));
    for (int64_t i = -lead[d]; i < n + trail[d]; ++i) {
      int64_t at = i;
      if (mode == "edge") {
        at = std::clamp<int64_t>(i, 0, n - 1);
      } else if (mode == "wrap") {
        at = ((i % n) + n) % n;
      } else if (mode == "reflect") {
        const int64_t period = std::max<int64_t>(2 * (n - 1), 1);
        at = ((i % period) + period) % period;
        if (at >= n) at = period - at;
      } else {
        c.fail(fmt::format("unknown mode \"{}\"", mode));
      }
      sources[d].push_back(at * x.strides()[d]);
    }
  }
  with_element(x.dtype(), [&]<class E>(E) {
    const E* from = x.as<E>();
    E* to = out.as<E>();
    std::vector<int64_t> index(rank, 0);
    for (int64_t i = 0; i < out.size(); ++i) {
      int64_t at = 0;
      for (size_t d = 0; d < rank; ++d) at += sources[d][static_cast<size_t>(index[d])];
      to[i] = from[at];
      for (size_t d = rank; d-- > 0;) {
        if (++index[d] < full[d]) break;
        index[d] = 0;
      }
    }
  });
  c.set(0, out);
}

}  // namespace

namespace kernels {

void Identity(Call& c) { c.set(0, c.value(0)); }

void Constant(Call& c) {  // not a payload in the graph: values that refer to a call's attributes
  if (const TensorPtr t = c.tensor_attr("value")) return c.set(0, EvalValue(t));
  if (const auto v = c.maybe_float("value_float")) return c.set(0, c.of<double>(DType::kF32, {}, {{*v}}));
  if (const auto v = c.maybe_int("value_int")) return c.set(0, c.of<int64_t>(DType::kI64, {}, {{*v}}));
  if (const auto v = c.floats_attr("value_floats"))
    return c.set(0, c.of<double>(DType::kF32, {static_cast<int64_t>(v->size())}, *v));
  if (const auto v = c.ints_attr("value_ints")) return c.set(0, c.of_ints(*v));
  if (c.attr("value_string") != nullptr) return c.set(0, EvalValue(Tensor::strings({}, {c.string_attr("value_string", "")})));
  if (const auto v = c.strings_attr("value_strings"))
    return c.set(0, EvalValue(Tensor::strings({static_cast<int64_t>(v->size())}, *v)));
  c.fail("there is no value");
}

void Reshape(Call& c) {
  std::vector<int64_t> shape = c.version() < 5 ? c.ints_attr("shape").value_or(std::vector<int64_t>{}) : c.ints(1);
  const Array& x = c.in(0);
  const bool allow_zero = c.int_attr("allowzero", 0) != 0;
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && !allow_zero) {
      if (d >= x.rank()) c.fail(fmt::format("size 0 at {} copies a size that {} does not have", d, describe(x)));
      shape[d] = x.dim(d);
    }
    if (shape[d] == -1) {
      if (open) c.fail("two sizes are -1");
      open = d;
    } else {
      if (shape[d] < 0) c.fail(fmt::format("the size {} is negative", shape[d]));
      if (__builtin_mul_overflow(known, shape[d], &known)) c.fail("the shape is too large");
    }
  }
  if (open) {
    if (known == 0 || x.size() % known != 0) c.fail(fmt::format("{} cannot be reshaped to {}", describe(x), show(shape)));
    shape[*open] = x.size() / known;
  }
  if (product(shape) != x.size()) c.fail(fmt::format("{} cannot be reshaped to {}", describe(x), show(shape)));
  c.set(0, c.reshaped(x, std::move(shape)));
}

void Flatten(Call& c) {
  const Array& x = c.in(0);
  int64_t a = c.int_attr("axis", 1);
  if (a < 0) a += static_cast<int64_t>(x.rank());
  if (a < 0 || a > static_cast<int64_t>(x.rank())) c.fail(fmt::format("axis {} is out of range for rank {}", a, x.rank()));
  const int64_t lead = product(std::span(x.shape()).first(static_cast<size_t>(a)));
  const int64_t rest = product(std::span(x.shape()).subspan(static_cast<size_t>(a)));
  c.set(0, c.reshaped(x, {lead, rest}));
}

void Squeeze(Call& c) {
  const Array& x = c.in(0);
  std::vector<bool> gone(x.rank(), false);
  if (const auto list = axes_of(c, 1, 13)) {
    for (size_t d : c.axes(*list, x.rank())) {
      if (x.dim(d) != 1) c.fail(fmt::format("axis {} of {} is not of size 1", d, describe(x)));
      gone[d] = true;
    }
  } else {
    for (size_t d = 0; d < x.rank(); ++d) gone[d] = x.dim(d) == 1;
  }
  std::vector<int64_t> shape, strides;
  for (size_t d = 0; d < x.rank(); ++d) {
    if (gone[d]) continue;
    shape.push_back(x.dim(d));
    strides.push_back(x.strides()[d]);
  }
  c.set(0, x.view(std::move(shape), std::move(strides)));
}

void Unsqueeze(Call& c) {
  const Array& x = c.in(0);
  const auto list = axes_of(c, 1, 13);
  if (!list) c.fail("axes are missing");
  const size_t rank = x.rank() + list->size();
  const std::vector<size_t> added = c.axes(*list, rank);
  std::vector<int64_t> shape, strides;
  size_t next = 0;
  for (size_t d = 0; d < rank; ++d) {
    const bool is_new = std::ranges::find(added, d) != added.end();
    shape.push_back(is_new ? 1 : x.dim(next));
    strides.push_back(is_new ? 0 : x.strides()[next]);
    if (!is_new) ++next;
  }
  c.set(0, x.view(std::move(shape), std::move(strides)));
}

void Transpose(Call& c) {
  const Array& x = c.in(0);
  auto perm = c.attr("perm") ? c.ints_attr("perm") : std::nullopt;
  if (!perm) {
    perm.emplace(x.rank());
    std::iota(perm->rbegin(), perm->rend(), 0);
  }
  if (perm->size() != x.rank()) c.fail(fmt::format("perm {} does not fit {}", show(*perm), describe(x)));
  std::vector<int64_t> order;
  for (size_t d : c.axes(*perm, x.rank())) order.push_back(static_cast<int64_t>(d));
  c.set(0, x.transposed(order));
}

void Expand(Call& c) {
  const Array& x = c.in(0);
  const std::vector<int64_t> wanted = c.ints(1);
  const std::vector<int64_t> shape = broadcast_shapes(x.shape(), wanted);
  product(shape);
  c.set(0, x.broadcast_to(shape));
}

void Shape(Call& c) {
  const std::vector<int64_t>& shape = c.in(0).shape();
  const auto rank = static_cast<int64_t>(shape.size());
  auto bound = [&](int64_t v) { return std::clamp(v < 0 ? v + rank : v, int64_t{0}, rank); };
  const int64_t start = bound(c.int_attr("start", 0));
  const int64_t end = bound(c.attr("end") ? c.int_attr("end") : rank);
  c.set(0, c.of_ints(
               std::span(shape).subspan(static_cast<size_t>(start), static_cast<size_t>(std::max(end - start, int64_t{0})))));
}

void Size(Call& c) {
  const int64_t n = c.in(0).size();
  c.set(0, c.of<int64_t>(DType::kI64, {}, {&n, 1}));
}

void Concat(Call& c) {
  std::vector<Array> parts;
  for (size_t i = 0; i < c.num_inputs(); ++i) parts.push_back(c.in(i));
  c.require(!parts.empty(), "there is nothing to concatenate");
  const size_t axis = c.axis(c.int_attr("axis", 1), parts[0].rank());
  c.set(0, joined(c, parts, axis));
}

void Split(Call& c) {
  const Array& x = c.in(0);
  const size_t axis = c.axis(c.int_attr("axis", 0), x.rank());
  std::vector<int64_t> sizes;
  if (c.version() < 13 && c.version() != 1 && c.attr("split"))
    sizes = *c.ints_attr("split");
  else if (c.version() == 1 && c.attr("split"))
    sizes = *c.ints_attr("split");
  else if (c.has(1))
    sizes = c.ints(1);
  else {  // equal parts, the last one perhaps smaller
    const auto n = static_cast<int64_t>(c.results.size());
    const int64_t each = (x.dim(axis) + n - 1) / n;
    for (int64_t i = 0, left = x.dim(axis); i < n; ++i) {
      sizes.push_back(std::min(each, left));
      left -= sizes.back();
    }
  }
  int64_t left = x.dim(axis);
  for (int64_t n : sizes) left = n < 0 || n > left ? -1 : left - n;
  if (left != 0 || sizes.size() != c.results.size()) {
    c.fail(
        fmt::format("axis {} of {} cannot be split into {} for {} results", axis, describe(x), show(sizes), c.results.size()));
  }
  int64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<int64_t> shape(x.shape());
    shape[axis] = sizes[i];
    c.set(i, x.view(std::move(shape), x.strides(), at * x.strides()[axis]));
    at += sizes[i];
  }
}

void Slice(Call& c) {
  const Array& x = c.in(0);
  std::vector<int64_t> starts, ends, axes, steps;
  if (c.version() < 10) {
    starts = c.ints_attr("starts").value_or(std::vector<int64_t>{});
    ends = c.ints_attr("ends").value_or(std::vector<int64_t>{});
    if (c.attr("axes")) axes = *c.ints_attr("axes");
  } else {
    starts = c.ints(1);
    ends = c.ints(2);
    if (c.has(3)) axes = c.ints(3);
    if (c.has(4)) steps = c.ints(4);
  }
  if (axes.empty()) {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (starts.size() != ends.size() || starts.size() != axes.size() || starts.size() != steps.size()) {
    c.fail("starts, ends, axes and steps differ in length");
  }
  const std::vector<size_t> which = c.axes(axes, x.rank());
  std::vector<int64_t> shape(x.shape()), strides(x.strides());
  int64_t offset = 0;
  for (size_t i = 0; i < which.size(); ++i) {
    const size_t d = which[i];
    const int64_t n = x.dim(d), step = steps[i], last = onnx::slice_end(ends[i], step);
    if (step == 0 || step == INT64_MIN) c.fail("a step is 0");
    auto bound = [&](int64_t v, int64_t low, int64_t high) {
      if (v < 0) v += n;
      return std::clamp(v, low, high);
    };
    const int64_t begin = step > 0 ? bound(starts[i], 0, n) : bound(starts[i], 0, n - 1);
    const int64_t end = step > 0 ? bound(last, 0, n) : bound(last, -1, n - 1);
    const int64_t span = step > 0 ? end - begin : begin - end;
    const int64_t stride = step > 0 ? step : -step;
    shape[d] = span <= 0 || n == 0 ? 0 : (span - 1) / stride + 1;
    if (shape[d] > 0) offset += begin * x.strides()[d];
    strides[d] = shape[d] > 1 ? x.strides()[d] * step : x.strides()[d];
  }
  c.set(0, x.view(std::move(shape), std::move(strides), offset));
}

void Pad(Call& c) {
  const Array& x = c.in(0);
  const size_t rank = x.rank();
  const std::string mode = c.string_attr("mode", "constant");
  std::vector<int64_t> pads;
  Array fill;
  if (c.version() < 11) {
    pads = c.ints_attr(c.version() < 2 ? "paddings" : "pads").value_or(std::vector<int64_t>{});
    fill = c.full(x.dtype(), {}, c.float_attr("value", 0));
  } else {
    pads = c.ints(1);
    if (c.has(2)) {
      fill = c.in(2);
      if (fill.size() != 1 || fill.dtype() != x.dtype())
        c.fail(fmt::format("{} cannot be filled with {}", describe(x), describe(fill)));
      fill = c.reshaped(fill, {});
    } else if (x.dtype() == DType::kString) {
      fill = c.make(x.dtype(), {});
    } else {
      fill = c.full(x.dtype(), {}, 0);
    }
  }
  std::vector<size_t> which(rank);
  std::iota(which.begin(), which.end(), size_t{0});
  if (c.version() >= 18 && c.has(3)) which = c.axes(c.ints(3), rank);
  if (pads.size() != 2 * which.size()) c.fail(fmt::format("pads {} do not fit {}", show(pads), describe(x)));
  std::vector<int64_t> before(rank, 0), after(rank, 0);
  for (size_t i = 0; i < which.size(); ++i) {
    before[which[i]] = pads[i];
    after[which[i]] = pads[i + which.size()];
  }
  pad(c, before, after, mode, fill);
}

void Tile(Call& c) {
  const Array& x = c.in(0);
  std::vector<int64_t> repeats;
  if (c.version() < 6) {
    repeats.assign(x.rank(), 1);
    repeats[c.axis(c.int_scalar(2), x.rank())] = c.int_scalar(1);
  } else {
    repeats = c.ints(1);
  }
  if (repeats.size() != x.rank()) c.fail(fmt::format("repeats {} do not fit {}", show(repeats), describe(x)));
  // [n] tiled r times is [r, n] with stride 0 for r, merged into one axis.
  std::vector<int64_t> shape, split, strides;
  for (size_t d = 0; d < x.rank(); ++d) {
    if (repeats[d] < 0) c.fail("a repeat is negative");
    split.insert(split.end(), {repeats[d], x.dim(d)});
    strides.insert(strides.end(), {0, x.strides()[d]});
    int64_t n = 0;
    if (__builtin_mul_overflow(repeats[d], x.dim(d), &n)) c.fail("the result is too large");
    shape.push_back(n);
  }
  if (product(shape) == x.size()) return c.set(0, c.reshaped(x, std::move(shape)));
  Array out = c.make(x.dtype(), split);
  copy_elements(x.view(split, std::move(strides)), out);
  c.set(0, out.reshaped(std::move(shape)));
}

void Where(Call& c) {
  c.require(c.dtype(0) == DType::kBool, "the condition must have elements of bool");
  require_same_dtype(c, 1, 2);
  const std::vector<int64_t> shape = broadcast_shapes(broadcast_shapes(c.in(0).shape(), c.in(1).shape()), c.in(2).shape());
  const Array p = c.in(0).broadcast_to(shape), a = c.in(1).broadcast_to(shape), b = c.in(2).broadcast_to(shape);
  Array out = c.make(a.dtype(), shape);
  with_element(a.dtype(), [&]<class E>(E) {
    E* to = out.as<E>();
    walk<3>(shape, {p.strides(), a.strides(), b.strides()},
            [&](int64_t n, std::array<int64_t, 3> at, std::array<int64_t, 3> step) {
              const uint8_t* choose = p.as<uint8_t>() + at[0];
              const E* yes = a.as<E>() + at[1];
              const E* no = b.as<E>() + at[2];
              for (int64_t i = 0; i < n; ++i) *to++ = choose[i * step[0]] ? yes[i * step[1]] : no[i * step[2]];
            });
  });
  c.set(0, out);
}

void Range(Call& c) {
  require_same_dtype(c, 0, 1);
  require_same_dtype(c, 0, 2);
  const DType t = c.dtype();
  if (is_float(t)) {
    const double start = c.scalar(0), limit = c.scalar(1), delta = c.scalar(2);
    c.require(delta != 0, "the step is 0");
    const double count = std::ceil((limit - start) / delta);
    if (!(count < 0x1p62)) c.fail("the range has no end");
    const auto n = std::max<int64_t>(0, static_cast<int64_t>(count));
    Array out = c.make(t, {n});
    for (int64_t i = 0; i < n; ++i) {
      const double v = start + static_cast<double>(i) * delta;
      store<double>(out, i, 1, &v);
    }
    return c.set(0, out);
  }
  const int64_t start = c.int_scalar(0), limit = c.int_scalar(1), delta = c.int_scalar(2);
  c.require(delta != 0, "the step is 0");
  __extension__ typedef __int128 Wide;
  const Wide span = delta > 0 ? static_cast<Wide>(limit) - start : static_cast<Wide>(start) - limit;
  const Wide step = delta > 0 ? static_cast<Wide>(delta) : -static_cast<Wide>(delta);
  const Wide count = span <= 0 ? 0 : (span - 1) / step + 1;
  if (count > INT64_MAX) c.fail("the range is too long");
  Array out = c.make(t, {static_cast<int64_t>(count)});
  for (int64_t i = 0; i < out.size(); ++i) {
    const auto v = static_cast<int64_t>(start + static_cast<Wide>(i) * delta);
    store<int64_t>(out, i, 1, &v);
  }
  c.set(0, out);
}

void ConstantOfShape(Call& c) {
  std::vector<int64_t> shape = c.ints(0);
  product(shape);
  std::vector<int64_t> strides(shape.size(), 0);
  const TensorPtr value = c.tensor_attr("value");
  if (value == nullptr) return c.set(0, c.full(DType::kF32, std::move(shape), 0));
  c.require(value->size() == 1, "expected a value of one element");
  c.set(0, Array::of(value->reshaped({})).view(std::move(shape), std::move(strides)));
}

void EyeLike(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() == 2, "expected a matrix");
  const auto dtype = c.maybe_int("dtype");
  Array out = c.make(dtype ? static_cast<DType>(*dtype) : x.dtype(), x.shape());
  const int64_t k = c.int_attr("k", 0);
  for (int64_t i = 0; i < x.dim(0); ++i) {
    for (int64_t j = 0; j < x.dim(1); ++j) {
      const double v = j - i == k ? 1 : 0;
      store<double>(out, i * x.dim(1) + j, 1, &v);
    }
  }
  c.set(0, out);
}

void Trilu(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() >= 2, "expected matrices");
  const bool upper = c.int_attr("upper", 1) != 0;
  const int64_t k = c.has(1) ? c.int_scalar(1) : 0;
  const Array d = c.dense(x);
  Array out = c.make(x.dtype(), x.shape());
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1);
  with_element(x.dtype(), [&]<class E>(E) {
    for (int64_t i = 0; i < x.size(); ++i) {
      const int64_t row = i / columns % rows, column = i % columns;
      const bool keep = upper ? column - row >= k : column - row <= k;
      out.as<E>()[i] = keep ? d.as<E>()[i] : E{};
    }
  });
  c.set(0, out);
}

void DepthToSpace(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() == 4, "expected a tensor of rank 4");
  const int64_t b = c.int_attr("blocksize"), n = x.dim(0), ch = x.dim(1), h = x.dim(2), w = x.dim(3);
  c.require(b > 0 && b < (1 << 20) && ch % (b * b) == 0, "the channels do not divide into blocks");
  const bool crd = c.string_attr("mode", "DCR") == "CRD";
  const Array d = c.dense(x);
  const Array blocks = crd ? d.reshaped({n, ch / (b * b), b, b, h, w}).transposed(std::vector<int64_t>{0, 1, 4, 2, 5, 3})
                           : d.reshaped({n, b, b, ch / (b * b), h, w}).transposed(std::vector<int64_t>{0, 3, 4, 1, 5, 2});
  c.set(0, c.reshaped(blocks, {n, ch / (b * b), h * b, w * b}));
}

void SpaceToDepth(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() == 4, "expected a tensor of rank 4");
  const int64_t b = c.int_attr("blocksize"), n = x.dim(0), ch = x.dim(1), h = x.dim(2), w = x.dim(3);
  c.require(b > 0 && b < (1 << 20) && h % b == 0 && w % b == 0, "height and width do not divide into blocks");
  const bool crd = c.string_attr("mode", "DCR") == "CRD";
  const std::vector<int64_t> perm = crd ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4};
  const Array blocks = c.dense(x).reshaped({n, ch, h / b, b, w / b, b}).transposed(perm);
  c.set(0, c.reshaped(blocks, {n, ch * b * b, h / b, w / b}));
}

void CenterCropPad(Call& c) {
  const Array& x = c.in(0);
  std::vector<size_t> which(x.rank());
  std::iota(which.begin(), which.end(), size_t{0});
  if (c.attr("axes")) which = c.axes(*c.ints_attr("axes"), x.rank());
  const std::vector<int64_t> wanted = c.ints(1);
  if (wanted.size() != which.size()) c.fail("shape and axes differ in length");
  std::vector<int64_t> before(x.rank(), 0), after(x.rank(), 0);
  for (size_t i = 0; i < which.size(); ++i) {
    const int64_t more = wanted[i] - x.dim(which[i]);
    // An odd extra element goes to the end when padding, and is cut from the end when cropping.
    before[which[i]] = more >= 0 ? more / 2 : -((-more) / 2);
    after[which[i]] = more - before[which[i]];
  }
  pad(c, before, after, "constant", x.dtype() == DType::kString ? c.make(x.dtype(), {}) : c.full(x.dtype(), {}, 0));
}

}  // namespace kernels
}  // namespace sardonyx::eval
