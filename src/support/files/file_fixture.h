// Shared by the tests of files: file_test.cc, and what only some systems have, file_posix_test.cc and
// file_linux_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "sardonyx/error.h"
#include "support/files/atomic_file.h"
#include "support/files/copy_range.h"
#include "support/files/inside.h"
#include "support/files/mapped_file.h"
#include "support/files/regular_file.h"
#include "support/files/test_folder.h"

namespace sardonyx {

namespace fs = std::filesystem;

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

inline std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_all(const fs::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

// The text of the error that `act` throws; empty if it throws nothing.
inline std::string error_of(const std::function<void()>& act, ErrorCode code = ErrorCode::kIo) {
  try {
    act();
  } catch (const Error& e) {
    EXPECT_EQ(to_string(e.code()), to_string(code));
    return e.what();
  }
  return {};
}

class FileTest : public ::testing::Test {
 protected:
  // Sorted names in the folder: what a run left behind.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }

  const TestFolder test_folder_;
  const fs::path& folder_ = test_folder_.path();
};

using Names = std::vector<std::string>;

}  // namespace sardonyx
