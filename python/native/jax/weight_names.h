// Names of weights: the path at which each captured array was found in the exported object.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace sardonyx::python {

// Returns one name per const of a ClosedJaxpr, "" where none was found. `layers.0.kernel` is a path of
// attributes, keys and positions below `root`; the shortest of several is used. Each object is visited once.
// An attribute that raises ends the search: names are only a convenience. Needs the interpreter lock.
std::vector<std::string> weight_names(nanobind::handle root, nanobind::handle closed_jaxpr);

}  // namespace sardonyx::python
