// Text that a terminal, a log or a Python string can show, whatever bytes a file gave it.
#pragma once

#include <string>
#include <string_view>

namespace sardonyx {

// Whether s is UTF-8: no byte sequence that is cut, too long, beyond U+10FFFF, or half of a surrogate pair.
bool is_utf8(std::string_view s);

// s with \xHH for bytes that are not UTF-8 and for those of control characters (of ASCII and of U+0080 to U+009F, and those that turn
// the direction of writing), so that a name can neither steer a terminal nor end a message early. Line ends and tabs stay.
std::string printable(std::string s);
// Of lines beyond 4000 bytes, which nobody reads, the middle is left out. Takes UTF-8, and cuts between characters.
std::string without_long_lines(std::string s);

}  // namespace sardonyx
