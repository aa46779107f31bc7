#include "support/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

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
    : stream_(::isatty(::fileno(stream)) == 1 ? stream : nullptr), next_(Clock::now() + delay) {}

void Progress::show(std::string_view what, size_t done, size_t total) {
  if (stream_ == nullptr) return;
  if (done >= total) return clear();
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(50);
  winsize size{};
  const bool known = ::ioctl(::fileno(stream_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  fmt::print(stream_, "\r\x1b[2K{}", progress_text(what, done, total, known ? size.ws_col - 1u : 79u));
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
