// Operators that query or change shapes without touching elements.
#include <algorithm>
#include <cmath>

#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {
namespace {

constexpr int64_t kMaxBlock = 1 << 20;

// Removes common elements from both lists, which keeps their quotient.
void cancel(DimVec& a, DimVec& b) {
  for (size_t i = 0; i < a.size();) {
    bool found = false;
    for (size_t k = 0; k < b.size(); ++k) {
      if (a[i] == b[k] && !a[i].is(0)) {
        b.erase(b.begin() + static_cast<std::ptrdiff_t>(k));
        a.erase(a.begin() + static_cast<std::ptrdiff_t>(i));
        found = true;
        break;
      }
    }
    if (!found) ++i;
  }
}

// product(total) / product(rest), if it can be expressed.
Dim quotient(const InferContext& c, DimVec total, DimVec rest) {
  cancel(total, rest);
  if (rest.empty() && total.size() == 1) return total[0];
  for (const DimVec* list : {&total, &rest}) {
    for (Dim d : *list) {
      if (d.is_unknown()) return Dim();
    }
  }
  try {
    const Dim a = c.dims().product(total), b = c.dims().product(rest);
    if (b.is(0)) return Dim();
    if (a.is_int() && b.is_int() && a.value() % b.value() != 0) {
      c.fail(fmt::format("{} elements do not divide by {}", a.value(), b.value()));
    }
    if (auto exact = c.dims().divide_exactly(a, b)) return *exact;
    return c.dims().floordiv(a, b);  // exact at run time, or Reshape fails
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kLimit) throw;
    return Dim();
  }
}

std::string text(const InferContext& c, std::span<const Dim> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? "," : "") + c.dims().to_string(dims[i]);
  return out + "]";
}

}  // namespace

void shape_op(InferContext& c) {
  const Type* t = c.ranked(0);
  if (t == nullptr) {
    c.set(0, DType::kI64, DimVec{Dim()});
    return;
  }
  const auto rank = static_cast<int64_t>(t->rank());
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(c.attr_int("start", 0)), end = clamp(c.attr_int("end").value_or(rank));
  SymbolicValue v;
  for (int64_t i = start; i < end; ++i) v.elements.push_back(t->dim(static_cast<size_t>(i)));
  c.set(0, DType::kI64, DimVec{Dim::of(std::max<int64_t>(0, end - start))});
  c.set_value(0, std::move(v));
}

void size_op(InferContext& c) {
  c.set(0, c.types().scalar(DType::kI64));
  const Type* t = c.ranked(0);
  if (t == nullptr) return;
  try {
    c.set_value(0, {true, {t->rank() == 1 ? t->dim(0) : c.dims().product(t->dims())}});
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kLimit) throw;
  }
}

void reshape(InferContext& c) {
  std::optional<SymbolicValue> target;
  if (c.op().since_version < 5) {
    if (auto list = c.attr_ints("shape")) {
      target.emplace();
      for (int64_t v : *list) target->elements.push_back(Dim::of(v));
    }
  } else {
    need_rank(c, 1, 1);
    target = c.value(1);
  }
  reshape_to(c, target, c.attr_int("allowzero", 0) != 0);
}

