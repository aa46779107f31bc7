#include "support/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/system.h"

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
    : stream_(sys::is_terminal(stream) ? stream : nullptr), next_(Clock::now() + delay) {}

void Progress::show(std::string_view what, size_t done, size_t total) {
  if (stream_ == nullptr) return;
  if (done >= total) return clear();
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(50);
  const unsigned width = sys::columns(stream_).value_or(80);
  fmt::print(stream_, "\r\x1b[2K{}", progress_text(what, done, total, width > 1 ? width - 1 : 79));
  std::fflush(stream_);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stream_, "\r\x1b[2K");
  std::fflush(stream_);
  drawn_ = false;
}

}  // namespace sardonyx
