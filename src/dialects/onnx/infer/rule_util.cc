#include "dialects/onnx/infer/rule_util.h"

#include <algorithm>

namespace sardonyx::onnx::rules {

size_t normal_axis(const InferContext& c, int64_t axis, size_t rank, std::string_view name) {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r) c.fail(fmt::format("{} {} is outside [{}, {})", name, axis, -r, r));
  return static_cast<size_t>(axis < 0 ? axis + r : axis);
}

std::vector<size_t> normal_axes(const InferContext& c, std::span<const int64_t> axes, size_t rank, std::string_view name) {
  std::vector<size_t> out;
  std::vector<bool> seen(rank);
  for (int64_t a : axes) {
    const size_t axis = normal_axis(c, a, rank, name);
    if (seen[axis]) c.fail(fmt::format("{} has {} twice", name, axis));
    seen[axis] = true;
    out.push_back(axis);
  }
  return out;
}

void set_same(InferContext& c, size_t from, size_t i) { c.set(i, c.input(from)); }

void set_same_shape(InferContext& c, DType dtype, size_t from, size_t i) {
  const Type* t = c.input(from);
  if (t != nullptr && t->is_tensor() && t->ranked() && dtype != DType::kUndefined) {
    c.set(i, t->dtype() == dtype ? t : c.types().with_dtype(t, dtype));
  } else {
    c.set_unranked(i, dtype);
  }
}

DType dtype_of(const InferContext& c, size_t i) {
  const Type* t = c.input(i);
  return t && t->is_tensor() ? t->dtype() : DType::kUndefined;
}

DType dtype_attr(const InferContext& c, int64_t number, std::string_view name) {
  if (number <= 0 || number >= 64 || to_string(static_cast<DType>(number)).empty()) {
    c.fail(fmt::format("attribute '{}' is {}, which is not an element type", name, number));
  }
  return static_cast<DType>(number);
}

Dim broadcast_dim(const InferContext& c, Dim a, Dim b) {
  if (a == b) return a;
  if (a.is(1)) return b;
  if (b.is(1)) return a;
  if (a.is_int() && b.is_int()) {
    c.fail(fmt::format("shapes do not broadcast: {} against {}", a.value(), b.value()));
  }
  if (a.is_int()) return a;  // the other one is 1 or the same
  if (b.is_int()) return b;
  if (a.is_expr() && b.is_expr()) {
    // They are equal or one of them is 1, so the result is the larger one if both are at least 1.
    const auto at_least_one = [&](Dim d) { return c.dims().range(d).min.value_or(0) >= 1; };
    if (at_least_one(a) && at_least_one(b)) return c.dims().max(a, b);
  }
  return Dim();
}

DimVec broadcast(const InferContext& c, std::span<const Dim> a, std::span<const Dim> b) {
  if (a.size() < b.size()) std::swap(a, b);
  DimVec out(a.begin(), a.end());
  const size_t shift = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) out[shift + i] = broadcast_dim(c, a[shift + i], b[i]);
  return out;
}

std::optional<DimVec> broadcast_inputs(const InferContext& c, size_t first, size_t last) {
  DimVec dims;
  for (size_t i = first; i < last; ++i) {
    const Type* t = c.ranked(i);
    if (t == nullptr) return std::nullopt;
    dims = i == first ? dims_of(t) : broadcast(c, dims, t->dims());
  }
  return dims;
}

Dim same_dim(const InferContext& c, Dim a, Dim b, std::string_view what) {
  if (a == b) return a;
  if (a.is_int() && b.is_int()) c.fail(fmt::format("{} must be equal: {} and {}", what, a.value(), b.value()));
  if (a.is_int()) return a;
  if (b.is_int()) return b;
  return a.is_expr() ? a : b.is_expr() ? b : a;
}

DimVec same_dims(const InferContext& c, std::span<const Dim> a, std::span<const Dim> b, std::string_view what) {
  if (a.size() != b.size()) c.fail(fmt::format("{}: ranks {} and {} differ", what, a.size(), b.size()));
  DimVec out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = same_dim(c, a[i], b[i], what);
  return out;
}

void need_rank(const InferContext& c, size_t i, size_t rank) {
  const Type* t = c.ranked(i);
  if (t != nullptr && t->rank() != rank) {
    c.fail(fmt::format("operand {} must have rank {}, not {}", i, rank, t->rank()));
  }
}

void need_rank_at_least(const InferContext& c, size_t i, size_t rank) {
  const Type* t = c.ranked(i);
  if (t != nullptr && t->rank() < rank) {
    c.fail(fmt::format("operand {} must have rank {} or more, not {}", i, rank, t->rank()));
  }
}

Dim add(const InferContext& c, Dim a, Dim b) {
  if (a.is(0)) return b;
  if (b.is(0)) return a;
  return c.dims().add(a, b);
}

Dim sub(const InferContext& c, Dim a, Dim b) {
  if (b.is(0)) return a;
  if (a == b) return Dim::of(0);
  return c.dims().sub(a, b);
}

Dim mul(const InferContext& c, Dim a, Dim b) {
  if (a.is(1)) return b;
  if (b.is(1)) return a;
  if (a.is(0) || b.is(0)) return Dim::of(0);
  return c.dims().mul(a, b);
}

Dim floordiv(const InferContext& c, Dim a, int64_t b) { return b == 1 ? a : c.dims().floordiv(a, Dim::of(b)); }

Dim ceildiv(const InferContext& c, Dim a, int64_t b) { return b == 1 ? a : c.dims().ceildiv(a, Dim::of(b)); }

bool carries_value(const Type* t) {
  if (t == nullptr || !t->is_tensor() || !t->ranked() || t->rank() > 1) return false;
  return t->dtype() == DType::kI64 || t->dtype() == DType::kI32 || t->dtype() == DType::kBool;
}

std::optional<size_t> list_length(const InferContext& c, size_t i) {
  const Type* t = c.ranked(i);
  if (t == nullptr || t->rank() != 1 || !t->dim(0).is_int()) return std::nullopt;
  const int64_t n = t->dim(0).value();
  return n >= 0 && n <= 64 ? std::optional(static_cast<size_t>(n)) : std::nullopt;
}

std::optional<Dim> scalar_value(const InferContext& c, size_t i) {
  const auto v = c.value(i);
  if (!v || v->elements.size() != 1) return std::nullopt;
  return v->elements[0];
}

std::optional<int64_t> scalar_int(const InferContext& c, size_t i) {
  const auto v = c.ints(i);
  if (!v || v->size() != 1) return std::nullopt;
  return (*v)[0];
}

}  // namespace sardonyx::onnx::rules