void reshape_to(InferContext& c, const std::optional<SymbolicValue>& target, bool zero_is_zero) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (dtype == DType::kUndefined) return;
  if (!target) {
    if (const auto rank = list_length(c, 1)) {
      c.set(0, dtype, DimVec(*rank));
    } else {
      c.set_unranked(0, dtype);
    }
    return;
  }
  DimVec dims = target->elements;
  std::optional<size_t> open;  // the index of -1
  bool zero = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].is(-1)) {
      if (open) c.fail("the shape has -1 twice: " + text(c, target->elements));
      open = i;
      dims[i] = Dim();
    } else if (dims[i].is_int() && dims[i].value() < 0) {
      c.fail("the shape has a negative size: " + text(c, target->elements));
    } else if (dims[i].is(0)) {
      zero = true;
      if (zero_is_zero) continue;
      if (x != nullptr) {
        if (i >= x->rank()) c.fail(fmt::format("the shape copies dim {}, but {} has no such dim", i, c.show(x)));
        dims[i] = x->dim(i);
      } else {
        dims[i] = Dim();
      }
    }
  }
  if (open && zero && zero_is_zero) c.fail("a shape with 0 cannot have -1 when allowzero is set");
  // A size known only at run time may turn out to be -1 or 0; then the other sizes cannot be derived from it.
  const bool all_sizes = [&] {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i].is_unknown() && i != open) {
        bool of_x = false;
        if (x != nullptr) {
          for (Dim d : x->dims()) of_x = of_x || d == dims[i];
        }
        if (!of_x) return false;
      }
    }
    return true;
  }();
  if (x != nullptr && open && all_sizes) {
    DimVec rest;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i != *open) rest.push_back(dims[i]);
    }
    dims[*open] = quotient(c, dims_of(x), std::move(rest));
  } else if (x != nullptr && !open) {
    // A single unknown size follows from the number of elements.
    const auto is_hole = [](Dim d) { return d.is_unknown(); };
    if (std::count_if(dims.begin(), dims.end(), is_hole) == 1) {
      const auto hole = std::find_if(dims.begin(), dims.end(), is_hole);
      DimVec rest(dims.begin(), hole);
      rest.insert(rest.end(), hole + 1, dims.end());
      bool positive = true;
      for (Dim d : rest) positive = positive && c.dims().range(d).min.value_or(0) > 0;
      if (positive) *hole = quotient(c, dims_of(x), rest);
    }
  }
  const Type* result = c.types().tensor(dtype, dims);
  if (x != nullptr && x->is_static() && result->is_static() && *x->static_size() != *result->static_size()) {
    c.fail(fmt::format("{} has {} elements, the shape {} has {}", c.show(x), *x->static_size(), text(c, dims),
                       *result->static_size()));
  }
  c.set(0, result);
  if (dims.size() <= 1 && carries_value(result)) {
    if (auto v = c.value(0)) {
      v->scalar = dims.empty();
      if (!v->scalar || v->elements.size() == 1) c.set_value(0, std::move(*v));
    }
  }
}

void squeeze(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  std::optional<std::vector<int64_t>> axes;
  bool given = false;
  if (c.op().since_version < 13) {
    axes = c.attr_ints("axes");
    given = axes.has_value();
  } else if (c.has_input(1)) {
    given = true;
    axes = c.ints(1);
  }
  // Squeezing keeps the list of elements, so the known value carries over.
  const auto pass_value = [&](size_t rank) {
    if (auto v = c.value(0); v && rank <= 1 && carries_value(c.node().result(0)->type())) {
      v->scalar = rank == 0;
      c.set_value(0, std::move(*v));
    }
  };
  if (x == nullptr) {
    c.set_unranked(0, dtype);
    return;
  }
  DimVec dims;
  if (!given) {
    for (Dim d : x->dims()) {
      if (!d.is_int()) return c.set_unranked(0, dtype);  // 1 or not: the rank is unknown
      if (!d.is(1)) dims.push_back(d);
    }
  } else if (!axes) {
    if (const auto count = list_length(c, 1); count && *count <= x->rank()) {
      dims.resize(x->rank() - *count);
    } else {
      return c.set_unranked(0, dtype);
    }
  } else {
    std::vector<bool> removed(x->rank());
    for (size_t a : normal_axes(c, *axes, x->rank())) removed[a] = true;
    for (size_t i = 0; i < x->rank(); ++i) {
      if (!removed[i]) {
        dims.push_back(x->dim(i));
      } else if (x->dim(i).is_int() && !x->dim(i).is(1)) {
        c.fail(fmt::format("dim {} of {} is not 1", i, c.show(x)));
      }
    }
  }
  c.set(0, dtype, dims);
  pass_value(dims.size());
}

void unsqueeze(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  const auto axes = c.op().since_version < 13 ? c.attr_ints("axes") : c.ints(1);
  if (x == nullptr || dtype == DType::kUndefined) {
    c.set_unranked(0, dtype);
    return;
  }
  if (!axes) {
    if (const auto count = list_length(c, 1)) {
      c.set(0, dtype, DimVec(x->rank() + *count));
    } else {
      c.set_unranked(0, dtype);
    }
    return;
  }
  const size_t rank = x->rank() + axes->size();
  std::vector<bool> fresh(rank);
  for (size_t a : normal_axes(c, *axes, rank)) fresh[a] = true;
  DimVec dims;
  size_t from = 0;
  for (size_t i = 0; i < rank; ++i) dims.push_back(fresh[i] ? Dim::of(1) : x->dim(from++));
  c.set(0, dtype, dims);
  if (rank == 1 && carries_value(c.node().result(0)->type())) {
    if (auto v = c.value(0)) {
      v->scalar = false;
      c.set_value(0, std::move(*v));
    }
  }
}

