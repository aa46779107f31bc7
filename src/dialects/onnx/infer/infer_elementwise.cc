// Elementwise operators, and their results on shape values.
#include <cmath>

#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"
#include "ir/dims/dim_facts.h"

namespace sardonyx::onnx::rules {
namespace {

constexpr int64_t kI32Max = 2147483647, kI32Min = -2147483648LL;

// Applies `compute` to each pair of broadcast elements. Overflow gives an unknown, and so do i32 results
// outside i32.
template <class F>
void propagate(InferContext& c, DType result, F compute) {
  if (!carries_value(c.node().result(0)->type()) || c.num_results() == 0) return;
  const auto a = c.value(0), b = c.value(1);
  if (!a || !b) return;
  const size_t n = a->elements.size() == 1 ? b->elements.size() : a->elements.size();
  if (b->elements.size() != n && b->elements.size() != 1) return;
  SymbolicValue out;
  out.scalar = a->scalar && b->scalar;
  for (size_t i = 0; i < n; ++i) {
    const Dim x = a->elements[a->elements.size() == 1 ? 0 : i], y = b->elements[b->elements.size() == 1 ? 0 : i];
    Dim z;
    try {
      z = compute(x, y);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit && e.code() != ErrorCode::kInvalidArgument) throw;
    }
    if (result == DType::kI32 && z.is_int() && (z.value() > kI32Max || z.value() < kI32Min)) z = Dim();
    out.elements.push_back(z.is_anonymous() ? c.dims().fresh_unknown() : z);
  }
  c.set_value(0, std::move(out));
}

// ONNX integer division truncates towards zero.
Dim truncating_div(const InferContext& c, Dim x, Dim y) {
  if (y.is(0)) return Dim();
  if (y.is(1)) return x;
  if (x.is_int() && y.is_int()) return Dim::of(x.value() / y.value());
  const DimRange rx = c.dims().range(x), ry = c.dims().range(y);
  if (rx.min.value_or(-1) < 0 || ry.min.value_or(0) < 1) return Dim();
  return c.dims().floordiv(x, y);
}

}  // namespace

void same(InferContext& c) { set_same(c); }

void same_as_second(InferContext& c) { set_same(c, 1); }

void identity(InferContext& c) {
  set_same(c);
  if (const SymbolicValue* v = c.has_input(0) ? c.facts().find(*c.node().input(0)) : nullptr) {
    c.set_value(0, *v);
  } else if (carries_value(c.input(0))) {
    if (auto known = c.value(0)) c.set_value(0, std::move(*known));
  }
}

void same_shape_bool(InferContext& c) { set_same_shape(c, DType::kBool); }

void negate(InferContext& c) {
  set_same(c);
  if (!carries_value(c.input(0))) return;
  auto v = c.value(0);
  if (!v) return;
  for (Dim& d : v->elements) d = sub(c, Dim::of(0), d);
  c.set_value(0, std::move(*v));
}

void absolute(InferContext& c) {
  set_same(c);
  if (!carries_value(c.input(0))) return;
  auto v = c.value(0);
  if (!v) return;
  for (Dim& d : v->elements) {
    if (d.is_int()) {
      d = Dim::of(std::abs(d.value()));
    } else if (c.dims().range(d).min.value_or(-1) < 0) {
      d = c.dims().fresh_unknown();
    }
  }
  c.set_value(0, std::move(*v));
}

