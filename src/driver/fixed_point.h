// A check that the tests turn on: one run, and it is done.
#pragma once

#include <optional>
#include <string>

#include "sardonyx/passes.h"

namespace sardonyx {

class Model;

// Runs `request` again on the model that it was run on. Returns how that changes the model; nullopt if it does not. Where all passes repeat, the
// model is written and read before the second run, and the bytes are compared. Elsewhere the second run is the last pass alone, as that one
// may enable those before it, and in memory; nothing is checked where it is not idempotent. The second run has no fold budget, which each
// run would spend anew. Models with more than 64 MB of constants are not checked.
std::optional<std::string> change_by_second_run(const Model& m, const PassRequest& request);

// With SARDONYX_CHECK_FIXED_POINT in the environment: throws kInternal where there is a change. Core ML's passes count dead users, as
// coremltools' do, and are left out.
void check_fixed_point(const Model& m, const PassRequest& request);

}  // namespace sardonyx
