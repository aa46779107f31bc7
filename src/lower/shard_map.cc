// shard_map on a mesh of one device   =>   its body in line
// psum, pmax, ... over its axes       =>   the operand, reshaped where the result has an axis for the devices; over axes of vmap: a reduction
// axis_index                          =>   0
#include "lower/context.h"
#include "lower/reduction.h"

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

namespace {

// Numbers among the axes are axes of the operand that vmap gave a name: those are reduced.
std::vector<Value*> over_devices_and_axes(Lowering& at, std::string_view primitive) {
  const auto* axes = at.param("axes").get<Attr::Ints>();
  if (axes == nullptr || axes->empty()) return lower_of_one_device(at);
  std::vector<Value*> results;
  for (size_t i = 0; i < at.eqn.num_results(); ++i)
    results.push_back(reduce_with(at, *find_reduction(primitive), at.in(i), *axes));
  return results;
}

}  // namespace

std::vector<Value*> lower_psum(Lowering& at) { return over_devices_and_axes(at, "add"); }
std::vector<Value*> lower_pmax(Lowering& at) { return over_devices_and_axes(at, "max"); }
std::vector<Value*> lower_pmin(Lowering& at) { return over_devices_and_axes(at, "min"); }

std::vector<Value*> lower_axis_index(Lowering& at) { return {at.zeros(at.out_dtype(), at.out_dims())}; }

}  // namespace sardonyx
