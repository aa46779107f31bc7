// The error that points at a place in a text.
#pragma once

#include <cstddef>
#include <string_view>

#include "sardonyx/error.h"

namespace sardonyx {

// "file:line:column: message", with the line and a caret below it as notes. `offset` is a byte of `text`, or
// its end.
Error text_error(std::string_view text, std::string_view file, size_t offset, std::string_view message,
                 ErrorCode code = ErrorCode::kParse);

}  // namespace sardonyx
