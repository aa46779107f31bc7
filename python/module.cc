#include <nanobind/nanobind.h>

#include "sardonyx/version.h"

NB_MODULE(_sardonyx, m) { m.def("version", &sardonyx::version); }
