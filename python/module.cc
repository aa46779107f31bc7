#include <nanobind/nanobind.h>

#include "errors.h"
#include "sardonyx/version.h"

NB_MODULE(_sardonyx, m) {
  m.def("version", &sardonyx::version);
  sardonyx::python::bind_errors(m);
}
