// Python bindings of the passes.
#pragma once

#include <nanobind/nanobind.h>

#include "sardonyx/convert.h"
#include "sardonyx/observe.h"

namespace sardonyx::python {

// Calls the function of Python in the option `progress`, unless it is None.
class PythonProgress final : public Observer {
 public:
  explicit PythonProgress(const nanobind::dict& options)
      : call_(options.contains("progress") ? nanobind::object(options["progress"]) : nanobind::none()) {}
  void progress(std::string_view what, size_t done, size_t total) override;

 private:
  nanobind::object call_;
};

// Convert options from Python, and reports to Python.
OptimizeOptions optimize_options(const nanobind::dict& d, Observer* observer);
nanobind::dict report_dict(const OptimizeReport& r);

void bind_optimize(nanobind::module_& m);

}  // namespace sardonyx::python
