// shard_map on a mesh of one device   =>   its body in line
// psum, pmax, ... over its axes       =>   the operand, reshaped where the result has an axis for the devices
// axis_index                          =>   0
#include "lower/context.h"

namespace sardonyx {

std::vector<Value*> lower_shard_map(Lowering& at) {
  if (at.eqn.bodies().empty()) at.unsupported("the equation has no jaxpr");
  const Graph& body = *at.eqn.bodies()[0].graph;
  // With one device the body sees whole arrays.
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    const Type *inside = at.context().import(body.input(i)->type()), *outside = at.in_type(i);
    if (inside != outside) at.unsupported("the mesh has more than one device");
  }
  std::vector<Value*> args;
  for (size_t i = 0; i < at.num_inputs(); ++i) args.push_back(at.in(i));
  return at.inline_body(body, args);
}

std::vector<Value*> lower_of_one_device(Lowering& at) {
  std::vector<Value*> results;
  for (size_t i = 0; i < at.eqn.num_results(); ++i) {
    if (!(at.b.dims().product(at.in_dims(i)) == at.b.dims().product(at.out_dims(i))))
      at.unsupported("the mesh has more than one device");
    results.push_back(at.reshape_like(at.in(i), at.stored_out_type(i)));
  }
  return results;
}

std::vector<Value*> lower_axis_index(Lowering& at) { return {at.zeros(at.out_dtype(), at.out_dims())}; }

}  // namespace sardonyx
