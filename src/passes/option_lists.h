// Options of passes that are lists.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace sardonyx {

using NameSet = std::set<std::string, std::less<>>;

// The names in a list; empty ones are left out.
inline NameSet split_names(std::string_view list, char separator = ',') {
  NameSet parts;
  while (!list.empty()) {
    const size_t end = list.find(separator);
    if (end != 0) parts.emplace(list.substr(0, end));
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return parts;
}

}  // namespace sardonyx
