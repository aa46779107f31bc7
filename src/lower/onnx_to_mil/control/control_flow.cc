// If, Loop, Scan: blocks of cond and while_loop.
//
//   Loop(M, c, v...)    =>   i = 0; while_loop (i < M and c) { i + 1, c', v'..., buffers with row i replaced }
//   Scan(v..., xs...)   =>   the same; the body gets row i of each xs
//
// A stacked result is allocated for the maximum number of iterations; if the loop ends early, a slice removes
// the rest.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lower/onnx_to_mil/control/counted_loop.h"

namespace sardonyx::onnx_to_mil {
namespace {

// A block returns results of its own ops, or its inputs unchanged.
void add_results(MilBuilder& block, std::span<Value* const> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    Value* v = results[i];
    const bool own = v->graph() == &block.graph() && !v->is_constant();
    block.graph().add_output(own ? *v : *block.identity(v), fmt::format("result_{}", i));
  }
}

const Graph& body_of(const Lowering& ctx, std::string_view name) {
  const Graph* g = ctx.node.body(name);
  if (g == nullptr) throw Error(ErrorCode::kInvalidModel, fmt::format("{} has no {}", ctx.node.op().name, name));
  return *g;
}

std::vector<Value*> results_of(Node& n, size_t first, size_t count) {
  std::vector<Value*> values;
  for (size_t i = 0; i < count; ++i) values.push_back(n.result(first + i));
  return values;
}

}  // namespace

namespace {

struct Branch {
  MilBuilder b;
  std::vector<Value*> results;
};

// Gives result i of both branches the same rank. Refuses different sizes, which coremltools cannot load.
void agree(Lowering& ctx, std::vector<Branch>& branches, size_t i) {
  const auto type = [&](size_t k) { return branches[k].results[i]->type(); };
  for (size_t k : {0, 1}) {
    if (type(k) == nullptr || !type(k)->is_tensor()) ctx.unsupported("branches that return something other than tensors");
  }
  if (!type(0)->ranked() || !type(1)->ranked()) return;
  const auto differ = [&] {
    ctx.unsupported(fmt::format("branches that return {} and {}: in Core ML, both have the same sizes",
                                ctx.types().to_string(type(0)), ctx.types().to_string(type(1))));
  };
  if (type(0)->rank() != type(1)->rank()) {  // for example a scalar and a vector of one element
    const size_t lower = type(0)->rank() < type(1)->rank() ? 0 : 1;
    if (type(lower)->static_size() != 1 || type(1 - lower)->static_size() != 1) differ();
    Value*& v = branches[lower].results[i];
    const std::vector<int64_t> ones(type(1 - lower)->rank(), 1);
    v = branches[lower].b.reshape(v, ones);
  }
  for (size_t d = 0; d < type(0)->rank(); ++d) {
    const Dim a = type(0)->dim(d), c = type(1)->dim(d);
    if (a.is_int() && c.is_int() && a.value() != c.value()) differ();
  }
}

}  // namespace

std::vector<Value*> lower_If(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* test = ctx.in(0);
  if (test->type()->rank() != 0) test = b.squeeze(test);
  std::vector<Branch> branches;
  for (std::string_view name : {"then_branch", "else_branch"}) {
    Branch& branch = branches.emplace_back(Branch{ctx.new_body(name), {}});
    branch.results = ctx.inline_body(body_of(ctx, name), {}, branch.b);
  }
  const size_t n = ctx.node.num_results();
  for (size_t i = 0; i < n; ++i) agree(ctx, branches, i);
  for (Branch& branch : branches) add_results(branch.b, branch.results);
  return results_of(b.cond(test, branches[0].b.graph(), branches[1].b.graph(), n), 0, n);
}

namespace {

constexpr std::string_view kCounter = "i";

// A buffer of zeros for the rows of all iterations. Bools are stored as i32.
Value* buffer(Lowering& ctx, Value* most, const Type* row) {
  if (most == nullptr) ctx.unsupported("results stacked over an unbounded number of iterations");
  std::vector<Value*> sizes{ctx.unsqueeze(most, std::vector<int64_t>{0})};
  if (row->rank() > 0) sizes.push_back(ctx.shape(row->dims()));
  const DType d = row->dtype() == DType::kBool ? DType::kI32 : row->dtype();
  const TensorPtr zero = Tensor::full(d, {}, 0);
  if (most->is_constant() && row->is_static()) {
    std::vector<int64_t> shape{most->constant()->as_int(0)};
    for (Dim size : row->dims()) shape.push_back(size.value());
    return ctx.b.fill(shape, {.value = zero});
  }
  return ctx.b.fill(ctx.join(sizes), {.value = zero});
}

}  // namespace

