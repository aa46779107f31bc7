// Rules on random graphs (random/grow.h): both sides must compute the same, within what the rule states.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

struct FuzzOptions {
  size_t effort = 1;  // how many times the usual number of graphs
  uint64_t seed = 1;
  bool report = false;  // a line for each rule
  std::string filter;   // of "pass/rule"
};

// Tries all rules of ONNX's passes. `cases` are the input graphs of the passes' cases, by pass. Prints what
// is wrong, and last a line with the counts. Returns how many rules failed: results that differ, graphs that
// the verifier refuses, a rule that never fired.
size_t fuzz_rules(const std::map<std::string, std::vector<std::unique_ptr<Model>>>& cases, const FuzzOptions& options);

}  // namespace sardonyx
