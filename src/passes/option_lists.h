// Options of passes that are lists.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace sardonyx {

// The names in a comma-separated list; empty ones are left out.
inline std::set<std::string, std::less<>> split_names(std::string_view list) {
  std::set<std::string, std::less<>> parts;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (comma != 0) parts.emplace(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return parts;
}

}  // namespace sardonyx
