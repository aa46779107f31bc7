#include "lower/jax_to_onnx/lib/num.h"

#include <algorithm>

#include "lower/jax_to_onnx/arithmetic/bitwise.h"

namespace sardonyx::jax_to_onnx {
namespace {

Scope innermost(std::initializer_list<Num> xs) {
  Scope scope = xs.begin()->scope();
  for (const Num& x : xs) {
    if (x.scope().depth > scope.depth) scope = x.scope();
  }
  return scope;
}

int64_t from_start(const Num& x, int64_t axis) { return axis < 0 ? axis + static_cast<int64_t>(x.rank()) : axis; }

}  // namespace

Dim Num::dim(int64_t axis) const { return dims()[static_cast<size_t>(from_start(*this, axis))]; }

Num apply(std::string_view op, std::initializer_list<Num> xs, AttrInit attrs) {
  std::vector<Value*> values;
  for (const Num& x : xs) values.push_back(x.value());
  Scope scope = innermost(xs);
  if (op.starts_with("Bitwise")) return {scope, bitwise(scope.ctx->b, op, values[0], values.size() > 1 ? values[1] : nullptr)};
  return {scope, scope.ctx->b.op(op, values, std::move(attrs))};
}

Num where(const Num& condition, const Num& x, const Num& y) {
  Scope scope = innermost({condition, x, y});
  return {scope, scope.ctx->select(condition.value(), x.value(), y.value())};
}

Num cast(const Num& x, DType to) { return x.with(x.ctx().cast(x.value(), to)); }
Num full_like(const Num& x, double v) { return x.with(x.ctx().full(x.dtype(), x.dims(), v)); }

Num any(const Num& x) {
  if (x.rank() == 0) return x;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < x.rank(); ++i) axes.push_back(static_cast<int64_t>(i));
  return x.with(x.ctx().cast(reduce(x.ctx(), "ReduceMax", x.ctx().cast(x.value(), DType::kU8), axes), DType::kBool));
}

Num unsqueeze(const Num& x, int64_t axis) {
  if (axis < 0) axis += static_cast<int64_t>(x.rank()) + 1;
  return x.with(x.ctx().unsqueeze(x.value(), std::vector{axis}));
}

Num squeeze(const Num& x, int64_t axis) { return x.with(x.ctx().squeeze(x.value(), std::vector{from_start(x, axis)})); }

Num swap_last_axes(const Num& x) {
  std::vector<int64_t> perm;
  for (size_t i = 0; i < x.rank(); ++i) perm.push_back(static_cast<int64_t>(i));
  std::swap(perm[x.rank() - 1], perm[x.rank() - 2]);
  return x.with(x.ctx().transpose(x.value(), perm));
}

Num slice(const Num& x, int64_t axis, Dim start, Dim stop) {
  return x.with(x.ctx().slice(x.value(), from_start(x, axis), start, stop));
}

Num concat(std::initializer_list<Num> xs, int64_t axis) {
  Scope scope = innermost(xs);
  std::vector<Value*> values;
  for (const Num& x : xs) values.push_back(x.value());
  return {scope, scope.ctx->concat(values, from_start(*xs.begin(), axis))};
}

Num expand(const Num& x, std::span<const Dim> dims) { return x.with(x.ctx().expand(x.value(), dims)); }
Num reshape(const Num& x, std::span<const Dim> dims) { return x.with(x.ctx().reshape(x.value(), dims)); }

Num gather(const Num& x, const Num& index, int64_t axis) {
  return apply("Gather", {x, index}, {attr("axis", from_start(x, axis))});
}

Num reduce(std::string_view op, const Num& x, std::initializer_list<int64_t> axes, bool keepdims) {
  std::vector<int64_t> positive;
  for (int64_t axis : axes) positive.push_back(from_start(x, axis));
  std::ranges::sort(positive);
  // Integers here are indices: the plain reduction is exact for them.
  if (is_integer(x.value()->dtype())) return x.with(x.ctx().b.reduce(op, x.value(), positive, keepdims));
  return x.with(reduce(x.ctx(), op, x.value(), positive, keepdims));
}

Num iota(Scope scope, DType t, Dim size) { return {scope, scope.ctx->iota(t, size)}; }

std::vector<Num> loop(Scope scope, Value* trips, std::optional<Num> go_on, std::vector<Num> s, const LoopBody& body) {
  Lowering& ctx = *scope.ctx;
  bool has_condition = go_on.has_value();
  Graph& graph = ctx.make_body("body", [&](Lowering& inside) {
    Graph& g = inside.b.graph();
    Types& types = inside.b.types();
    Scope inner{&inside, scope.depth + 1};
    Num i(inner, g.add_input({}, types.scalar(DType::kI64)));
    Num condition(inner, g.add_input({}, types.scalar(DType::kBool)));
    std::vector<Num> state;
    for (const Num& x : s) state.emplace_back(inner, g.add_input({}, x.value()->type()));
    if (std::optional<Num> again = body(i, state)) {
      condition = *again;
      has_condition = true;
    }
    g.add_output(*condition.value(), {}, types.scalar(DType::kBool));
    for (size_t k = 0; k < s.size(); ++k) g.add_output(*state[k].value(), {}, s[k].value()->type());
  });
  // onnx's reference evaluator treats an absent condition as false.
  Value* first = go_on ? go_on->value() : has_condition ? ctx.b.scalar_int(DType::kBool, 1) : nullptr;
  std::vector<Value*> inputs{trips, first};
  for (const Num& x : s) inputs.push_back(x.value());
  const Body bodies[] = {{ctx.b.model().name("body"), &graph}};
  Node& node = ctx.b.node("Loop", inputs, s.size(), {}, {}, bodies);
  for (size_t k = 0; k < s.size(); ++k) s[k] = Num(scope, node.result(k));
  return s;
}

}  // namespace sardonyx::jax_to_onnx