void cast(InferContext& c) {
  DType to = DType::kUndefined;
  if (c.op().since_version < 6) {  // spelled out: "FLOAT"
    const auto name = c.attr_string("to");
    if (!name) return;
    std::string lower;
    for (char ch : *name) lower += static_cast<char>(ch >= 'A' && ch <= 'Z' ? ch - 'A' + 'a' : ch);
    if (lower == "float") lower = "float32";
    if (lower == "double") lower = "float64";
    const auto parsed = parse_dtype(lower);
    if (!parsed) c.fail(fmt::format("attribute 'to' is '{}', which is not an element type", *name));
    to = *parsed;
  } else {
    const auto number = c.attr_int("to");
    if (!number) return;
    to = dtype_attr(c, *number, "to");
  }
  set_same_shape(c, to);
  const Type* t = c.node().result(0)->type();
  if (!carries_value(t) || !(is_integer(dtype_of(c, 0)) || dtype_of(c, 0) == DType::kBool)) return;
  auto v = c.value(0);
  if (!v) return;
  for (Dim& d : v->elements) {
    if (to == DType::kI32 && d.is_int() && (d.value() > kI32Max || d.value() < kI32Min)) d = c.dims().fresh_unknown();
    if (to == DType::kBool) d = d.is_int() ? Dim::of(d.value() != 0) : c.dims().fresh_unknown();
  }
  c.set_value(0, std::move(*v));
}

void cast_like(InferContext& c) {
  set_same_shape(c, dtype_of(c, 1));
  if (!carries_value(c.node().result(0)->type()) || dtype_of(c, 1) == DType::kBool) return;
  if (auto v = c.value(0); v && is_integer(dtype_of(c, 0))) c.set_value(0, std::move(*v));
}

// Reinterprets the bits. Both types have the same width, so the last dim stays.
void bit_cast(InferContext& c) {
  const auto number = c.attr_int("to");
  if (!number) return;
  const DType to = dtype_attr(c, *number, "to");
  const DType from = dtype_of(c, 0);
  if (from != DType::kUndefined && bit_width(from) != bit_width(to)) {
    c.fail(fmt::format("{} has {} bits and {} has {}", to_string(from), bit_width(from), to_string(to), bit_width(to)));
  }
  set_same_shape(c, to);
}

void broadcasting(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  // The most common case; creates no type.
  if (c.num_inputs() == 2 && c.input(0) != nullptr && c.input(0) == c.input(1)) {
    set_same(c);
    return;
  }
  if (auto dims = broadcast_inputs(c, 0, c.num_inputs()); dims && dtype != DType::kUndefined) {
    c.set(0, dtype, *dims);
  } else {
    c.set_unranked(0, dtype);
  }
}

void broadcasting_bool(InferContext& c) {
  if (auto dims = broadcast_inputs(c, 0, c.num_inputs())) {
    c.set(0, DType::kBool, *dims);
  } else {
    c.set_unranked(0, DType::kBool);
  }
}

// Before opset 7 the second operand was broadcast to the first, if an attribute asked for it.
void legacy_broadcasting(InferContext& c) { set_same(c); }

void legacy_broadcasting_bool(InferContext& c) {
  if (c.attr_int("broadcast", 0) != 0) {
    set_same_shape(c, DType::kBool);
  } else {
    broadcasting_bool(c);
  }
}

void add_op(InferContext& c) {
  broadcasting(c);
  propagate(c, dtype_of(c, 0), [&](Dim x, Dim y) { return add(c, x, y); });
}

void sub_op(InferContext& c) {
  broadcasting(c);
  propagate(c, dtype_of(c, 0), [&](Dim x, Dim y) { return sub(c, x, y); });
}

void mul_op(InferContext& c) {
  broadcasting(c);
  propagate(c, dtype_of(c, 0), [&](Dim x, Dim y) { return mul(c, x, y); });
}

void div_op(InferContext& c) {
  broadcasting(c);
  propagate(c, dtype_of(c, 0), [&](Dim x, Dim y) { return truncating_div(c, x, y); });
}

void mod_op(InferContext& c) {
  broadcasting(c);
  const bool fmod = c.attr_int("fmod", 0) != 0;
  propagate(c, dtype_of(c, 0), [&](Dim x, Dim y) {
    if (y.is(0)) return Dim();
    // fmod takes the sign of the dividend, so it equals mod only where both operands are positive.
    if (fmod && (c.dims().range(x).min.value_or(-1) < 0 || c.dims().range(y).min.value_or(0) < 1)) return Dim();
    return c.dims().mod(x, y);
  });
}

