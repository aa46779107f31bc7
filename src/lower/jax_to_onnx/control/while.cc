// while[cond_jaxpr, body_jaxpr] constants, carry
//   =>   Loop(cond_jaxpr(carry), carry) { carry' = body_jaxpr(carry), cond_jaxpr(carry') }
//
// The constants of both jaxprs are captured. The condition is lowered twice: before the loop and at the end
// of its body.
//
// vmap gives conditions one bool per row. The loop continues while any is true, and only rows whose own
// condition is true change: a Where in the body selects their values, by the condition on the incoming carry.
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_while(Lowering& ctx) {
  const auto cond_consts = static_cast<size_t>(ctx.int_param("cond_nconsts"));
  const auto body_consts = static_cast<size_t>(ctx.int_param("body_nconsts"));
  const Graph* cond = ctx.node.body("cond_jaxpr");
  const Graph* body = ctx.node.body("body_jaxpr");
  if (cond == nullptr || body == nullptr) ctx.unsupported("the equation has no condition or no body");
  const size_t first_carry = cond_consts + body_consts;
  const size_t carries = ctx.num_inputs() - first_carry;
  if (carries == 0) return {};

  auto call = [&](Lowering& where, const Graph& jaxpr, size_t first_const, size_t consts, std::span<Value* const> carry) {
    std::vector<Value*> args;
    for (size_t i = 0; i < consts; ++i) args.push_back(ctx.in(first_const + i));
    args.insert(args.end(), carry.begin(), carry.end());
    return where.inline_body(jaxpr, args);
  };
  const size_t rows_rank = cond->output(0)->type()->rank();
  std::vector<int64_t> rows(rows_rank);
  for (size_t i = 0; i < rows_rank; ++i) rows[i] = static_cast<int64_t>(i);
  auto any = [&](Lowering& where, Value* v) {
    return rows.empty() ? v : where.cast(reduce(where, "ReduceMax", where.cast(v, DType::kU8), rows), DType::kBool);
  };
  // `next` for rows that continue, else `carry`.
  auto keep_finished = [&](Lowering& where, Value* going, Value* next, Value* carry) {
    std::vector<int64_t> behind;
    for (size_t i = rows_rank; i < carry->type()->rank(); ++i) behind.push_back(static_cast<int64_t>(i));
    return where.select(where.unsqueeze(going, behind), next, carry);
  };
  std::vector<Value*> init;
  for (size_t i = 0; i < carries; ++i) init.push_back(ctx.in(first_carry + i));
  Value* go_on = any(ctx, call(ctx, *cond, 0, cond_consts, init)[0]);

  Graph& loop = ctx.make_body("body", [&](Lowering& inside) {
    Graph& g = inside.b.graph();
    Types& types = inside.b.types();
    g.add_input({}, types.scalar(DType::kI64));
    g.add_input({}, types.scalar(DType::kBool));
    std::vector<Value*> carry;
    for (size_t i = 0; i < carries; ++i) carry.push_back(g.add_input({}, inside.stored_out_type(i)));
    std::vector<Value*> next = call(inside, *body, cond_consts, body_consts, carry);
    if (!rows.empty()) {
      Value* going = call(inside, *cond, 0, cond_consts, carry)[0];
      for (size_t i = 0; i < carries; ++i) next[i] = keep_finished(inside, going, next[i], carry[i]);
    }
    Value* again = any(inside, call(inside, *cond, 0, cond_consts, next)[0]);
    g.add_output(*again, {}, types.scalar(DType::kBool));
    for (size_t i = 0; i < carries; ++i) g.add_output(*next[i], {}, inside.stored_out_type(i));
  });
  std::vector<Value*> inputs{nullptr, go_on};
  inputs.insert(inputs.end(), init.begin(), init.end());
  const Body bodies[] = {{ctx.b.model().name("body"), &loop}};
  Node& node = ctx.b.node("Loop", inputs, carries, {}, {}, bodies);
  std::vector<Value*> results;
  for (Value& v : node.results()) results.push_back(&v);
  return results;
}

}  // namespace sardonyx::jax_to_onnx