void flatten(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (x == nullptr) {
    if (dtype != DType::kUndefined) c.set(0, dtype, DimVec(2));
    return;
  }
  const auto rank = static_cast<int64_t>(x->rank());
  const int64_t axis = c.attr_int("axis", 1);
  if (axis < -rank || axis > rank) c.fail(fmt::format("axis {} is outside [{}, {}]", axis, -rank, rank));
  const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  const auto product = [&](std::span<const Dim> dims) { return dims.size() == 1 ? dims[0] : c.dims().product(dims); };
  c.set(0, dtype, DimVec{product(x->dims().first(at)), product(x->dims().subspan(at))});
}

void transpose(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  const auto perm = c.attr_ints("perm");
  if (x == nullptr) {
    if (perm && dtype != DType::kUndefined) {
      c.set(0, dtype, DimVec(perm->size()));
    } else {
      c.set_unranked(0, dtype);
    }
    return;
  }
  DimVec dims;
  if (perm) {
    if (perm->size() != x->rank()) c.fail(fmt::format("perm has {} axes, the operand {}", perm->size(), x->rank()));
    std::vector<bool> seen(x->rank());
    dims.reserve(x->rank());
    for (int64_t p : *perm) {
      if (p < 0 || p >= static_cast<int64_t>(x->rank())) c.fail(fmt::format("perm has {}, outside [0, {})", p, x->rank()));
      if (seen[static_cast<size_t>(p)]) c.fail(fmt::format("perm has {} twice", p));
      seen[static_cast<size_t>(p)] = true;
      dims.push_back(x->dim(static_cast<size_t>(p)));
    }
  } else {
    dims.assign(x->dims().rbegin(), x->dims().rend());
  }
  c.set(0, dtype, dims);
}

void expand(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  need_rank(c, 1, 1);
  DimVec target;
  if (auto v = c.value(1)) {
    target = v->elements;
    for (Dim d : target) {
      if (d.is_int() && d.value() < 0) c.fail("the shape has a negative size: " + text(c, target));
    }
  } else if (const auto rank = list_length(c, 1)) {
    target.resize(*rank);
  } else {
    c.set_unranked(0, dtype);
    return;
  }
  if (x == nullptr) {
    c.set_unranked(0, dtype);
    return;
  }
  const DimVec dims = broadcast(c, x->dims(), target);
  c.set(0, dtype, dims);
  if (dims.size() <= 1 && carries_value(c.node().result(0)->type())) {
    const auto v = c.value(0);
    if (!v) return;
    SymbolicValue out{dims.empty(), v->elements};
    if (dims.size() == 1 && v->elements.size() == 1) {
      if (!dims[0].is_int() || dims[0].value() > 64) return;
      out.elements.assign(static_cast<size_t>(dims[0].value()), v->elements[0]);
    }
    c.set_value(0, std::move(out));
  }
}

void concat(InferContext& c) {
  DType dtype = DType::kUndefined;
  const Type* first = nullptr;
  bool all = true;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    if (dtype == DType::kUndefined) dtype = dtype_of(c, i);
    const Type* t = c.ranked(i);
    if (t == nullptr) {
      all = false;
    } else if (first == nullptr) {
      first = t;
    } else if (t->rank() != first->rank()) {
      c.fail(fmt::format("operands have ranks {} and {}", first->rank(), t->rank()));
    }
  }
  const auto axis_attr = c.op().since_version < 4 ? std::optional(c.attr_int("axis", 1)) : c.attr_int("axis");
  if (first == nullptr || !axis_attr || dtype == DType::kUndefined) {
    c.set_unranked(0, dtype);
    return;
  }
  const size_t axis = normal_axis(c, *axis_attr, first->rank());
  DimVec dims = dims_of(first);
  Dim total = Dim::of(0);
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    const Type* t = c.ranked(i);
    if (t == nullptr) continue;
    total = add(c, total, t->dim(axis));
    for (size_t k = 0; k < dims.size(); ++k) {
      if (k != axis) dims[k] = same_dim(c, dims[k], t->dim(k), fmt::format("dims {} of all operands", k));
    }
  }
  dims[axis] = all ? total : Dim();
  c.set(0, dtype, dims);
  if (!all || !carries_value(c.node().result(0)->type())) return;
  SymbolicValue out;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    if (auto v = c.value(i)) {
      out.elements.insert(out.elements.end(), v->elements.begin(), v->elements.end());
    } else {
      const Dim n = c.ranked(i)->dim(0);
      if (!n.is_int() || n.value() > 64) return;
      for (int64_t k = 0; k < n.value(); ++k) out.elements.push_back(c.dims().fresh_unknown());
    }
    if (out.elements.size() > 64) return;
  }
  c.set_value(0, std::move(out));
}

