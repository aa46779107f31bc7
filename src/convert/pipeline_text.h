// A pipeline as text: on a command line or in a file.
#pragma once

#include <string>
#include <string_view>

#include "sardonyx/passes.h"

namespace sardonyx {

// Adds the passes and options of "a, b, c.option=value" to `request`. A text that is not the name of a pass
// or preset but names a file stands for its contents: one entry per line, # before comments. Throws kIo.
void add_pipeline(const std::string& text, PassRequest& request);

// The passes of a preset in order, one a line, with a note at those that only half precision needs.
std::string preset_text(std::string_view preset);

}  // namespace sardonyx