void max_op(InferContext& c) {
  broadcasting(c);
  if (c.num_inputs() == 1) return identity(c);
  if (c.num_inputs() == 2) propagate(c, dtype_of(c, 0), [&](Dim x, Dim y) { return x == y ? x : c.dims().max(x, y); });
}

void min_op(InferContext& c) {
  broadcasting(c);
  if (c.num_inputs() == 1) return identity(c);
  if (c.num_inputs() == 2) propagate(c, dtype_of(c, 0), [&](Dim x, Dim y) { return x == y ? x : c.dims().min(x, y); });
}

namespace {

Dim truth(const InferContext& c, Compare equal) {
  if (equal == Compare::kUnknown) return Dim();
  return Dim::of(equal == Compare::kEqual ? 1 : 0);
  (void)c;
}

// Whether "less < more" asks if a tensor is empty: 0 < size, or size < 1. A model that asks has a branch for
// empty tensors, which the default of at least 1 for named sizes must not drop.
bool asks_for_empty(const InferContext& c, Dim less, Dim more) {
  return (less.is(0) && is_nonempty_by_default(c.dims(), more)) || (more.is(1) && is_nonempty_by_default(c.dims(), less));
}

// 1 where x < y is proven, 0 where y <= x is.
Dim less_truth(const InferContext& c, Dim x, Dim y) {
  if (x.is_unknown() || y.is_unknown()) return x == y ? Dim::of(0) : Dim();
  if (asks_for_empty(c, x, y)) return Dim();
  if (c.dims().less(x, y)) return Dim::of(1);
  if (c.dims().less_equal(y, x)) return Dim::of(0);
  return Dim();
}

Dim complement(Dim d) { return d.is_int() ? Dim::of(1 - d.value()) : Dim(); }

}  // namespace

void equal_op(InferContext& c) {
  broadcasting_bool(c);
  propagate(c, DType::kBool, [&](Dim x, Dim y) {
    if (x == y) return Dim::of(1);
    if (x.is_unknown() || y.is_unknown()) return Dim();
    if ((x.is(0) && asks_for_empty(c, x, y)) || (y.is(0) && asks_for_empty(c, y, x))) return Dim();
    Dim answer = truth(c, c.dims().compare(x, y));
    if (!answer.is_int() && (less_truth(c, x, y).is(1) || less_truth(c, y, x).is(1))) answer = Dim::of(0);
    return answer;
  });
}

void less_op(InferContext& c) {
  broadcasting_bool(c);
  propagate(c, DType::kBool, [&](Dim x, Dim y) { return less_truth(c, x, y); });
}

void greater_op(InferContext& c) {
  broadcasting_bool(c);
  propagate(c, DType::kBool, [&](Dim x, Dim y) { return less_truth(c, y, x); });
}

void less_or_equal_op(InferContext& c) {
  broadcasting_bool(c);
  propagate(c, DType::kBool, [&](Dim x, Dim y) { return complement(less_truth(c, y, x)); });
}

void greater_or_equal_op(InferContext& c) {
  broadcasting_bool(c);
  propagate(c, DType::kBool, [&](Dim x, Dim y) { return complement(less_truth(c, x, y)); });
}

void and_op(InferContext& c) {
  broadcasting_bool(c);
  propagate(c, DType::kBool, [](Dim x, Dim y) {
    if (x.is(0) || y.is(0)) return Dim::of(0);
    return x.is(1) && y.is(1) ? Dim::of(1) : Dim();
  });
}

void or_op(InferContext& c) {
  broadcasting_bool(c);
  propagate(c, DType::kBool, [](Dim x, Dim y) {
    if (x.is(1) || y.is(1)) return Dim::of(1);
    return x.is(0) && y.is(0) ? Dim::of(0) : Dim();
  });
}

