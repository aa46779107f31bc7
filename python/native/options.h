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

namespace sardonyx::python {

template <class Value>
void decode(nanobind::handle given, Value& to) {
  to = nanobind::cast<Value>(given);
}

}  // namespace sardonyx::python

#define SX_DECODE(given, field, options) \
  if ((given).contains(#field)) decode((given)[#field], (options).field);
