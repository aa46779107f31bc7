// Hands out unique names: name, name_1, name_2, ...
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace sardonyx::mil {

class UniqueNames {
 public:
  void keep(std::string_view name) { seen_.emplace(name); }
  // The name itself, or the first unused numbered variant.
  std::string unique(std::string_view name) {
    std::string text(name);
    if (seen_.insert(text).second) return text;
    for (size_t& n = last_[text];;) {
      std::string numbered = std::string(name) + '_' + std::to_string(++n);
      if (seen_.insert(numbered).second) return numbered;
    }
  }

 private:
  std::unordered_set<std::string> seen_;
  std::unordered_map<std::string, size_t> last_;
};

}  // namespace sardonyx::mil
