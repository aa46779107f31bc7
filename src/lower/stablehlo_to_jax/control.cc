// while              =>   while[cond_jaxpr, body_jaxpr], closed
// if, case           =>   cond[branches]
// func.call, composite   =>   the function's body, in line
// optimization_barrier   =>   its operands
// partition_id, replica_id   =>   0: there is one device
#include <fmt/format.h>

#include <algorithm>

#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {
namespace {

// Refuses a loop whose carried values change their types.
void check_carry(const Lowering& ctx, const Graph& body, std::span<const Type* const> types) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (i >= body.outputs().size() || body.output(i)->type() != types[i])
      ctx.unsupported(fmt::format("the carried value {} changes its size", i));
  }
}

}  // namespace

Values lower_while(Lowering& ctx) {
  std::vector<const Type*> types;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) types.push_back(ctx.in_type(i));
  const Closed cond = ctx.close(ctx.body("cond"), types, "cond_jaxpr"), body = ctx.close(ctx.body("body"), types, "body_jaxpr");
  check_carry(ctx, *body.graph, types);
  Values operands = cond.consts;
  operands.insert(operands.end(), body.consts.begin(), body.consts.end());
  for (Value* v : ctx.operands()) operands.push_back(v);
  Model& m = ctx.b.model();
  const Body bodies[] = {{m.name("body_jaxpr"), body.graph}, {m.name("cond_jaxpr"), cond.graph}};
  return ctx.make("while", operands, types,
                  {attr("body_nconsts", static_cast<int64_t>(body.consts.size())),
                   attr("cond_nconsts", static_cast<int64_t>(cond.consts.size()))},
                  bodies);
}

namespace {

// All branches take the values from outside that any of them uses.
Values branched(Lowering& ctx, Value* index, std::span<const Graph* const> branches) {
  std::vector<const Value*> outer;
  for (const Graph* g : branches) {
    for (const Value* v : captures(*g)) {
      if (std::ranges::find(outer, v) == outer.end()) outer.push_back(v);
    }
  }
  Values operands{index};
  std::vector<Body> bodies;
  for (const Graph* g : branches) {
    const Closed closed = ctx.close(*g, {}, "branches", outer);
    if (bodies.empty()) operands.insert(operands.end(), closed.consts.begin(), closed.consts.end());
    bodies.push_back({ctx.b.model().name("branches"), closed.graph, true});
  }
  std::vector<const Type*> types;
  for (size_t i = 0; i < ctx.node.num_results(); ++i) {
    types.push_back(ctx.out_type(i, bodies.front().graph->output(i)->type()->dims()));
    for (const Body& b : bodies) {
      if (b.graph->output(i)->type() != types[i])
        ctx.unsupported(fmt::format("branches disagree about the size of result {}", i));
    }
  }
  return ctx.make("cond", operands, types, {}, bodies);
}

}  // namespace

Values lower_if(Lowering& ctx) {
  const Graph* branches[] = {&ctx.body("false_branch"), &ctx.body("true_branch")};
  return branched(ctx, ctx.cast(ctx.in(0), DType::kI32), branches);
}

namespace {

// Whether v is from 0 to `last`: a bool as a number, or clamped to that.
bool is_index_up_to(const Value& v, int64_t last) {
  const Node* n = v.def();
  if (n == nullptr) return false;
  if (n->is("convert_element_type")) return n->input(0)->dtype() == DType::kBool;
  const auto is = [&](size_t i, int64_t bound) {
    return n->input(i)->is_constant() && n->input(i)->constant()->to_ints(1) == Ints{bound};
  };
  return n->is("clamp") && is(0, 0) && is(2, last);
}

}  // namespace

// An index outside of the branches takes the last one.
Values lower_case(Lowering& ctx) {
  std::vector<const Graph*> branches;
  for (const Body& b : ctx.node.bodies()) branches.push_back(b.graph);
  if (branches.empty()) throw Error(ErrorCode::kInvalidModel, "case has no branch");
  if (branches.size() == 1) return ctx.inline_here(*branches[0], {});
  Value* index = ctx.in(0);
  const int64_t count = static_cast<int64_t>(branches.size());
  if (is_index_up_to(*index, count - 1)) return branched(ctx, index, branches);
  Value* last = ctx.integer(index->type(), count - 1);
  Value* below = ctx.compare("lt", index, ctx.integer(index->type(), 0));
  return branched(ctx, ctx.map("min", {ctx.select(below, last, index), last}), branches);
}

Values lower_call(Lowering& ctx) { return ctx.context().call(ctx.string_attr("callee"), ctx, ctx.operands()); }

// A composite that is an operation of CHLO is lowered as that one.
Values lower_composite(Lowering& ctx) {
  if (ctx.string_attr("name") == "chlo.top_k") return top_k(ctx, Dim::of(ctx.int_field("composite_attributes", "k")));
  return ctx.context().call(ctx.string_attr("decomposition"), ctx, ctx.operands());
}

Values lower_optimization_barrier(Lowering& ctx) { return ctx.operands(); }
Values lower_device(Lowering& ctx) { return {ctx.b.scalar_int(ctx.out_dtype(), 0)}; }

}  // namespace sardonyx::stablehlo_to_jax