void not_op(InferContext& c) {
  set_same(c);
  if (!carries_value(c.input(0))) return;
  auto v = c.value(0);
  if (!v) return;
  for (Dim& d : v->elements) d = d.is_int() ? complement(d) : c.dims().fresh_unknown();
  c.set_value(0, std::move(*v));
}

void where_op(InferContext& c) {
  const DType dtype = dtype_of(c, 1) != DType::kUndefined ? dtype_of(c, 1) : dtype_of(c, 2);
  const auto dims = broadcast_inputs(c, 0, 3);
  if (!dims || dtype == DType::kUndefined) {
    c.set_unranked(0, dtype);
    return;
  }
  c.set(0, dtype, *dims);
  if (!carries_value(c.node().result(0)->type())) return;
  const auto cond = c.value(0), x = c.value(1), y = c.value(2);
  if (!cond || !x || !y) return;
  const size_t n = std::max({cond->elements.size(), x->elements.size(), y->elements.size()});
  const auto at = [&](const SymbolicValue& v, size_t i) { return v.elements[v.elements.size() == 1 ? 0 : i]; };
  for (const auto* v : {&*cond, &*x, &*y}) {
    if (v->elements.size() != 1 && v->elements.size() != n) return;
  }
  SymbolicValue out;
  out.scalar = dims->empty();
  for (size_t i = 0; i < n; ++i) {
    const Dim which = at(*cond, i), a = at(*x, i), b = at(*y, i);
    if (which.is_int()) {
      out.elements.push_back(which.value() != 0 ? a : b);
    } else {
      out.elements.push_back(a == b ? a : c.dims().fresh_unknown());
    }
  }
  c.set_value(0, std::move(out));
}

// The second operand broadcasts to the first, which determines the result.
void prelu(InferContext& c) {
  const Type *x = c.ranked(0), *slope = c.ranked(1);
  if (x != nullptr && slope != nullptr && c.op().since_version >= 7) {
    if (slope->rank() > x->rank()) c.fail("the slope has more dims than X");
    broadcast(c, x->dims(), slope->dims());
    for (size_t i = 1; i <= slope->rank(); ++i) {
      const Dim s = slope->dim(slope->rank() - i);
      if (x->dim(x->rank() - i).is(1) && s.is_int() && !s.is(1))
        c.fail("the slope must broadcast to X, and does not: it is larger");
    }
  }
  set_same(c);
}

void clip(InferContext& c) {
  set_same(c);
  for (size_t i = 1; i <= 2; ++i) {
    const Type* limit = c.has_input(i) ? c.ranked(i) : nullptr;
    if (limit == nullptr || limit->rank() == 0) continue;
    const Dim size = limit->dim(0);
    if (limit->rank() > 1 || (size.is_int() && !size.is(1))) c.fail("the limits must be scalars");
  }
  if (!carries_value(c.input(0))) return;
  auto v = c.value(0);
  if (!v) return;
  for (size_t i = 1; i <= 2; ++i) {
    if (!c.has_input(i)) continue;
    const auto bound = scalar_value(c, i);
    if (!bound) return;
    for (Dim& d : v->elements) d = i == 1 ? c.dims().max(d, *bound) : c.dims().min(d, *bound);
  }
  c.set_value(0, std::move(*v));
}

void dropout(InferContext& c) {
  set_same(c);
  if (c.op().since_version >= 10) {
    set_same_shape(c, DType::kBool, 0, 1);
  } else {
    set_same(c, 0, 1);
  }
}

void swiglu(InferContext& c) {
  const Type *a = c.ranked(0), *b = c.ranked(1);
  if (a != nullptr && b != nullptr) {
    c.set(0, a->dtype(), same_dims(c, a->dims(), b->dims(), "the shapes of A and B"));
  } else {
    set_same(c, a != nullptr ? 0 : 1);
  }
}

}  // namespace sardonyx::onnx::rules
