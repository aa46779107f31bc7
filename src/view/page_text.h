// The page that `make viewer` builds, as part of the program.
#pragma once

#include <string_view>

namespace sardonyx::view {

// Empty if the program was built without it.
std::string_view page_text();

}  // namespace sardonyx::view
