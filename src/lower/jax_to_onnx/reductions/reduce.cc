// reduce_sum, reduce_prod, reduce_max, reduce_min [axes] x   =>   ReduceSum, ... <keepdims = 0>(x, axes)
//     integers for which onnxruntime's kernels are wrong: lower/jax_to_onnx/lib/wide_integers.h
//     integer products: halves folded on each other
// reduce_and, reduce_or [axes] x    bools: ReduceMin, ReduceMax;  integers: halves folded on each other
// reduce_xor [axes] x               halves folded on each other; bools: whether the sum is odd
//
// In JAX the maximum is NaN if any element is NaN. ONNX leaves this open, and onnxruntime skips some NaNs. So
// the NaN is selected afterwards, unless the maximum only serves a softmax or logsumexp, which gets the NaN
// from its sum as well.
#include <algorithm>

#include "lower/jax_to_onnx/arithmetic/bitwise.h"
#include "lower/jax_to_onnx/lib/wide_integers.h"
#include "lower/jax_to_onnx/reductions/reduction.h"

namespace sardonyx::jax_to_onnx {

const Reduction* find_reduction(std::string_view primitive) {
  static constexpr Reduction kAll[] = {
      {"add", "ReduceSum", "Add", "Add", Identity::kZero},  {"mul", "ReduceProd", "Mul", "Mul", Identity::kOne},
      {"max", "ReduceMax", "Max", "Or", Identity::kLeast},  {"min", "ReduceMin", "Min", "And", Identity::kGreatest},
      {"and", "", "BitwiseAnd", "And", Identity::kAllBits}, {"or", "", "BitwiseOr", "Or", Identity::kZero},
      {"xor", "", "BitwiseXor", "Xor", Identity::kZero},
  };
  auto found = std::ranges::find(kAll, primitive, &Reduction::primitive);
  return found == std::end(kAll) ? nullptr : found;
}

Value* combine(Lowering& ctx, const Reduction& r, Value* x, Value* y) {
  return ctx.via(x->dtype() == DType::kBool ? r.bool_op : r.op, {x, y});
}

namespace {

// Reduces an axis whose size is known only at run time, element by element. The axis remains, with size 1.
Value* scan_axis(Lowering& ctx, const Reduction& r, Value* x, int64_t axis) {
  std::vector<Dim> row(x->type()->dims().begin(), x->type()->dims().end());
  row.erase(row.begin() + axis);
  const Type* type = ctx.b.types().tensor(x->dtype(), row);
  Graph& body = ctx.make_body("body", [&](Lowering& inside) {
    Value* so_far = inside.b.graph().add_input({}, type);
    Value* next = inside.b.graph().add_input({}, type);
    inside.b.graph().add_output(*combine(inside, r, so_far, next), {}, type);
  });
  Value* inputs[] = {ctx.expand(identity_element(ctx, r, x->dtype()), row), x};
  Value* result = ctx.b.Scan(inputs, body, {.num_scan_inputs = 1, .scan_input_axes = {axis}}).result();
  return ctx.unsqueeze(result, std::vector<int64_t>{axis});
}

// Reduces an axis by combining its upper half with its lower half. The axis remains, with size 1.
Value* fold_axis(Lowering& ctx, const Reduction& r, Value* x, int64_t axis) {
  Dim size = x->type()->dim(static_cast<size_t>(axis));
  if (!size.is_int()) return scan_axis(ctx, r, x, axis);
  if (size.value() == 0) {
    std::vector<Dim> dims(x->type()->dims().begin(), x->type()->dims().end());
    dims[static_cast<size_t>(axis)] = Dim::of(1);
    return ctx.expand(identity_element(ctx, r, x->dtype()), dims);
  }
  auto part = [&](Value* v, int64_t from, int64_t to) { return ctx.slice(v, axis, Dim::of(from), Dim::of(to)); };
  for (int64_t n = size.value(); n > 1;) {
    int64_t half = n / 2;
    Value* folded = combine(ctx, r, part(x, 0, half), part(x, half, 2 * half));
    if (n % 2 == 1) {
      Value* pieces[] = {folded, part(x, n - 1, n)};
      folded = ctx.concat(pieces, axis);
    }
    x = folded;
    n = half + n % 2;
  }
  return x;
}

}  // namespace

Value* reduce_with(Lowering& ctx, const Reduction& r, Value* x, std::span<const int64_t> axes) {
  if (axes.empty()) return x;
  if (x->dtype() == DType::kBool) {
    if (r.bool_op == "And") return reduce(ctx, "ReduceMin", x, axes);
    if (r.bool_op == "Or") return reduce(ctx, "ReduceMax", x, axes);
    Value* sum = ctx.b.reduce("ReduceSum", ctx.cast(x, DType::kI32), std::vector<int64_t>(axes.begin(), axes.end()), false);
    return ctx.b.Equal(ctx.b.Mod(sum, ctx.b.scalar_int(DType::kI32, 2)), ctx.b.scalar_int(DType::kI32, 1));
  }
  // u64 compared as i64 has the wrong order; flipping the highest bit corrects it.
  if (x->dtype() == DType::kU64 && (r.op == "Max" || r.op == "Min")) {
    return from_ordered_i64(ctx, reduce(ctx, r.reduce_op, to_ordered_i64(ctx, x), axes));
  }
  const DType wide = r.reduce_op.empty() ? DType::kUndefined : kernel_dtype(ctx, {r.reduce_op}, x->dtype());
  // Integer products only wrap if they are computed one at a time.
  const bool is_lost = r.op == "Mul" && is_wrong(ctx, r.reduce_op, wide);
  if (wide != DType::kUndefined && !is_lost) return reduce(ctx, r.reduce_op, x, axes);
  for (int64_t axis : axes) x = fold_axis(ctx, r, x, axis);
  return ctx.squeeze(x, axes);
}

namespace {

// Whether operand 0 and the values that it comes from, through equations that add no node, have no other
// users.
bool is_only_user(const Lowering& ctx) {
  for (const Value* v = ctx.node.input(0); v->has_one_use();) {
    const Node* n = v->def();
    if (n == nullptr) return false;
    std::string_view op = n->op().name;
    bool adds_nothing = op == "stop_gradient" || op == "copy" || op == "div" || op == "max" || op == "min" || op == "reshape" ||
                        op == "broadcast_in_dim";
    if (!adds_nothing) return true;
    v = n->input(op == "max" && n->input(0)->is_constant() ? 1 : 0);
  }
  return false;
}

// The axes of a Reduce* node, none negative; nullopt if unknown.
std::optional<std::vector<int64_t>> reduced_axes(const Node& n) {
  std::optional<std::vector<int64_t>> axes = n.attr_ints("axes");
  if (n.input(1) != nullptr && n.input(1)->is_constant()) axes = n.input(1)->constant()->to_ints();
  if (!axes || !n.input(0)->ranked()) return {};
  for (int64_t& axis : *axes) axis += axis < 0 ? static_cast<int64_t>(n.input(0)->type()->rank()) : 0;
  std::ranges::sort(*axes);
  return axes;
}

const Node* reduction_node(const Value* x) {
  const Node* n = x->def();
  return n != nullptr && n->op().name.starts_with("Reduce") ? n : nullptr;
}

bool keeps_axes(const Node& n) { return n.attr_int("keepdims", 1) != 0; }

}  // namespace

Value* insert_axes(Lowering& ctx, Value* x, std::span<const int64_t> axes) {
  if (axes.empty()) return x;
  const Node* n = reduction_node(x);
  auto reduced = n != nullptr && !keeps_axes(*n) ? reduced_axes(*n) : std::nullopt;
  if (reduced && std::ranges::equal(*reduced, axes) && is_only_user(ctx))
    return ctx.b.reduce(n->op().name, n->input(0), reduced, /*keepdims=*/true);
  return ctx.unsqueeze(x, axes);
}

Value* as_mean(Lowering& ctx, Value* sum, double count) {
  const Node* n = reduction_node(sum);
  if (n == nullptr || !n->is("ReduceSum") || !is_float(sum->dtype())) return nullptr;
  auto axes = reduced_axes(*n);
  if (!axes || !is_only_user(ctx)) return nullptr;
  double size = 1;
  for (int64_t axis : *axes) {
    Dim d = n->input(0)->type()->dim(static_cast<size_t>(axis));
    if (!d.is_int()) return nullptr;
    size *= static_cast<double>(d.value());
  }
  return size == count ? ctx.b.reduce("ReduceMean", n->input(0), axes, keeps_axes(*n)) : nullptr;
}

Value* to_ordered_i64(Lowering& ctx, Value* x) {
  Value* top = ctx.b.scalar_int(DType::kI64, std::numeric_limits<int64_t>::min());
  return bitwise(ctx.b, "BitwiseXor", ctx.cast(x, DType::kI64), top);
}

Value* from_ordered_i64(Lowering& ctx, Value* x) {
  Value* top = ctx.b.scalar_int(DType::kI64, std::numeric_limits<int64_t>::min());
  return ctx.cast(bitwise(ctx.b, "BitwiseXor", x, top), DType::kU64);
}

Value* identity_element(Lowering& ctx, const Reduction& r, DType t) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (t == DType::kBool) return ctx.b.scalar_int(t, r.bool_op == "And" ? 1 : 0);
  switch (r.identity) {
    case Identity::kZero: return ctx.b.scalar(t, 0);
    case Identity::kOne: return ctx.b.scalar(t, 1);
    case Identity::kAllBits: return ctx.b.scalar_int(t, -1);
    case Identity::kLeast:
      if (is_float(t)) return ctx.b.scalar(t, -kInfinity);
      return ctx.b.scalar_int(t, is_unsigned(t) ? 0 : std::numeric_limits<int64_t>::min() >> (64 - bit_width(t)));
    case Identity::kGreatest:
      if (is_float(t)) return ctx.b.scalar(t, kInfinity);
      if (t == DType::kU64) return ctx.b.scalar_int(t, -1);
      return ctx.b.scalar_int(t, std::numeric_limits<int64_t>::max() >> (64 - bit_width(t) + (is_unsigned(t) ? -1 : 0)));
  }
  return nullptr;
}

