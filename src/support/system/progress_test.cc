#include "support/system/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace sardonyx {
namespace {

using std::chrono::milliseconds;

TEST(Progress, ReportsHowFar) {
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

}  // namespace
}  // namespace sardonyx
