// Runs inputs that once did harm, and damaged cases, through the targets of targets.h with little memory and
// time.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <vector>

#include "sardonyx/error.h"
#include "targets.h"

namespace sardonyx::bytes {
namespace {

using Bytes = std::vector<uint8_t>;

#if defined(__has_feature)  // clang's spelling; gcc defines macros
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SX_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SX_SANITIZED
#endif
#ifdef SX_SANITIZED
constexpr bool kLimitMemory = false;  // sanitizers map terabytes
#else
constexpr bool kLimitMemory = true;
#endif

uint64_t address_space() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

bool limit_memory(uint64_t bytes) {
  const rlimit limit{bytes, bytes};
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

// Whether limits of memory hold here. qemu-user takes them and does nothing.
bool limits_hold() {
  static const bool hold = [] {
    constexpr uint64_t kSome = uint64_t{1} << 44;
    const pid_t child = fork();
    if (child == 0) {
      rlimit now{};
      _exit(kLimitMemory && limit_memory(kSome) && getrlimit(RLIMIT_AS, &now) == 0 && now.rlim_cur == kSome ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }();
  return hold;
}

// Runs f in a child process with limits on additional memory and time. Returns how it ended; "" means well.
std::string ending(const std::function<void()>& f, uint64_t memory, unsigned seconds) {
  const bool limited = limits_hold();
  const pid_t child = fork();
  if (child == 0) {
    if (limited && !limit_memory(address_space() + memory)) _exit(5);
    alarm(seconds);
    try {
      f();
    } catch (const std::bad_alloc&) {
      _exit(3);
    } catch (...) {
      _exit(4);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? "it hangs" : "it crashes";
  const int code = WEXITSTATUS(status);
  if (code == 5) return "its memory could not be limited";
  return code == 0 ? "" : code == 3 ? "it asks for too much memory" : "it throws something else than a refusal";
}

Bytes read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

using Named = std::pair<const char*, void (*)(Input)>;
class KeptInputs : public testing::TestWithParam<Named> {};

TEST_P(KeptInputs, AreRefusedOrServed) {
  const auto [name, target] = GetParam();
  size_t tried = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path("tests/bytes/kept") / name)) {
    const Bytes bytes = read(entry.path());
    EXPECT_EQ(ending([&] { target(bytes); }, memory_cap(bytes.size()), 5), "") << entry.path();
    ++tried;
  }
  EXPECT_GT(tried, 0u);
}

INSTANTIATE_TEST_SUITE_P(Bytes, KeptInputs,
                         testing::Values(Named{"onnx", onnx}, Named{"coreml", coreml}, Named{"text", text},
                                         Named{"program", program}, Named{"mlir_text", mlir_text},
                                         Named{"mlir_bytecode", mlir_bytecode}),
                         [](const auto& i) { return std::string(i.param.first); });

// Checks the limits themselves: hanging, crashing and excessive memory are told apart.
TEST(KeptInputsLimits, AreSeenToHold) {
  EXPECT_EQ(ending(
                [] {
                  for (;;) pause();
                },
                1 << 20, 1),
            "it hangs");
  EXPECT_EQ(ending([] { raise(SIGABRT); }, 1 << 20, 5), "it crashes");
  EXPECT_EQ(ending([] { throw 1; }, 1 << 20, 5), "it throws something else than a refusal");
  if (limits_hold()) {
    EXPECT_EQ(ending(
                  [] {
                    const Bytes all(size_t{256} << 20);
                    const uint8_t* volatile seen = all.data();  // else clang leaves the vector out
                    (void)seen;
                  },
                  64 << 20, 5),
              "it asks for too much memory");
  }
}

}  // namespace
}  // namespace sardonyx::bytes