namespace {

std::vector<Value*> reduce_axes(Lowering& ctx, std::string_view primitive) {
  if (is_complex(ctx.in_dtype(0)) && primitive != "add") ctx.unsupported("no complex arithmetic");
  return {reduce_with(ctx, *find_reduction(primitive), ctx.in(0), ctx.ints_param("axes"))};
}

// Whether a reduce_sum or cumulative sum uses v, perhaps through a conversion.
bool is_summed(const Value& v) {
  for (const Use& u : v.uses()) {
    if (u.owner->is("reduce_sum") || (u.owner->is("convert_element_type") && is_summed(*u.owner->result()))) return true;
  }
  return false;
}

// Whether v is a logarithm, perhaps behind primitives that move elements.
bool is_logarithm(const Value* v) {
  const Node* n = v->def();
  while (n != nullptr && (n->is("reshape") || n->is("broadcast_in_dim") || n->is("stop_gradient"))) n = n->input(0)->def();
  return n != nullptr && n->is("log");
}

// Whether all uses of the maximum of x, through moves and checks for infinity, are differences x - max whose
// exponentials are summed, or additions to the logarithm of that sum.
bool only_scales_exponentials(const Value& maximum, const Value& x) {
  std::vector<const Value*> todo{&maximum};
  bool is_used = false;
  while (!todo.empty()) {
    const Value* v = todo.back();
    todo.pop_back();
    for (const Use& u : v->uses()) {
      const Node& n = *u.owner;
      if (n.is_boundary()) return false;
      std::string_view op = n.op().name;
      if (op == "stop_gradient" || op == "broadcast_in_dim" || op == "reshape" || op == "is_finite" || op == "select_n" ||
          op == "copy" || op == "squeeze") {
        todo.push_back(n.result());
      } else if (op == "max" && splat_value(n.input(1 - n.operand_index(u)))) {
        todo.push_back(n.result());
      } else if (op == "sub" && n.input(1) == v && n.input(0) == &x) {
        // log_softmax subtracts the logarithm of the sum from the same difference.
        for (const Use& d : n.result()->uses()) {
          bool is_summed_up = d.owner->is("exp") && is_summed(*d.owner->result());
          if (!is_summed_up && !(d.owner->is("sub") && is_logarithm(d.owner->input(1)))) return false;
          is_used = is_used || is_summed_up;
        }
      } else if (op == "add") {
        if (!is_logarithm(n.input(1 - n.operand_index(u)))) return false;
      } else {
        return false;
      }
    }
  }
  return is_used;
}

std::vector<Value*> reduce_to_extreme(Lowering& ctx, std::string_view primitive) {
  Value* result = reduce_axes(ctx, primitive)[0];
  auto axes = ctx.ints_param("axes");
  if (!is_float(ctx.out_dtype()) || axes.empty() || only_scales_exponentials(*ctx.node.result(), *ctx.node.input(0)))
    return {result};
  Value* any_nan = reduce(ctx, "ReduceMax", ctx.b.IsNaN(ctx.in(0)), axes);
  return {ctx.select(any_nan, ctx.b.scalar(ctx.out_dtype(), std::numeric_limits<double>::quiet_NaN()), result)};
}

}  // namespace

