// Formulas on tensors, written as on paper: x * x + 1, where(x < y, a, b), loops with a state.
//
// A Num is a value together with the scope for nodes computed from it. A node is written in the innermost
// graph of its operands, so a formula in a loop body that only uses outer values is computed once, outside.
// Element types must have kernels (f32, f64, i32, i64, bool): the caller widens smaller types. Constants take
// the element type of the other operand.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

// Where nodes are written: a lowering, and the depth in the loops of the formula.
struct Scope {
  Lowering* ctx;
  int depth = 0;
};

class Num {
 public:
  Num(Lowering& ctx, Value* v) : scope_{&ctx}, v_(v) {}
  Num(Scope scope, Value* v) : scope_(scope), v_(v) {}

  Value* value() const { return v_; }
  Scope scope() const { return scope_; }
  Lowering& ctx() const { return *scope_.ctx; }
  DType dtype() const { return v_->dtype(); }
  std::span<const Dim> dims() const { return v_->type()->dims(); }
  size_t rank() const { return v_->type()->rank(); }
  Dim dim(int64_t axis) const;  // negative axes count from the end

  Num of(double v) const { return {scope_, ctx().like(v_, v)}; }  // a scalar of the same element type
  Num with(Value* v) const { return {scope_, v}; }

 private:
  Scope scope_;
  Value* v_;
};

// Any operator with one result, written in the innermost scope of its operands.
Num apply(std::string_view op, std::initializer_list<Num> xs, AttrInit attrs = {});

#define SX_NUM_BINARY(spelling, op)                                               \
  inline Num spelling(const Num& x, const Num& y) { return apply(op, {x, y}); }   \
  inline Num spelling(const Num& x, double y) { return apply(op, {x, x.of(y)}); } \
  inline Num spelling(double x, const Num& y) { return apply(op, {y.of(x), y}); }
SX_NUM_BINARY(operator+, "Add")
SX_NUM_BINARY(operator-, "Sub")
SX_NUM_BINARY(operator*, "Mul")
SX_NUM_BINARY(operator/, "Div")
SX_NUM_BINARY(operator<, "Less")
SX_NUM_BINARY(operator<=, "LessOrEqual")
SX_NUM_BINARY(operator>, "Greater")
SX_NUM_BINARY(operator>=, "GreaterOrEqual")
SX_NUM_BINARY(eq, "Equal")
SX_NUM_BINARY(max, "Max")
SX_NUM_BINARY(min, "Min")
SX_NUM_BINARY(pow, "Pow")
#undef SX_NUM_BINARY

inline Num operator-(const Num& x) { return apply("Neg", {x}); }
inline Num operator!(const Num& x) { return apply("Not", {x}); }
inline Num operator&(const Num& x, const Num& y) { return apply("And", {x, y}); }
inline Num operator|(const Num& x, const Num& y) { return apply("Or", {x, y}); }
inline Num abs(const Num& x) { return apply("Abs", {x}); }
inline Num sqrt(const Num& x) { return apply("Sqrt", {x}); }
inline Num exp(const Num& x) { return apply("Exp", {x}); }
inline Num log(const Num& x) { return apply("Log", {x}); }
inline Num sin(const Num& x) { return apply("Sin", {x}); }
inline Num cos(const Num& x) { return apply("Cos", {x}); }
inline Num floor(const Num& x) { return apply("Floor", {x}); }
inline Num sign(const Num& x) { return apply("Sign", {x}); }
inline Num reciprocal(const Num& x) { return apply("Reciprocal", {x}); }
inline Num is_nan(const Num& x) { return apply("IsNaN", {x}); }
inline Num matmul(const Num& x, const Num& y) { return apply("MatMul", {x, y}); }
template <class X, class Y>
Num ne(const X& x, const Y& y) {
  return !eq(x, y);
}

// Also selects between bools.
Num where(const Num& condition, const Num& x, const Num& y);
inline Num where(const Num& condition, const Num& x, double y) { return where(condition, x, x.of(y)); }
inline Num where(const Num& condition, double x, const Num& y) { return where(condition, y.of(x), y); }

Num cast(const Num& x, DType to);
Num full_like(const Num& x, double v);  // of x's shape
Num any(const Num& x);                  // bool[]: whether any element of the bools x is true

// Moves elements; negative axes count from the end.
Num unsqueeze(const Num& x, int64_t axis);  // `axis` is a position in the result
Num squeeze(const Num& x, int64_t axis);
Num swap_last_axes(const Num& x);
Num slice(const Num& x, int64_t axis, Dim start, Dim stop);
Num concat(std::initializer_list<Num> xs, int64_t axis);
Num expand(const Num& x, std::span<const Dim> dims);
Num reshape(const Num& x, std::span<const Dim> dims);
Num gather(const Num& x, const Num& index, int64_t axis);  // a scalar index drops the axis
Num reduce(std::string_view op, const Num& x, std::initializer_list<int64_t> axes, bool keepdims = false);
inline Num sum(const Num& x, int64_t axis, bool keepdims = false) { return reduce("ReduceSum", x, {axis}, keepdims); }
Num iota(Scope scope, DType t, Dim size);

// Runs an ONNX Loop over the state s. `body` updates the state in place, given the iteration number (i64[]),
// and may return a condition to continue. The loop runs at most `trips` times (null: unbounded), while
// `go_on` (absent: true) and then the body's condition hold. The shapes of the state must not change.
using LoopBody = std::function<std::optional<Num>(const Num& i, std::vector<Num>& s)>;
std::vector<Num> loop(Scope scope, Value* trips, std::optional<Num> go_on, std::vector<Num> s, const LoopBody& body);
// For i in [0, trips).
inline std::vector<Num> repeat(Scope scope, Value* trips, std::vector<Num> s,
                               const std::function<void(const Num& i, std::vector<Num>& s)>& body) {
  return loop(scope, trips, {}, std::move(s), [&](const Num& i, std::vector<Num>& state) -> std::optional<Num> {
    body(i, state);
    return {};
  });
}

}  // namespace sardonyx::jax_to_onnx
