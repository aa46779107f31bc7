// What optimize --max-error tried, from the report that it printed.
#pragma once

#include <filesystem>

#include "view/scene.h"

namespace sardonyx::view {

// The curve in the JSON that `sardonyx optimize --max-error SHARE --json` printed: of the only model in it
// that has one, or of the one that was written to `model`. Throws kIo, and kInvalidModel for a file without
// it.
Curve read_curve(const std::filesystem::path& report, const std::filesystem::path& model);

}  // namespace sardonyx::view
