#include "support/system/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/system/system.h"

namespace sardonyx {

std::string progress_text(std::string_view what, size_t done, size_t total, size_t width) {
  constexpr size_t kBar = 24;
  total = std::max<size_t>(total, 1);
  done = std::min(done, total);
  std::string text = fmt::format("[{:.<{}}] {:3} %  {}", std::string(kBar * done / total, '#'), kBar, 100 * done / total, what);
  if (text.size() > width) text.resize(width);
  return text;
}

Progress::Progress(std::FILE* stream, std::chrono::milliseconds delay)
    : stream_(sys::is_terminal(stream) ? stream : nullptr), begin_(Clock::now()), next_(begin_ + delay) {}

Progress::~Progress() {
  clear();
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  if (ticker_.joinable()) ticker_.join();
}

void Progress::show(std::string_view what, size_t done, size_t total) {
  if (stream_ == nullptr) return;
  if (done >= total) return clear();
  const std::lock_guard lock(mutex_);
  if (total_ == 0) begin_ = Clock::now();
  done_ = total == total_ ? std::max(done_, done) : done;
  total_ = total;
  what_ = what;
  if (!ticker_.joinable()) ticker_ = std::thread([this] { tick(); });
  if (Clock::now() >= next_) draw();
}

void Progress::draw() {
  const auto now = Clock::now();
  next_ = now + std::chrono::milliseconds(50);
  const unsigned width = sys::columns(stream_).value_or(80);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin_).count();
  const std::string what = seconds > 0 ? fmt::format("{}  {} s", what_, seconds) : what_;
  fmt::print(stream_, "\r\x1b[2K{}", progress_text(what, done_, total_, width > 1 ? width - 1 : 79));
  std::fflush(stream_);
  drawn_ = true;
}

void Progress::tick() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(500), [this] { return ends_; })) {
    if (total_ != 0 && Clock::now() >= next_) draw();
  }
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  total_ = done_ = 0;
  if (!drawn_) return;
  fmt::print(stream_, "\r\x1b[2K");
  std::fflush(stream_);
  drawn_ = false;
}

}  // namespace sardonyx
