#include "support/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace sardonyx {
namespace {

constexpr size_t kLongLine = 4000;

struct Character {
  size_t bytes = 0;  // 0: invalid UTF-8
  uint32_t code = 0;
};

Character first_of(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned c = byte(0);
  if (c < 0x80) return {1, c};
  const size_t n = c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  if (n == 0 || n > s.size()) return {};
  uint32_t code = c & (0xffu >> (n + 1));
  for (size_t k = 1; k < n; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(k) & 0x3f);
  }
  const bool too_long = (n == 3 && code < 0x800) || (n == 4 && code < 0x10000);
  if (too_long || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {n, code};
}

// Control characters, and those that change the direction of text.
bool steers(uint32_t c) {
  return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

bool is_plain(std::string_view s) {
  return std::ranges::all_of(s, [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t'; });
}

void escape(std::string& out, std::string_view bytes) {
  for (char c : bytes) fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
}

// Appends the beginning and the end of a line, cut between characters.
void add_line(std::string& out, std::string_view line) {
  if (line.size() <= kLongLine) {
    out += line;
    return;
  }
  const auto inside = [&](size_t at) { return (static_cast<unsigned char>(line[at]) & 0xc0) == 0x80; };
  size_t head = kLongLine / 2, tail = line.size() - kLongLine / 4;
  while (inside(head)) --head;
  while (inside(tail)) ++tail;
  out += line.substr(0, head);
  fmt::format_to(std::back_inserter(out), " [{} bytes left out] ", tail - head);
  out += line.substr(tail);
}

}  // namespace

bool is_utf8(std::string_view s) {
  while (!s.empty()) {
    const Character c = first_of(s);
    if (c.bytes == 0) return false;
    s.remove_prefix(c.bytes);
  }
  return true;
}

std::string printable(std::string s) {
  if (is_plain(s)) return s;
  std::string out;
  for (std::string_view rest = s; !rest.empty();) {
    const Character c = first_of(rest);
    const std::string_view bytes = rest.substr(0, std::max<size_t>(c.bytes, 1));
    rest.remove_prefix(bytes.size());
    if (c.bytes == 0 || steers(c.code)) {
      escape(out, bytes);
    } else {
      out += bytes;
    }
  }
  return out;
}

std::string without_long_lines(std::string s) {
  if (s.size() <= kLongLine) return s;
  std::string out;
  for (std::string_view rest = s;;) {
    const size_t end = rest.find('\n');
    add_line(out, rest.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '\n';
    rest.remove_prefix(end + 1);
  }
}

}  // namespace sardonyx
