// A progress line for users watching a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace sardonyx {

// "[######............]  33 %  fold_constants", cut to `width` columns.
std::string progress_text(std::string_view what, size_t done, size_t total, size_t width);

// Draws the line on `stream` if that is a terminal; otherwise does nothing, which keeps logs and pipes clean.
// Work that ends within `delay` shows nothing. The line is erased when the work is done, before anything else
// is printed, and by the destructor.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Progress(std::FILE* stream = stderr, std::chrono::milliseconds delay = std::chrono::milliseconds(300));
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  // `done` of `total` steps are done; `what` is the next. Redraws at most every 50 ms.
  void show(std::string_view what, size_t done, size_t total);
  void clear();

 private:
  std::FILE* stream_ = nullptr;  // null: not a terminal
  Clock::time_point next_;
  bool drawn_ = false;
};

}  // namespace sardonyx
