// Primitives that only steer JAX: their results are their operands. debug_print, debug_callback   =>   nothing: a graph does not print
// empty[shape, dtype]   =>   zeros;   create_token, after_all   =>   nothing that anybody reads
#include "lower/check_equation.h"
#include "lower/context.h"

namespace sardonyx {

std::vector<Value*> lower_pass_through(Lowering& at) {
  std::vector<Value*> results;
  for (size_t i = 0; i < at.eqn.num_results(); ++i) results.push_back(at.in(i));
  return results;
}

std::vector<Value*> lower_nothing(Lowering& at) {
  if (at.eqn.num_results() > 0) contradicts(at.eqn, "it has results");
  return {};
}

// Tokens put effects in order, and no effect reaches the graph. No operator reads one.
std::vector<Value*> lower_token(Lowering& at) {
  return {&at.b.model().new_placeholder({}, at.context().import(at.eqn.result()->type()))};
}

std::vector<Value*> lower_empty(Lowering& at) {
  return {at.zeros(at.stored_out_type()->dtype(), at.stored_out_type()->dims())};
}

}  // namespace sardonyx
