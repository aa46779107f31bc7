// Options of passes that change the interface of a program: entries on separate lines, or separated by
// commas.
#pragma once

#include <algorithm>
#include <charconv>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::mil {

// The entries of a list: one per line; separated by commas if there is no line break. Empty entries are
// dropped. (Names may contain commas.)
inline std::vector<std::string> list_entries(std::string_view list) {
  const char between = list.find('\n') != std::string_view::npos ? '\n' : ',';
  std::vector<std::string> entries;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(between, at), list.size());
    if (end > at) entries.emplace_back(list.substr(at, end - at));
    at = end + 1;
  }
  return entries;
}

// The index of the port of that name, or for "#2" that index; SIZE_MAX if there is none.
inline size_t find_port(std::span<const Port> ports, std::string_view name) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name.view() == name) return i;
  }
  size_t place = 0;
  if (name.size() < 2 || name[0] != '#') return SIZE_MAX;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), place);
  return error == std::errc() && end == name.data() + name.size() && place < ports.size() ? place : SIZE_MAX;
}

}  // namespace sardonyx::mil
