// Reports what half precision would do to a model: for people, and as ranges for add_fp16_cast and
// cast_to_half.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/eval.h"
#include "sardonyx/tensor.h"

namespace sardonyx {

struct HalfReportRequest {
  // Each is the inputs of one run of the main function, and of other functions whose inputs it fits. If
  // empty, makes `random_runs` on random inputs.
  std::vector<std::vector<EvalValue>> runs;
  size_t random_runs = 2;
  uint64_t seed = 0;
};

struct HalfReport {
  struct Op {
    std::string function, op, name;
    std::string verdict;  // "overflows", "vanishes", "may overflow", "unknown"
    std::string value;    // name of the operand or result that decides
    double low = 0, high = 0;
    bool seen = false;  // seen in a run; else proved by bounds
  };
  std::vector<Op> ops;  // the ops that are not safe, in program order
  size_t safe = 0;      // the number of other ops
  size_t runs = 0;      // runs of the function with the most runs
  std::string not_run;  // why the program could not be run
  std::string ranges;   // the option `ranges` of these passes
};

// Analyzes all functions; one that was not run uses the ranges of equally named values in others. Does not
// change the program. Throws what evaluate() throws for the requested runs.
HalfReport half_report(Model& m, const HalfReportRequest& request);

// The same for inputs by name; throws kInvalidArgument for names that the main function lacks.
HalfReport half_report(Model& m, const std::vector<NamedTensors>& inputs, size_t random_runs, uint64_t seed);

}  // namespace sardonyx
