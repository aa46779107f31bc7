// A progress line for users watching a terminal.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace sardonyx {

// "[######............]  33 %  fold_constants", cut to `width` columns.
std::string progress_text(std::string_view what, size_t done, size_t total, size_t width);

// Draws the line on `stream` if that is a terminal; otherwise does nothing, which keeps logs and pipes clean.
// Work that ends within `delay` shows nothing. A thread redraws the line with the seconds that passed, so
// that it moves during long steps as well; the share that is done never goes back, though pipelines repeat
// passes. The line is erased when the work is done, before anything else is printed, and by the destructor.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Progress(std::FILE* stream = stderr, std::chrono::milliseconds delay = std::chrono::milliseconds(300));
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // `done` of `total` steps are done; `what` is the next. Redraws at most every 50 ms.
  void show(std::string_view what, size_t done, size_t total);
  void clear();

 private:
  void draw();  // with mutex_ held
  void tick();

  std::FILE* stream_ = nullptr;  // null: not a terminal
  std::mutex mutex_;             // of all that follows
  std::condition_variable wake_;
  std::string what_;
  size_t done_ = 0, total_ = 0;  // total_ 0: no work is going on
  Clock::time_point begin_, next_;
  bool drawn_ = false, ends_ = false;
  std::thread ticker_;
};

}  // namespace sardonyx
