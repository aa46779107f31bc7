// Work on several threads, for the passes that try many scales.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace sardonyx::compress {

// On up to `most` threads, calls make() once and what it returns with numbers below `count`: each number
// once, on any thread. Throws what one of them throws, after all have stopped. The calling thread takes
// part.
template <class Make>
void on_threads(int64_t count, size_t most, const Make& make) {
  const auto useful = std::clamp<size_t>(most, 1, static_cast<size_t>(std::max<int64_t>(count, 1)));
  const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, useful);
  std::vector<std::exception_ptr> failed(threads);
  std::atomic<int64_t> next = 0;  // the first number that nobody has taken
  const auto work = [&](size_t thread) {
    try {
      auto visit = make();
      for (int64_t i = 0; (i = next.fetch_add(1)) < count;) visit(i);
    } catch (...) {
      failed[thread] = std::current_exception();
      next = count;  // stops the others
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& e : failed) {
    if (e != nullptr) std::rethrow_exception(e);
  }
}

}  // namespace sardonyx::compress
