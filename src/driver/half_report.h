// What half precision would do to a Core ML program: for people, and as ranges for add_fp16_cast.
#pragma once

#include <string>
#include <vector>

#include "driver/run.h"

namespace sardonyx {

struct HalfReportRequest {
  // Inputs of one run each of the main function, and of others whose inputs they fit. Where there is none, `random_runs` are made on random
  // inputs.
  std::vector<std::vector<EvalValue>> runs;
  size_t random_runs = 2;
  uint64_t seed = 0;
};

struct HalfReport {
  struct Op {
    std::string function, op, name;
    std::string verdict;  // "overflows", "vanishes", "may overflow", "unknown"
    std::string value;    // the operand or result that decides, by name
    double low = 0, high = 0;
    bool seen = false;  // in a run; else by bounds that hold always
  };
  std::vector<Op> ops;  // those that are not safe, in program order
  size_t safe = 0;      // how many others there are
  size_t runs = 0;      // that were made of the function that had most
  std::string not_run;  // why the program could not be run
  std::string ranges;   // the option `ranges` of add_fp16_cast
};

// Looks at all functions; those that were not run count what was seen of values of their names in others. The program stays as it is. Throws what evaluate() throws for runs that were asked for.
HalfReport half_report(Model& m, const HalfReportRequest& request);

// The same with runs on inputs from files: each .npz is one run, and NAME=FILE.npy or NAME=VALUE are for all of them.
HalfReport half_report(Model& m, const std::vector<std::string>& inputs, size_t random_runs, uint64_t seed);

}  // namespace sardonyx
