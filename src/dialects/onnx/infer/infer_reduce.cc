// Reductions, and operators that select or sort along an axis.
#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {
namespace {

// The axes of a reduction, from an attribute or an operand. `list` may be empty because it was given so or is
// absent.
struct Axes {
  bool known = true;
  bool given = false;
  std::vector<int64_t> list;
};

Axes reduced_axes(const InferContext& c) {
  Axes axes;
  const bool operand = c.has_input(1);
  if (operand) {
    const auto v = c.ints(1);
    axes.given = true;
    axes.known = v.has_value();
    if (v) axes.list = *v;
  } else if (auto v =
                 c.op().inputs.size() == 1 ? c.attr_ints("axes") : std::nullopt) {  // later versions have no such attribute
    axes.given = true;
    axes.list = *v;
  }
  return axes;
}

}  // namespace

void reduce(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const bool keepdims = c.attr_int("keepdims", 1) != 0;
  const bool noop = c.attr_int("noop_with_empty_axes", 0) != 0;
  const Axes axes = reduced_axes(c);
  const bool empty = axes.known && axes.list.empty();
  if (empty && !noop && !keepdims && dtype != DType::kUndefined) {
    c.set(0, c.types().scalar(dtype));
  }
  const Type* t = c.ranked(0);
  if (t == nullptr || dtype == DType::kUndefined) {
    c.set_unranked(0, dtype);
    return;
  }
  if (empty && noop) {
    set_same(c);
    return;
  }
  const size_t rank = t->rank();
  DimVec dims;
  if (!axes.known) {
    if (keepdims) {
      for (size_t i = 0; i < rank; ++i) dims.push_back(t->dim(i).is(1) ? Dim::of(1) : Dim());
      c.set(0, dtype, dims);
    } else if (const auto count = list_length(c, 1); count && *count > 0 && *count <= rank) {
      dims.resize(rank - *count);
      c.set(0, dtype, dims);
    } else {
      c.set_unranked(0, dtype);
    }
    return;
  }
  std::vector<bool> removed(rank, axes.list.empty());
  for (int64_t a : axes.list) removed[normal_axis(c, a, rank, "axes")] = true;
  for (size_t i = 0; i < rank; ++i) {
    if (!removed[i]) {
      dims.push_back(t->dim(i));
    } else if (keepdims) {
      dims.push_back(Dim::of(1));
    }
  }
  c.set(0, dtype, dims);

  // Small integer reductions have known values: the product or sum of a shape.
  if (t->rank() > 1 || !carries_value(t) || t->dtype() == DType::kBool) return;
  const auto v = c.value(0);
  if (!v || v->elements.empty()) return;
  Dim total = v->elements[0];
  for (size_t i = 1; i < v->elements.size(); ++i) {
    const Dim d = v->elements[i];
    if (c.op().name == "ReduceProd") {
      total = mul(c, total, d);
    } else if (c.op().name == "ReduceSum") {
      total = add(c, total, d);
    } else if (c.op().name == "ReduceMax") {
      total = total == d ? d : c.dims().max(total, d);
    } else if (c.op().name == "ReduceMin") {
      total = total == d ? d : c.dims().min(total, d);
    } else {
      return;
    }
  }
  if (v->elements.size() == 1 && c.op().name != "ReduceProd" && c.op().name != "ReduceSum" && c.op().name != "ReduceMax" &&
      c.op().name != "ReduceMin") {
    return;
  }
  c.set_value(0, {dims.empty(), {total}});
}