std::vector<Value*> lower_reduce_sum(Lowering& ctx) { return reduce_axes(ctx, "add"); }
std::vector<Value*> lower_reduce_prod(Lowering& ctx) { return reduce_axes(ctx, "mul"); }
std::vector<Value*> lower_reduce_max(Lowering& ctx) { return reduce_to_extreme(ctx, "max"); }
std::vector<Value*> lower_reduce_min(Lowering& ctx) { return reduce_to_extreme(ctx, "min"); }
std::vector<Value*> lower_reduce_and(Lowering& ctx) { return reduce_axes(ctx, "and"); }
std::vector<Value*> lower_reduce_or(Lowering& ctx) { return reduce_axes(ctx, "or"); }
std::vector<Value*> lower_reduce_xor(Lowering& ctx) { return reduce_axes(ctx, "xor"); }

// A Scan over rows with a Scan over elements inside; a single row needs no outer Scan.
std::vector<Value*> fold_rows(Lowering& ctx, const Graph& jaxpr, std::span<Value* const> operands,
                              std::span<Value* const> inits, Value* counts) {
  const size_t n = operands.size();
  std::vector<Value*> xs(operands.begin(), operands.end());
  if (counts != nullptr) xs.push_back(counts);
  Types& types = ctx.b.types();
  auto scan_elements = [&](Lowering& in, std::span<Value* const> rows) {
    Graph& body = in.make_body("body", [&](Lowering& inside) {
      std::vector<Value*> args;
      for (size_t i = 0; i < 2 * n; ++i) {
        const Type* rows_type = xs[i % n]->type();  // a complex element is a pair
        args.push_back(inside.b.graph().add_input({}, types.with_dims(rows_type, rows_type->dims().subspan(2))));
      }
      std::vector<Value*> folded = inside.inline_body(jaxpr, args);
      if (counts != nullptr) {
        Value* does_count = inside.b.graph().add_input({}, types.scalar(DType::kBool));
        for (size_t i = 0; i < n; ++i) folded[i] = inside.b.Where(does_count, folded[i], args[i]);
      }
      for (Value* result : folded) inside.b.graph().add_output(*result, {}, result->type());
    });
    std::vector<Value*> inputs(inits.begin(), inits.end());
    inputs.insert(inputs.end(), rows.begin(), rows.end());
    std::vector<Value*> results;
    for (Value& v : in.b.Scan(inputs, body, {.num_scan_inputs = std::ssize(xs)}).results()) results.push_back(&v);
    return results;
  };
  std::vector<Value*> results;
  if (xs[0]->type()->dim(0).is(1)) {
    std::vector<Value*> rows;
    for (Value* x : xs) rows.push_back(ctx.squeeze(x, std::vector<int64_t>{0}));
    for (Value* v : scan_elements(ctx, rows)) results.push_back(ctx.unsqueeze(v, std::vector<int64_t>{0}));
    return results;
  }
  Graph& body = ctx.make_body("body", [&](Lowering& inside) {
    std::vector<Value*> rows;
    for (Value* x : xs)
      rows.push_back(inside.b.graph().add_input({}, types.with_dims(x->type(), x->type()->dims().subspan(1))));
    for (Value* result : scan_elements(inside, rows)) inside.b.graph().add_output(*result, {}, result->type());
  });
  for (Value& v : ctx.b.Scan(xs, body, {.num_scan_inputs = std::ssize(xs)}).results()) results.push_back(&v);
  return results;
}

