// shard_map on a mesh of one device   =>   its body, inlined
// psum, pmax, ... over its axes       =>   the operand, reshaped if the result has an axis for the devices
//                 over axes of vmap   =>   a reduction
// ppermute                            =>   the operand; zeros if the device receives from none
// axis_index                          =>   0
#include "lower/jax_to_onnx/context.h"
#include "lower/jax_to_onnx/reductions/reduction.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_shard_map(Lowering& ctx) {
  if (ctx.node.bodies().empty()) ctx.unsupported("the equation has no jaxpr");
  const Graph& body = *ctx.node.bodies()[0].graph;
  // With one device the body gets whole arrays.
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    const Type *inside = ctx.context().import(body.input(i)->type()), *outside = ctx.in_type(i);
    if (inside != outside) ctx.unsupported("the mesh has more than one device");
  }
  std::vector<Value*> args;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) args.push_back(ctx.in(i));
  return ctx.inline_body(body, args);
}

std::vector<Value*> lower_of_one_device(Lowering& ctx) {
  std::vector<Value*> results;
  for (size_t i = 0; i < ctx.node.num_results(); ++i) {
    if (!(ctx.b.dims().product(ctx.in_dims(i)) == ctx.b.dims().product(ctx.out_dims(i))))
      ctx.unsupported("the mesh has more than one device");
    results.push_back(ctx.reshape_like(ctx.in(i), ctx.stored_out_type(i)));
  }
  return results;
}

namespace {

// Integers among the axes are axes of the operand that vmap named: these are reduced.
std::vector<Value*> over_devices_and_axes(Lowering& ctx, std::string_view primitive) {
  const auto* axes = ctx.param("axes").get<Attr::Ints>();
  if (axes == nullptr || axes->empty()) return lower_of_one_device(ctx);
  std::vector<Value*> results;
  for (size_t i = 0; i < ctx.node.num_results(); ++i)
    results.push_back(reduce_with(ctx, *find_reduction(primitive), ctx.in(i), *axes));
  return results;
}

}  // namespace

std::vector<Value*> lower_psum(Lowering& ctx) { return over_devices_and_axes(ctx, "add"); }
std::vector<Value*> lower_pmax(Lowering& ctx) { return over_devices_and_axes(ctx, "max"); }
std::vector<Value*> lower_pmin(Lowering& ctx) { return over_devices_and_axes(ctx, "min"); }

std::vector<Value*> lower_ppermute(Lowering& ctx) {
  const Attr& perm = ctx.param("perm");  // pairs of source and destination: [(0, 0)] or none
  const auto* pairs = perm.get<AttrList>();
  const auto* flat = perm.get<Attr::Ints>();
  const bool receives = (pairs != nullptr && !pairs->empty()) || (flat != nullptr && !flat->empty());
  if (receives) return lower_of_one_device(ctx);
  std::vector<Value*> results;
  for (size_t i = 0; i < ctx.node.num_results(); ++i) {
    const Type* type = ctx.stored_out_type(i);
    results.push_back(ctx.zeros(type->dtype(), std::vector<Dim>(type->dims().begin(), type->dims().end())));
  }
  return results;
}

std::vector<Value*> lower_axis_index(Lowering& ctx) { return {ctx.zeros(ctx.out_dtype(), ctx.out_dims())}; }

}  // namespace sardonyx::jax_to_onnx
