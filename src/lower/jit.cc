// jit, closed_call, core_call, remat2 (checkpoint), custom_jvp_call, custom_vjp_call, custom_lin: calls whose body is written in line.
// The name of a call is a hint for provenance, never a reason to believe what it computes.
#include "sardonyx/lower.h"

namespace sardonyx {

std::vector<Value*> lower_call(Lowering& at) {
  if (at.eqn.bodies().empty()) at.unsupported("the call has no jaxpr");
  std::vector<Value*> args;
  for (size_t i = 0; i < at.num_inputs(); ++i) args.push_back(at.in(i));
  return at.inline_body(*at.eqn.bodies()[0].graph, args);
}

}  // namespace sardonyx
