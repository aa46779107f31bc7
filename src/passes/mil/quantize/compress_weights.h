// Shared with the options `weights` of an optimization and of a conversion, which run compress_weights last.
#pragma once

#include "rewrite/pass.h"

namespace sardonyx::mil {

// Throws kInvalidArgument for options that compress_weights refuses, and kUnsupported if specification
// `version` of Core ML (8 is iOS 17) lacks the form that they ask for.
void check_compression(int version, const PassOptions& options);

}  // namespace sardonyx::mil
