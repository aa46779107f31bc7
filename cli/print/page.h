// Pages: what `view` and `diff` share.
#pragma once

#include <string>

namespace sardonyx::cli {

// Throws kInvalidArgument unless it ends in .html, and kUnsupported if this build has no page.
void require_page_name(const std::string& output);
void write_page(const std::string& output, const std::string& page);

}  // namespace sardonyx::cli
