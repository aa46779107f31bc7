// Names of weights: where in the exported object each captured array was found.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace sardonyx::python {

// One name per const of a ClosedJaxpr, "" where none was found: `layers.0.kernel`, as a path of attributes, keys and positions below
// `root`, the nearest of several. Each object is visited once. Somebody's attribute that raises ends the search: names are a courtesy.
// Needs the interpreter lock.
std::vector<std::string> weight_names(nanobind::handle root, nanobind::handle closed_jaxpr);

}  // namespace sardonyx::python
