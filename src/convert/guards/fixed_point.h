// A check for tests: a second run must change nothing.
#pragma once

#include <optional>
#include <string>

#include "sardonyx/passes.h"

namespace sardonyx {

class Model;

// Runs `request` again on the model that it has run on. Returns the change; nullopt if there is none. If all
// passes repeat, the second run reads the model back from a written file, and the bytes are compared.
// Otherwise it runs only the last pass, in memory, since that pass may enable earlier ones. The second run
// has no fold budget, which every run would spend again. Skips models with more than 64 MB of constants.
std::optional<std::string> change_by_second_run(const Model& m, const PassRequest& request);

// If SARDONYX_CHECK_FIXED_POINT is set in the environment, throws kInternal if there is a change. Skips Core
// ML programs: like coremltools, their passes count dead users.
void check_fixed_point(const Model& m, const PassRequest& request);

}  // namespace sardonyx
