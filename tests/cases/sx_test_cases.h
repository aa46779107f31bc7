// Runs the cases of .sx files by transforming the input of each into its result.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sardonyx/ir.h"
#include "sx_test_files.h"

namespace sardonyx {

// Transforms the input into the result. Throws the error that the case expects, if it expects one.
using Transform = std::function<std::unique_ptr<Model>(const Model& input)>;
Transform transform_for(const CaseFile& f, const Case& c);

// Cases whose graphs were evaluated, and those that could not be.
struct Values {
  size_t compared = 0, skipped = 0;
  std::vector<std::string> reasons;
};

// Returns nullopt if the case holds, else what went wrong. *bless: the graph to write in place of the
// expected one.
std::optional<std::string> run_case(const CaseFile& f, const Case& c, const Transform& transform, std::string* bless,
                                    Values& values);

}  // namespace sardonyx
