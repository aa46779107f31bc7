// Reads a ClosedJaxpr object once, natively, into a model of the jax dialect.
//
// Weights are borrowed: a constant of the model is the array's own buffer and keeps the array alive. Nested
// jaxprs become bodies named after their parameter; a jaxpr that several equations share is read once per
// equation. A primitive without a lowering becomes a call of the program that JAX runs in its place, where
// there is one (sardonyx/_trace/expand.py). Parameters that no ONNX file can hold (shardings, callables,
// autodiff rules) are dropped or kept as a short text.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "native/jax/source_lines.h"
#include "sardonyx/ir.h"

namespace sardonyx::python {

struct ImportOptions {
  std::string name = "jax_model";
  std::vector<std::string> input_names, output_names;  // of the main graph, one per input or output; empty: unnamed
  std::vector<std::string> const_names;                // of the ClosedJaxpr's consts; "" = unnamed
  // Positions that are NCHW outside while the program uses NHWC: a transpose is inserted. Throws unless the
  // rank is 4.
  std::vector<size_t> nchw_inputs, nchw_outputs;
  SourceDetail provenance = SourceDetail::kLine;
  std::vector<std::string> facts;                  // what holds of symbolic sizes: "B >= 2"
  std::vector<std::string> data_sizes;             // symbols that depend on data: they may be 0
  std::unordered_set<std::string> keep_equations;  // primitives whose equations Python will need later
};

struct ImportedJaxpr {
  std::unique_ptr<Model> model;
  // The JaxprEqn objects of `keep_equations`, by node id.
  std::unordered_map<uint32_t, nanobind::object> equations;
};

// Needs the interpreter lock. Throws Error, or the Python error of an object that is not a jaxpr.
ImportedJaxpr import_jaxpr(nanobind::handle closed_jaxpr, const ImportOptions& options);

}  // namespace sardonyx::python