void arg_extreme(InferContext& c) {
  const Type* t = c.ranked(0);
  const bool keepdims = c.attr_int("keepdims", 1) != 0;
  if (t == nullptr) {
    c.set_unranked(0, DType::kI64);
    return;
  }
  const size_t axis = normal_axis(c, c.attr_int("axis", 0), t->rank());
  DimVec dims = dims_of(t);
  if (keepdims) {
    dims[axis] = Dim::of(1);
  } else {
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  c.set(0, DType::kI64, dims);
}

void cumulative(InferContext& c) {
  set_same(c);
  const Type* t = c.ranked(0);
  const auto axis = scalar_int(c, 1);
  if (t != nullptr && axis) normal_axis(c, *axis, t->rank());
}

// Softmax and similar operators: the result has the operand's type, and the axis must exist.
void along_axis(InferContext& c) {
  set_same(c);
  const Type* t = c.ranked(0);
  const auto axis = c.attr_int("axis");
  if (t == nullptr || !axis || t->rank() == 0) return;
  if (c.op().since_version < 13 && *axis == static_cast<int64_t>(t->rank())) return;  // flattens everything: one column
  normal_axis(c, *axis, t->rank());
}

void top_k(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* t = c.ranked(0);
  if (t == nullptr) {
    c.set_unranked(0, dtype);
    c.set_unranked(1, DType::kI64);
    return;
  }
  const size_t axis = normal_axis(c, c.attr_int("axis", -1), t->rank());
  Dim k;
  if (c.op().since_version < 10) {
    if (auto n = c.attr_int("k")) k = Dim::of(*n);
  } else if (auto v = scalar_value(c, 1)) {
    k = *v;
  }
  if (k.is_int() && t->dim(axis).is_int() && (k.value() < 0 || k.value() > t->dim(axis).value())) {
    c.fail(fmt::format("k is {}, the axis has {} elements", k.value(), t->dim(axis).value()));
  }
  DimVec dims = dims_of(t);
  dims[axis] = k;
  const Type* values = c.types().freshen(c.types().tensor(dtype, dims));
  c.set(0, values);
  c.set(1, c.types().with_dtype(values, DType::kI64));
}

void unique(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* t = c.ranked(0);
  const auto axis = c.attr_int("axis");
  const Dim count = c.dims().fresh_unknown();
  if (!axis) {
    c.set(0, dtype, DimVec{count});
  } else if (t != nullptr) {
    DimVec dims = dims_of(t);
    dims[normal_axis(c, *axis, t->rank())] = count;
    c.set(0, dtype, dims);
  } else {
    c.set_unranked(0, dtype);
  }
  Dim all;
  if (t != nullptr) all = axis ? t->dim(normal_axis(c, *axis, t->rank())) : c.dims().product(t->dims());
  c.set(1, DType::kI64, DimVec{count});
  c.set(2, DType::kI64, DimVec{all});
  c.set(3, DType::kI64, DimVec{count});
}

void compress(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* t = c.ranked(0);
  const auto axis = c.attr_int("axis");
  Dim count;
  if (const TensorPtr condition = c.constant(1)) {
    if (const auto flags = condition->to_ints()) {
      int64_t n = 0;
      for (int64_t f : *flags) n += f != 0;
      count = Dim::of(n);
    }
  }
  if (!axis) {
    if (dtype != DType::kUndefined) c.set(0, dtype, DimVec{count});
    return;
  }
  if (t == nullptr) {
    c.set_unranked(0, dtype);
    return;
  }
  DimVec dims = dims_of(t);
  dims[normal_axis(c, *axis, t->rank())] = count;
  c.set(0, dtype, dims);
}

void non_zero(InferContext& c) {
  const Type* t = c.ranked(0);
  // NonZero of a scalar: the standard says zero rows, onnxruntime gives one. Leave it unknown.
  c.set(0, DType::kI64, DimVec{t && t->rank() > 0 ? Dim::of(static_cast<int64_t>(t->rank())) : Dim(), Dim()});
}

void one_hot(InferContext& c) {
  const DType dtype = dtype_of(c, 2);
  const Type* t = c.ranked(0);
  if (t == nullptr || dtype == DType::kUndefined) {
    c.set_unranked(0, dtype);
    return;
  }
  const size_t axis = normal_axis(c, c.attr_int("axis", -1), t->rank() + 1);
  DimVec dims = dims_of(t);
  Dim depth;
  if (auto v = scalar_value(c, 1)) depth = *v;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  c.set(0, dtype, dims);
}

}  // namespace sardonyx::onnx::rules
