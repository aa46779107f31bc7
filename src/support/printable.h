// Makes bytes from files safe to show in a terminal, a log or a Python string.
#pragma once

#include <string>
#include <string_view>

namespace sardonyx {

// Whether s is valid UTF-8: no truncated or overlong sequence, nothing beyond U+10FFFF, no surrogates.
bool is_utf8(std::string_view s);

// Replaces invalid UTF-8 and control characters (ASCII, U+0080 to U+009F, and those that change the direction
// of text) by \xHH, so that a name can neither control a terminal nor end a message early. Keeps newlines and
// tabs.
std::string printable(std::string s);
// Cuts the middle out of lines longer than 4000 bytes. Takes UTF-8 and cuts between characters.
std::string without_long_lines(std::string s);

}  // namespace sardonyx
