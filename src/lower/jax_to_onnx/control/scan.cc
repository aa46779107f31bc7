// scan[jaxpr, length, reverse] constants, carry, xs   =>   Scan<directions>(carry, xs) { jaxpr }
//
// Constants are captured. Without xs, Scan has nothing to iterate over: a Loop of `length` iterations stacks
// the ys. A Loop also replaces a Scan whose length depends on data and may be 0, which onnxruntime's Scan
// refuses; it gathers the slices of xs.
#include "lower/jax_to_onnx/context.h"

namespace sardonyx::jax_to_onnx {
namespace {

struct Shape {
  size_t consts, carries, xs, ys;
};

// The type of one slice of xs or ys: without the first axis.
const Type* slice_type(Lowering& ctx, const Type* t) { return ctx.b.types().with_dims(t, t->dims().subspan(1)); }

std::vector<Value*> call(Lowering& ctx, Lowering& inside, const Graph& jaxpr, const Shape& n, std::span<Value* const> carry,
                         std::span<Value* const> xs) {
  std::vector<Value*> args;
  for (size_t i = 0; i < n.consts; ++i) args.push_back(ctx.in(i));
  args.insert(args.end(), carry.begin(), carry.end());
  args.insert(args.end(), xs.begin(), xs.end());
  return inside.inline_body(jaxpr, args);
}

void add_results(Lowering& ctx, Graph& g, const Shape& n, std::span<Value* const> results) {
  for (size_t i = 0; i < n.carries; ++i) g.add_output(*results[i], {}, ctx.stored_out_type(i));
  for (size_t i = 0; i < n.ys; ++i)
    g.add_output(*results[n.carries + i], {}, slice_type(ctx, ctx.stored_out_type(n.carries + i)));
}

std::vector<Value*> results_of(Node& node) {
  std::vector<Value*> results;
  for (Value& v : node.results()) results.push_back(&v);
  return results;
}

std::vector<Value*> with_scan(Lowering& ctx, const Graph& jaxpr, const Shape& n, bool reverse) {
  Graph& body = ctx.make_body("body", [&](Lowering& inside) {
    Graph& g = inside.b.graph();
    std::vector<Value*> carry, xs;
    for (size_t i = 0; i < n.carries; ++i) carry.push_back(g.add_input({}, inside.stored_out_type(i)));
    for (size_t i = 0; i < n.xs; ++i)
      xs.push_back(g.add_input({}, slice_type(inside, inside.stored_in_type(n.consts + n.carries + i))));
    add_results(inside, g, n, call(ctx, inside, jaxpr, n, carry, xs));
  });
  std::vector<Value*> inputs;
  for (size_t i = n.consts; i < ctx.num_inputs(); ++i) inputs.push_back(ctx.in(i));
  AttrInit attrs{attr("num_scan_inputs", static_cast<int64_t>(n.xs))};
  if (reverse) {
    attrs.push_back(attr("scan_input_directions", std::vector<int64_t>(n.xs, 1)));
    if (n.ys > 0) attrs.push_back(attr("scan_output_directions", std::vector<int64_t>(n.ys, 1)));
  }
  const Body bodies[] = {{ctx.b.model().name("body"), &body}};
  return results_of(ctx.b.node("Scan", inputs, n.carries + n.ys, std::move(attrs), {}, bodies));
}

std::vector<Value*> with_loop(Lowering& ctx, const Graph& jaxpr, const Shape& n, Dim length, bool reverse) {
  Value* last = reverse && n.xs > 0 ? ctx.b.Sub(ctx.dim(length), ctx.b.i64(1)) : nullptr;
  Graph& body = ctx.make_body("body", [&](Lowering& inside) {
    Graph& g = inside.b.graph();
    Types& types = inside.b.types();
    Value* step = g.add_input({}, types.scalar(DType::kI64));
    if (reverse && n.xs > 0) step = inside.b.Sub(last, step);
    Value* go_on = g.add_input({}, types.scalar(DType::kBool));
    std::vector<Value*> carry;
    for (size_t i = 0; i < n.carries; ++i) carry.push_back(g.add_input({}, inside.stored_out_type(i)));
    std::vector<Value*> xs;
    for (size_t i = n.consts + n.carries; i < ctx.num_inputs(); ++i)
      xs.push_back(inside.b.Gather(ctx.in(i), step, {.axis = 0}));
    const std::vector<Value*> results = call(ctx, inside, jaxpr, n, carry, xs);
    g.add_output(*go_on, {}, types.scalar(DType::kBool));
    add_results(inside, g, n, results);
  });
  std::vector<Value*> inputs{ctx.dim(length), nullptr};
  for (size_t i = 0; i < n.carries; ++i) inputs.push_back(ctx.in(n.consts + i));
  const Body bodies[] = {{ctx.b.model().name("body"), &body}};
  std::vector<Value*> results = results_of(ctx.b.node("Loop", inputs, n.carries + n.ys, {}, {}, bodies));
  if (reverse) {
    Value* first = ctx.b.i64s({-1});
    Value* end = ctx.b.i64s({INT64_MIN});
    for (size_t i = n.carries; i < results.size(); ++i) {
      results[i] = ctx.b.Slice(results[i], first, end, ctx.b.i64s({0}), ctx.b.i64s({-1}));
    }
  }
  return results;
}

}  // namespace

std::vector<Value*> lower_scan(Lowering& ctx) {
  const Graph* jaxpr = ctx.node.body("jaxpr");
  if (jaxpr == nullptr) ctx.unsupported("the equation has no jaxpr");
  Shape n{};
  n.consts = static_cast<size_t>(ctx.int_param("num_consts"));
  n.carries = static_cast<size_t>(ctx.int_param("num_carry"));
  n.xs = ctx.num_inputs() - n.consts - n.carries;
  n.ys = ctx.node.num_results() - n.carries;
  if (n.carries + n.ys == 0) return {};
  const Dim length = ctx.dim_param("length");
  const bool reverse = ctx.bool_param("reverse");
  if (length.is(0)) {
    std::vector<Value*> results;
    for (size_t i = 0; i < n.carries; ++i) results.push_back(ctx.in(n.consts + i));
    for (size_t i = n.carries; i < ctx.node.num_results(); ++i) {
      const Type* t = ctx.stored_out_type(i);
      results.push_back(ctx.zeros(t->dtype(), t->dims()));
    }
    return results;
  }
  const bool may_be_empty = !length.is_int() && ctx.context().model().dims().range(length).min.value_or(0) < 1;
  return n.xs > 0 && !may_be_empty ? with_scan(ctx, *jaxpr, n, reverse) : with_loop(ctx, *jaxpr, n, length, reverse);
}

}  // namespace sardonyx::jax_to_onnx
