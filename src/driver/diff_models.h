// How the texts of two models differ.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "driver/model_counts.h"
#include "sardonyx/ir.h"

namespace sardonyx {

struct ModelDiff {
  struct Change {
    std::string what, before, after;  // empty: not there
  };
  bool same = false;
  std::vector<Change> interface;                    // inputs, results, opsets
  std::vector<Change> ops;                          // how many nodes of each operator
  uint64_t bytes_before = 0, bytes_after = 0;       // of tensors
  std::vector<std::pair<char, std::string>> lines;  // of both texts: ' ' in both, '-' only in the first, '+' only in the second
  size_t differing = 0;                             // lines that are not in both
};

ModelDiff diff_models(const Model& before, const Model& after);

}  // namespace sardonyx
