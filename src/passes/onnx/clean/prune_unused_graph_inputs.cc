// Removes unused inputs of the main graph and their default values. Only the preset onnx-spec has this pass,
// because it changes the signature. Inputs named in_0, in_1, ... stay: they are positional arguments of a
// function.
// After jax2onnx's pass of this name.
#include <algorithm>

#include "rewrite/pass.h"

namespace sardonyx::onnx {
namespace {

bool is_positional(std::string_view name) {
  return name.starts_with("in_") && name.size() > 3 &&
         std::all_of(name.begin() + 3, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Pass prune_unused_graph_inputs() {
  return Pass::on_graph(Numerics::kExact, [](Graph& g, PassContext& context) {
    if (g.function() != &context.model.main()) return false;
    size_t inputs = 0;
    for (size_t i = g.inputs().size(); i-- > 0;) {
      const Port& port = g.inputs()[i];
      if (port.value->has_uses() || port.name.empty() || is_positional(port.name.view())) continue;
      g.remove_input(i);
      ++inputs;
    }
    context.log.count("inputs", inputs);
    return inputs > 0;
  });
}

}  // namespace sardonyx::onnx
