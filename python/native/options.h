// Decodes options that Python passes as a dictionary by field: a field that is not there keeps its default.
//
//   #define SX_OPTION(field, ...) SX_DECODE(given, field, options)
//   #include "convert/coreml_options.def"
//
// Types of their own have overloads of decode(), beside `using python::decode`.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "sardonyx/interface.h"
#include "sardonyx/tensor.h"

namespace sardonyx::python {

template <class Value>
void decode(nanobind::handle given, Value& to) {
  to = nanobind::cast<Value>(given);
}

// A mapping of names to shapes, whose sizes are numbers, or names; -1 and None leave the model's own.
void decode(nanobind::handle given, std::vector<InputShape>& to);
// Runs, each a mapping of names to arrays.
void decode(nanobind::handle given, std::vector<NamedTensors>& to);

}  // namespace sardonyx::python

#define SX_DECODE(given, field, options) \
  if ((given).contains(#field)) decode((given)[#field], (options).field);
