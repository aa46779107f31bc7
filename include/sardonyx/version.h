#pragma once

namespace sardonyx {

/// Sardonyx's version, "major.minor.patch". Never null.
const char* version();

}  // namespace sardonyx
