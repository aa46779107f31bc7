// Lowerings written in Python: what `ctx` is to them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "sardonyx/lower.h"

namespace sardonyx::python {

// Adds the lowerings of `by_primitive` (name -> callable(ctx, eqn)) to `registry`. `equations` are the JaxprEqn objects by id of
// the jax node; `target` is the model that will be lowered into. All must outlive the registry. The functions take the interpreter
// lock themselves.
void add_python_lowerings(LoweringRegistry& registry, const nanobind::dict& by_primitive,
                          const std::unordered_map<uint32_t, nanobind::object>& equations, std::shared_ptr<Model> target);

void bind_lowering_context(nanobind::module_& m);

}  // namespace sardonyx::python
