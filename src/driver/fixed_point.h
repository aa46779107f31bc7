// A check that the tests turn on: one run, and it is done.
#pragma once

#include <optional>
#include <string>

#include "sardonyx/passes.h"

namespace sardonyx {

class Model;

// Writes the model that `request` was run on, reads it, runs the request again and writes the result. Returns how the bytes changed; nullopt if
// they did not. Only a preset that repeats promises that, and not with a fold budget, which each run spends anew. Nothing is done for models with more than 64 MB of constants.
std::optional<std::string> change_by_second_run(const Model& m, const PassRequest& request);

// With SARDONYX_CHECK_FIXED_POINT in the environment: throws kInternal where there is a change.
void check_fixed_point(const Model& m, const PassRequest& request);

}  // namespace sardonyx
