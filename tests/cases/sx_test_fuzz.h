// Runs rules on random graphs (random/grow.h). Both sides must compute the same, within the rule's numerics.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

struct FuzzOptions {
  size_t effort = 1;  // a multiple of the usual number of graphs
  uint64_t seed = 1;
  bool report = false;  // one line per rule
  std::string filter;   // of "pass/rule"
};

// Tries all rules of the ONNX passes. `cases` are the input graphs of the passes' cases, by pass. Prints
// failures, and a last line with counts. Returns how many rules failed: results that differ, graphs that the
// verifier refuses, or a rule that never fired.
size_t fuzz_rules(const std::map<std::string, std::vector<std::unique_ptr<Model>>>& cases, const FuzzOptions& options);

}  // namespace sardonyx
