// cond[branches] index, operands   =>   If(index > 0) { branches[1] } else { branches[0] }
//
// More than two branches nest. JAX clamps the index to the range of branches, which the comparisons do as
// well. A constant index selects its branch.
#include <algorithm>

#include "sardonyx/lower.h"

namespace sardonyx::jax_to_onnx {
namespace {

// The bool that an index of two branches was converted from, if the graph still shows it.
Value* truth_behind(Value* index) {
  Node* def = index->def();
  return def != nullptr && def->is("Cast") && def->input(0)->dtype() == DType::kBool ? def->input(0) : nullptr;
}

// Selects one of `branches`; the first belongs to index `first`.
std::vector<Value*> choose(Lowering& ctx, std::span<const Body> branches, int64_t first) {
  if (branches.size() == 1) {
    std::vector<Value*> args;
    for (size_t k = 1; k < ctx.num_inputs(); ++k) args.push_back(ctx.in(k));
    return ctx.inline_body(*branches[0].graph, args);
  }
  Value* index = ctx.in(0);
  Value* beyond = first == 0 && branches.size() == 2 ? truth_behind(index) : nullptr;
  if (beyond == nullptr) beyond = ctx.b.Greater(index, ctx.b.scalar_int(index->dtype(), first));
  auto body = [&](std::string_view name, std::span<const Body> some, int64_t offset) {
    return Body{ctx.b.model().name(name), &ctx.make_body(name, [&](Lowering& inside) {
                  const std::vector<Value*> results = choose(inside, some, offset);
                  for (size_t k = 0; k < results.size(); ++k)
                    inside.b.graph().add_output(*results[k], {}, inside.stored_out_type(k));
                })};
  };
  const Body bodies[] = {body("then_branch", branches.subspan(1), first + 1), body("else_branch", branches.first(1), first)};
  Value* inputs[] = {beyond};
  Node& node = ctx.b.node("If", inputs, ctx.node.num_results(), {}, {}, bodies);
  std::vector<Value*> results;
  for (Value& v : node.results()) results.push_back(&v);
  return results;
}

}  // namespace

std::vector<Value*> lower_cond(Lowering& ctx) {
  if (ctx.node.num_results() == 0) return {};
  std::vector<Body> branches;
  for (const Body& b : ctx.node.bodies()) {
    if (b.name.view() == "branches") branches.push_back(b);
  }
  if (branches.empty()) ctx.unsupported("the equation has no branches");
  if (const TensorPtr& index = ctx.in(0)->constant()) {
    const auto taken = std::clamp<int64_t>(index->as_int(0), 0, static_cast<int64_t>(branches.size()) - 1);
    return choose(ctx, {&branches[static_cast<size_t>(taken)], 1}, taken);
  }
  return choose(ctx, branches, 0);
}

}  // namespace sardonyx::jax_to_onnx
