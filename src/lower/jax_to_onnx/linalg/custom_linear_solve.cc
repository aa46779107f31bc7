// custom_linear_solve[jaxprs, const_lengths] constants, b   =>   the solver's jaxpr, inlined
//
// This is what JAX runs when nothing is differentiated.
#include "lower/jax_to_onnx/params.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_custom_linear_solve(Lowering& ctx) {
  const Graph* solve = ctx.node.body("jaxprs.solve");
  if (solve == nullptr) ctx.unsupported("the equation has no jaxpr for the solution");
  const Attr& lengths = ctx.param("const_lengths");
  auto count = [&](std::string_view of) {
    const auto* n = field_of(ctx, lengths, of).get<int64_t>();
    if (n == nullptr) ctx.unsupported("the number of constants is not an integer");
    return static_cast<size_t>(*n);
  };
  // Operands: the constants of matvec, vecmat, solve and transpose_solve, then the right-hand sides.
  size_t first = count("matvec") + count("vecmat");
  size_t all = first + count("solve") + count("transpose_solve");
  std::vector<Value*> args;
  for (size_t i = 0; i < count("solve"); ++i) args.push_back(ctx.in(first + i));
  for (size_t i = all; i < ctx.num_inputs(); ++i) args.push_back(ctx.in(i));
  return ctx.inline_body(*solve, args);
}

}  // namespace sardonyx::jax_to_onnx