// reduce[jaxpr, dimensions] xs inits   =>   init combined with the reduction, if the body is one known primitive;
//                                           else a Scan
std::vector<Value*> lower_reduce(Lowering& ctx) {
  auto axes = ctx.ints_param("dimensions");
  size_t n = ctx.num_inputs() / 2;
  std::vector<Value*> inputs;
  for (size_t i = 0; i < 2 * n; ++i) inputs.push_back(ctx.in(i));
  const Reduction* r = n == 1 ? find_reduction_of_body(ctx) : nullptr;
  if (r != nullptr && (r->op == "Add" || !is_complex(ctx.in_dtype(0))))
    return {combine(ctx, *r, reduce_with(ctx, *r, inputs[0], axes), inputs[1])};
  std::vector<int64_t> perm;
  std::vector<Dim> kept, gone;
  for (int64_t axis = 0; axis < static_cast<int64_t>(ctx.in_rank(0)); ++axis) {
    if (std::ranges::find(axes, axis) != axes.end()) continue;
    perm.push_back(axis);
    kept.push_back(ctx.in_dims(0)[static_cast<size_t>(axis)]);
  }
  for (int64_t axis : axes) gone.push_back(ctx.in_dims(0)[static_cast<size_t>(axis)]);
  perm.insert(perm.end(), axes.begin(), axes.end());
  std::vector<Value*> xs;
  for (size_t i = 0; i < n; ++i) {
    std::vector<int64_t> order = perm;
    std::vector<Dim> rows{ctx.b.dims().product(kept), ctx.b.dims().product(gone)};
    if (is_complex(ctx.in_dtype(i))) {
      order.push_back(static_cast<int64_t>(order.size()));
      rows.push_back(Dim::of(2));
    }
    xs.push_back(ctx.reshape(ctx.transpose(inputs[i], order), rows));
  }
  auto results = fold_rows(ctx, *ctx.node.bodies()[0].graph, xs, std::span(inputs).subspan(n));
  for (size_t i = 0; i < n; ++i) results[i] = ctx.reshape_like(results[i], ctx.stored_out_type(i));
  return results;
}

const Reduction* find_reduction_of_body(const Lowering& ctx) {
  const Reduction* r = nullptr;
  if (ctx.node.bodies().size() == 1) {
    const Graph& body = *ctx.node.bodies()[0].graph;
    const Node* only = body.first();
    bool is_simple = body.num_nodes() == 1 && body.inputs().size() == 2 && body.outputs().size() == 1 &&
                     only->num_inputs() == 2 && body.output(0) == only->result();
    // The operands are the parameters in either order: all known reductions commute.
    is_simple = is_simple && ((only->input(0) == body.input(0) && only->input(1) == body.input(1)) ||
                              (only->input(0) == body.input(1) && only->input(1) == body.input(0)));
    if (is_simple) r = find_reduction(only->op().name);
  }
  return r;
}

}  // namespace sardonyx::jax_to_onnx
