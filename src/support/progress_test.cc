#include "support/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace sardonyx {
namespace {

using std::chrono::milliseconds;

TEST(Progress, SaysHowFar) {
  EXPECT_EQ(progress_text("fold", 1, 3, 80), "[########................]  33 %  fold");
  EXPECT_EQ(progress_text("fold", 0, 0, 80), "[........................]   0 %  fold");
  EXPECT_EQ(progress_text("fold", 9, 3, 80), "[########################] 100 %  fold");
  EXPECT_EQ(progress_text("a long name", 1, 2, 34).size(), 34u);
}

TEST(Progress, DrawsNothingIntoAFile) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  Progress(file, milliseconds(0)).show("first", 1, 2);
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
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
