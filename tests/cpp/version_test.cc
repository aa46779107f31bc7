#include "sardonyx/version.h"

#include <gtest/gtest.h>

#include <regex>

namespace sardonyx {
namespace {

TEST(Version, HasThreeNumbers) { EXPECT_TRUE(std::regex_match(version(), std::regex(R"(\d+\.\d+\.\d+)"))) << version(); }

}  // namespace
}  // namespace sardonyx
