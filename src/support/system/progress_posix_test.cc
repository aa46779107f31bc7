#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "support/system/progress.h"

namespace sardonyx {
namespace {

using std::chrono::milliseconds;

TEST(Progress, DrawsOnTerminalsOnlyAndCleansUp) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudo-terminals here";
  std::FILE* line = std::fopen(::ptsname(terminal), "w");
  ASSERT_NE(line, nullptr);
  {
    Progress quick(line);  // done before `delay`
    quick.show("first", 0, 2);
    quick.show("", 2, 2);
    Progress slow(line, milliseconds(0));
    slow.show("first", 1, 2);
  }
  std::fclose(line);
  std::array<char, 256> seen{};
  std::string text;
  // Output may arrive in pieces; reading fails at its end.
  for (ssize_t n; (n = ::read(terminal, seen.data(), seen.size())) > 0;) text.append(seen.data(), static_cast<size_t>(n));
  EXPECT_EQ(text, "\r\x1b[2K[############............]  50 %  first\r\x1b[2K");
  ::close(terminal);
}

TEST(Progress, MovesDuringLongStepsAndNeverBack) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudo-terminals here";
  std::FILE* line = std::fopen(::ptsname(terminal), "w");
  ASSERT_NE(line, nullptr);
  {
    Progress slow(line, milliseconds(0));
    slow.show("first", 2, 3);
    std::this_thread::sleep_for(milliseconds(1700));
    slow.show("again", 0, 3);
    std::this_thread::sleep_for(milliseconds(60));
    slow.show("again", 1, 3);
  }
  std::fclose(line);
  std::array<char, 1024> seen{};
  std::string text;
  for (ssize_t n; (n = ::read(terminal, seen.data(), seen.size())) > 0;) text.append(seen.data(), static_cast<size_t>(n));
  EXPECT_NE(text.find("66 %  first  1 s"), std::string::npos) << text;
  EXPECT_NE(text.find("66 %  again"), std::string::npos) << text;
  EXPECT_EQ(text.find(" 0 %"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\r\x1b[2K"));
  ::close(terminal);
}

}  // namespace
}  // namespace sardonyx
