// Lowerings written in Python: the native side of their `ctx`.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "sardonyx/lower.h"

namespace sardonyx::python {

// Adds the lowerings of `by_primitive` (name -> callable(ctx, eqn)) to `registry`. `equations` are the
// JaxprEqn objects by id of the jax node. `target` is the model being lowered into. `late` collects
// attributes to be set after the passes. All must outlive the registry. The functions take the interpreter
// lock themselves.
void add_python_lowerings(LoweringRegistry& registry, const nanobind::dict& by_primitive,
                          const std::unordered_map<uint32_t, nanobind::object>& equations, std::shared_ptr<Model> target,
                          const nanobind::list& late);

// Sets the attributes in `late` on nodes that are still there. Throws when an operator refuses its new
// attributes, or when they would change the types of its results, which users rely on.
void set_late_attributes(const nanobind::list& late, std::shared_ptr<Model> model);

void bind_lowering_context(nanobind::module_& m);

}  // namespace sardonyx::python
