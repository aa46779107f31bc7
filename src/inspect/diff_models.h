// How two models differ: their texts, and their nodes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "inspect/match_models.h"
#include "inspect/model_counts.h"
#include "sardonyx/ir.h"

namespace sardonyx {

struct ModelDiff {
  struct Change {
    std::string what, before, after;  // empty: not there
  };
  bool same = false;
  ModelMatch nodes;
  std::vector<std::pair<std::string, std::string>> renamed;  // constants: the names before and after
  std::vector<Change> interface;                             // inputs, results, opsets
  std::vector<Change> ops;                                   // how many nodes of each operator
  uint64_t bytes_before = 0, bytes_after = 0;                // of tensors
  std::vector<std::pair<char, std::string>> lines;  // of both texts: ' ' in both, '-' only in the first, '+' only in the second
  size_t differing = 0;                             // lines that are not in both
};

// Infers types in both. Constants of the second model that are only renamed have the first model's names afterwards, and in `lines`.
ModelDiff diff_models(Model& before, Model& after);

}  // namespace sardonyx