void split(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  const size_t n = c.num_results();
  if (x == nullptr) {
    for (size_t i = 0; i < n; ++i) c.set_unranked(i, dtype);
    return;
  }
  const size_t axis = normal_axis(c, c.attr_int("axis", 0), x->rank());
  const Dim whole = x->dim(axis);
  DimVec sizes(n);
  const bool operand = c.has_input(1);
  bool given = operand;
  if (operand) {
    if (auto v = c.value(1)) {
      if (v->elements.size() != n) c.fail(fmt::format("{} sizes for {} results", v->elements.size(), n));
      sizes = v->elements;
    }
  } else if (auto list = c.attr_ints("split"); list && !list->empty()) {
    given = true;
    if (list->size() != n) c.fail(fmt::format("{} sizes for {} results", list->size(), n));
    for (size_t i = 0; i < n; ++i) sizes[i] = Dim::of((*list)[i]);
  }
  if (given) {
    Dim total = Dim::of(0);
    for (Dim s : sizes) {
      if (s.is_int() && s.value() < 0) c.fail("a size is negative");
      total = add(c, total, s);
    }
    if (total.is_int() && whole.is_int() && total.value() != whole.value()) {
      c.fail(fmt::format("the sizes add up to {}, the axis has {}", total.value(), whole.value()));
    }
  } else {
    if (auto count = c.attr_int("num_outputs"); count && *count != static_cast<int64_t>(n)) {
      c.fail(fmt::format("num_outputs is {}, the node has {} results", *count, n));
    }
    const auto pieces = static_cast<int64_t>(n);
    if (c.op().since_version < 18) {
      if (whole.is_int() && whole.value() % pieces != 0) {
        c.fail(fmt::format("an axis of {} does not split into {} equal parts", whole.value(), pieces));
      }
      if (whole.is_int()) {
        sizes.assign(n, Dim::of(whole.value() / pieces));
      } else if (!whole.is_unknown()) {
        const auto exact = c.dims().divide_exactly(whole, Dim::of(pieces));
        sizes.assign(n, exact ? *exact : floordiv(c, whole, pieces));
      } else if (n == 1) {
        sizes[0] = whole;
      } else {
        sizes.assign(n, c.dims().fresh_unknown());  // equal parts
      }
    } else if (!whole.is_unknown()) {
      // All parts have the same size; if that exceeds the axis, the last ones are smaller.
      const Dim part = ceildiv(c, whole, pieces);
      sizes.assign(n, part);
      for (int64_t i = n == 2 ? 1 : pieces > 2 && whole.is_int() ? 0 : pieces - 1; i < pieces; ++i) {
        Dim& size = sizes[static_cast<size_t>(i)];
        size = sub(c, whole, mul(c, part, i));
        if (size.is_int()) size = Dim::of(std::clamp<int64_t>(size.value(), 0, part.value()));
      }
    } else if (n == 1) {
      sizes[0] = whole;
    }
  }
  const auto value = x->rank() == 1 ? c.value(0) : std::nullopt;
  size_t at = 0;
  bool known = value.has_value();
  for (size_t i = 0; i < n; ++i) {
    DimVec dims = dims_of(x);
    dims[axis] = sizes[i];
    c.set(i, dtype, dims);
    known = known && sizes[i].is_int() && at + static_cast<size_t>(sizes[i].value()) <= value->elements.size();
    if (known && carries_value(c.node().result(i)->type())) {
      const auto first = value->elements.begin() + static_cast<std::ptrdiff_t>(at);
      c.set_value(i, {false, DimVec(first, first + sizes[i].value())});
      at += static_cast<size_t>(sizes[i].value());
    }
  }
}

void tile(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (x == nullptr) {
    c.set_unranked(0, dtype);
    return;
  }
  DimVec dims(x->rank());
  if (c.op().since_version < 6) {
    const auto times = scalar_value(c, 1);
    const auto axis = scalar_int(c, 2);
    if (times && axis) {
      dims = dims_of(x);
      Dim& d = dims[normal_axis(c, *axis, x->rank())];
      d = mul(c, d, *times);
    }
  } else if (auto repeats = c.value(1)) {
    if (repeats->elements.size() != x->rank()) {
      c.fail(fmt::format("{} repeats for {}", repeats->elements.size(), c.show(x)));
    }
    for (size_t i = 0; i < dims.size(); ++i) {
      const Dim times = repeats->elements[i];
      if (times.is_int() && times.value() < 0) c.fail(fmt::format("repeats has {}", times.value()));
      dims[i] = mul(c, x->dim(i), times);
    }
    const bool once = std::all_of(repeats->elements.begin(), repeats->elements.end(), [](Dim d) { return d.is(1); });
    if (auto v = once ? c.value(0) : std::nullopt) c.set_value(0, std::move(*v));
  }
  c.set(0, dtype, dims);
}