std::vector<Value*> run(Lowering& ctx, const Counted& loop) {
  MilBuilder& b = ctx.b;
  const bool tests = loop.condition != nullptr;
  std::vector<Value*> vars{b.i32(0)};
  if (tests) vars.push_back(loop.condition);
  const size_t first = vars.size();
  vars.insert(vars.end(), loop.vars.begin(), loop.vars.end());
  for (size_t k = 0; k < loop.stacked; ++k) vars.push_back(buffer(ctx, loop.most, loop.rows[k]));

  const auto add_inputs = [&](Graph& g) {
    std::vector<Value*> inputs;
    for (size_t k = 0; k < vars.size(); ++k) {
      const bool own = k >= first && k < first + loop.types.size();
      const Type* t = own ? loop.types[k - first] : vars[k]->type();
      inputs.push_back(g.add_input(k == 0 ? std::string(kCounter) : fmt::format("var_{}", k), t));
    }
    return inputs;
  };
  MilBuilder test = ctx.new_body("cond"), body = ctx.new_body("body");
  {
    MilBuilder& block = test;
    const std::vector<Value*> now = add_inputs(block.graph());
    Value* goes_on = loop.most != nullptr ? block.less(now[0], loop.most) : nullptr;
    if (tests) goes_on = goes_on != nullptr ? block.logical_and(goes_on, now[1]) : block.identity(now[1]);
    SX_CHECK(goes_on != nullptr, "a loop without an end");
    block.graph().add_output(*goes_on, "goes_on");
  }
  {
    MilBuilder& block = body;
    const std::vector<Value*> now = add_inputs(block.graph());
    const std::span<Value* const> own = std::span(now).subspan(first, loop.vars.size());
    std::vector<Value*> next = loop.step(block, now[0], own);
    const size_t given = next.size() - loop.stacked;
    Value* index = block.expand_dims(now[0], {.axes = {0}});
    for (size_t k = 0; k < loop.stacked; ++k) {
      Value* row = next[given + k];
      if (row->dtype() == DType::kBool) row = block.cast(row, {.dtype = DType::kI32});
      row = block.expand_dims(row, {.axes = {0}});
      next[given + k] = block.scatter(now[first + loop.vars.size() + k], index, row, {.axis = 0, .mode = "update"});
    }
    next.insert(next.begin(), block.add(now[0], 1));
    add_results(block, next);
  }
  Node& made = b.while_loop(vars, test.graph(), body.graph());
  std::vector<Value*> results = results_of(made, first, loop.vars.size() + loop.stacked);
  for (size_t k = 0; k < loop.stacked; ++k) {
    Value*& all = results[loop.vars.size() + k];
    if (tests) {  // the loop may have ended early
      std::vector<Value*> end{ctx.unsqueeze(made.result(0), std::vector<int64_t>{0})};
      const size_t rank = loop.rows[k]->rank() + 1;
      if (rank > 1) end.push_back(b.i32s(std::vector<int64_t>(rank - 1, 0)));
      std::vector<bool> whole(rank, true);
      whole[0] = false;
      all = b.slice_by_index(all, std::vector<int64_t>(rank, 0), ctx.join(end), {.end_mask = whole});
    }
    if (loop.rows[k]->dtype() == DType::kBool) all = b.not_equal(all, b.i32(0));
  }
  return results;
}

namespace {

// The type in the tables of the MIL model.
const Type* row_type(Lowering& ctx, const Graph& body, size_t i) {
  const Type* t = ctx.stored_type(body.output(i)->type());
  if (t == nullptr || !t->is_tensor() || !t->ranked()) ctx.unsupported("stacked results whose shape is not known");
  return t;
}

// Reshapes to the rank that the body declares: some exporters write [1] for a scalar.
Value* with_rank_of(Lowering& ctx, MilBuilder& block, Value* v, const Value& wanted) {
  const Type* t = ctx.stored_type(wanted.type());
  return t != nullptr && t->ranked() && t->rank() == 1 ? block.expand_dims(v, {.axes = {0}}) : v;
}

// The type of a variable in all iterations. Core ML has no empty tensors, with which a growing list begins.
const Type* loop_type(Lowering& ctx, const Value& begin, const Value& in_body) {
  const Type *first = begin.type(), *t = ctx.stored_type(in_body.type());
  if (t == nullptr || !t->ranked() || !first->ranked() || t->rank() != first->rank()) return first;
  for (size_t d = 0; d < t->rank(); ++d) {
    if (first->dim(d).is(0) && !t->dim(d).is(0)) ctx.unsupported("a variable that grows from nothing");
  }
  return ctx.types().join(first, t);
}

Value* as_scalar(MilBuilder& block, Value* v) { return v->ranked() && v->type()->rank() != 0 ? block.squeeze(v) : v; }

}  // namespace

