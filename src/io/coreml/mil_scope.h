// Resolves names while a program is walked: a later definition hides the earlier one until its block ends.
#pragma once

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sardonyx::mil_file {

template <class T>
class LatestNames {
 public:
  T* find(std::string_view name) const {
    const auto at = latest_.find(name);
    return at == latest_.end() ? nullptr : at->second;
  }
  void define(std::string_view name, T* what) {
    auto [at, fresh] = latest_.try_emplace(name, what);
    before_.emplace_back(name, fresh ? nullptr : std::exchange(at->second, what));
  }
  void clear() {
    latest_.clear();
    before_.clear();
  }

  // At the end of a block, back_to(mark) restores the names as they were when mark() was called at its
  // beginning.
  size_t mark() const { return before_.size(); }
  void back_to(size_t mark) {
    for (; before_.size() > mark; before_.pop_back()) {
      const auto& [name, old] = before_.back();
      if (old == nullptr) {
        latest_.erase(name);
      } else {
        latest_[name] = old;
      }
    }
  }

 private:
  std::unordered_map<std::string_view, T*> latest_;
  std::vector<std::pair<std::string_view, T*>> before_;
};

}  // namespace sardonyx::mil_file