void constant_of_shape(InferContext& c) {
  DType dtype = DType::kF32;
  TensorPtr value;
  if (const Attr* a = c.attr("value")) {
    const auto* t = a->get<TensorPtr>();
    if (t == nullptr || *t == nullptr) c.fail("attribute 'value' must be a tensor");
    value = *t;
    if (value->size() != 1) c.fail(fmt::format("attribute 'value' must have one element, not {}", value->size()));
    dtype = value->dtype();
  }
  need_rank(c, 0, 1);
  if (auto dims = c.value(0)) {
    for (Dim d : dims->elements) {
      if (d.is_int() && d.value() < 0) c.fail("the shape has a negative size: " + text(c, dims->elements));
    }
    c.set(0, dtype, dims->elements);
    if (value && carries_value(c.node().result(0)->type())) {
      int64_t n = 1;
      for (Dim d : dims->elements) {
        if (!d.is_int()) return;
        n = d.value();
      }
      const int64_t v = value->as_int(0);
      if (n <= 64 && v > -(int64_t{1} << 60) && v < (int64_t{1} << 60)) {
        c.set_value(0, {dims->elements.empty(), DimVec(static_cast<size_t>(n), Dim::of(v))});
      }
    }
    return;
  }
  if (const auto rank = list_length(c, 0)) {
    c.set(0, dtype, DimVec(*rank));
  } else {
    c.set_unranked(0, dtype);
  }
}

void range_op(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  if (dtype == DType::kUndefined) return;
  Dim count;
  if (is_integer(dtype)) {
    const auto start = scalar_value(c, 0), limit = scalar_value(c, 1), delta = scalar_value(c, 2);
    if (start && limit && delta && delta->is_int()) {
      const int64_t step = delta->value();
      if (step == 0) c.fail("delta is 0");
      const Dim span = step > 0 ? sub(c, *limit, *start) : sub(c, *start, *limit);
      count = span.is_unknown() ? span : c.dims().max(ceildiv(c, span, std::abs(step)), Dim::of(0));
      c.set(0, dtype, DimVec{count});
      if (count.is_int() && count.value() <= 64 && carries_value(c.node().result(0)->type())) {
        SymbolicValue v;
        for (int64_t i = 0; i < count.value(); ++i) v.elements.push_back(add(c, *start, i * step));
        c.set_value(0, std::move(v));
      }
      return;
    }
  } else if (const TensorPtr start = c.constant(0), limit = c.constant(1), delta = c.constant(2); start && limit && delta) {
    if (start->size() == 1 && limit->size() == 1 && delta->size() == 1) {
      const double n = std::ceil((limit->as_double(0) - start->as_double(0)) / delta->as_double(0));
      if (std::isfinite(n) && n < 1e15) count = Dim::of(static_cast<int64_t>(std::max(0.0, n)));
    }
  }
  c.set(0, dtype, DimVec{count});
}

void eye_like(InferContext& c) {
  const auto number = c.attr_int("dtype");
  need_rank(c, 0, 2);
  set_same_shape(c, number ? dtype_attr(c, *number, "dtype") : dtype_of(c, 0));
}

void trilu(InferContext& c) {
  need_rank_at_least(c, 0, 2);
  set_same(c);
}

namespace {

// f(x, blocksize) returns the result's sizes for an x of rank 4.
template <class Sizes>
void move_blocks(InferContext& c, Sizes&& sizes) {
  const DType dtype = dtype_of(c, 0);
  const auto block = c.attr_int("blocksize");
  const Type* x = c.ranked(0);
  if (block && (*block <= 0 || *block > kMaxBlock)) c.fail(fmt::format("blocksize is {}", *block));
  if (x == nullptr || !block) {
    if (dtype != DType::kUndefined) c.set(0, dtype, DimVec(4));
    return;
  }
  need_rank(c, 0, 4);
  c.set(0, dtype, sizes(*x, *block));
}

}  // namespace

void depth_to_space(InferContext& c) {
  move_blocks(c, [&](const Type& x, int64_t block) {
    return DimVec{x.dim(0), floordiv(c, x.dim(1), block * block), mul(c, x.dim(2), block), mul(c, x.dim(3), block)};
  });
}

void space_to_depth(InferContext& c) {
  move_blocks(c, [&](const Type& x, int64_t block) {
    return DimVec{x.dim(0), mul(c, x.dim(1), block * block), floordiv(c, x.dim(2), block), floordiv(c, x.dim(3), block)};
  });
}

}  // namespace sardonyx::onnx::rules