std::vector<Value*> lower_Loop(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const Graph& body = body_of(ctx, "body");
  const size_t n = ctx.node.num_inputs() < 2 ? 0 : ctx.node.num_inputs() - 2;
  if (body.inputs().size() != n + 2 || body.outputs().size() < n + 1)
    throw Error(ErrorCode::kInvalidModel, fmt::format("the body has {} inputs and {} results for {} variables",
                                                      body.inputs().size(), body.outputs().size(), n));
  Counted loop;
  const TensorPtr most = ctx.constant(0);
  const bool unbounded = !ctx.has(0) || (most != nullptr && most->as_int(0) >= std::numeric_limits<int32_t>::max());
  if (!unbounded) loop.most = as_scalar(b, most != nullptr ? b.i32(static_cast<int32_t>(most->as_int(0))) : ctx.in(0));
  // A condition that is always true is dropped.
  const Value& next = *body.output(0);
  const bool stays = (next.is_constant() && next.constant()->as_int(0) != 0) || &next == body.input(1) ||
                     (next.def() != nullptr && next.def()->is("Identity") && next.def()->input(0) == body.input(1));
  const bool is_true = !ctx.has(1) || ctx.splat_value(1) == 1.0;
  const bool tests = !(stays && is_true);
  if (!tests && loop.most == nullptr) ctx.unsupported("a loop that never ends");
  if (tests) loop.condition = ctx.has(1) ? as_scalar(b, ctx.in(1)) : b.scalar_int(DType::kBool, 1);
  for (size_t i = 0; i < n; ++i) {
    Value* v = ctx.in(i + 2);
    if (v->type() == nullptr || !v->type()->is_tensor()) ctx.unsupported("variables that are not tensors");
    loop.vars.push_back(v);
    loop.types.push_back(loop_type(ctx, *v, *body.input(i + 2)));
  }
  loop.stacked = body.outputs().size() - n - 1;
  for (size_t k = 0; k < loop.stacked; ++k) loop.rows.push_back(row_type(ctx, body, n + 1 + k));
  loop.step = [&](MilBuilder& block, Value* i, std::span<Value* const> vars) {
    std::vector<Value*> inputs{with_rank_of(ctx, block, i, *body.input(0)),
                               with_rank_of(ctx, block, block.scalar_int(DType::kBool, 1), *body.input(1))};
    inputs.insert(inputs.end(), vars.begin(), vars.end());
    std::vector<Value*> results = ctx.inline_body(body, inputs, block);
    if (tests) {
      results[0] = as_scalar(block, results[0]);
    } else {
      results.erase(results.begin());
    }
    return results;
  };
  return run(ctx, loop);
}

std::vector<Value*> lower_Scan(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  const Graph& body = body_of(ctx, "body");
  const size_t all = ctx.node.num_inputs(), scanned = static_cast<size_t>(ctx.int_attr("num_scan_inputs", 1));
  if (ctx.node.op().since_version < 9) ctx.unsupported("Scan of opset 8");
  if (scanned > all || scanned == 0 || body.inputs().size() != all || body.outputs().size() < all - scanned)
    throw Error(ErrorCode::kInvalidModel, "the body of Scan does not fit its operands");
  const size_t n = all - scanned, stacked = body.outputs().size() - n;
  const auto list = [&](std::string_view name, size_t count) {
    auto v = ctx.node.attr_ints(name).value_or(std::vector<int64_t>());
    v.resize(count);
    return v;
  };
  const auto axes = list("scan_input_axes", scanned), back = list("scan_input_directions", scanned),
             out_axes = list("scan_output_axes", stacked), out_back = list("scan_output_directions", stacked);
  Counted loop;
  std::vector<Value*> xs;
  for (size_t i = 0; i < n; ++i) loop.vars.push_back(ctx.in(i));
  for (size_t i = 0; i < scanned; ++i) xs.push_back(ctx.in(n + i));
  const size_t axis = from_front(axes[0], ctx.rank(n));
  const Dim length = xs[0]->type()->dim(axis);
  loop.most =
      length.is_int() ? b.i32(static_cast<int32_t>(length.value())) : b.squeeze(ctx.size_of(xs[0], axis), {.axes = {0}});
  loop.stacked = stacked;
  for (size_t k = 0; k < stacked; ++k) loop.rows.push_back(row_type(ctx, body, n + k));
  loop.step = [&](MilBuilder& block, Value* i, std::span<Value* const> vars) {
    std::vector<Value*> inputs(vars.begin(), vars.end());
    for (size_t k = 0; k < scanned; ++k) {
      Value* x = xs[k];
      const bool through = x->dtype() == DType::kBool && !ctx.takes("gather", DType::kBool);
      if (through) x = block.cast(x, {.dtype = DType::kI32});
      Value* at = i;
      if (back[k] != 0) at = block.sub(block.sub(loop.most, 1), i);
      Value* row = block.gather(x, at, {.axis = as_int(from_front(axes[k], x->type()->rank()))});
      inputs.push_back(through ? block.not_equal(row, block.i32(0)) : row);
    }
    return ctx.inline_body(body, inputs, block);
  };
  std::vector<Value*> results = run(ctx, loop);
  for (size_t k = 0; k < stacked; ++k) {
    Value*& v = results[n + k];
    if (out_back[k] != 0) v = ctx.via("reverse", v, [&](Value* x) { return b.reverse(x, {.axes = {0}}); });
    const size_t rank = v->type()->rank(), to = from_front(out_axes[k], rank);
    std::vector<int64_t> perm;
    for (size_t d = 0; d < rank; ++d) perm.push_back(as_int(d == to ? 0 : d < to ? d + 1 : d));
    v = ctx.via("transpose", v, [&](Value* x) { return ctx.transpose(x, perm); });
  }
  return results;
}

}  // namespace sardonyx::onnx_to_mil
