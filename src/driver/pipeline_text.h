// A pipeline as people write it: on a command line, or in a file.
#pragma once

#include <string>

#include "sardonyx/passes.h"

namespace sardonyx {

// Adds the passes and options of "a, b, c.option=value" to `request`. A text that is no name of a pass or preset, and names a file, means what
// the file has, with one entry a line and # before comments. Throws kIo.
void add_pipeline(const std::string& text, PassRequest& request);

}  // namespace sardonyx
