// For tests: a new folder for files, removed in the end.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <random>

namespace sardonyx {

class TestFolder {
 public:
  TestFolder() {
    std::random_device random;
    do {
      path_ = std::filesystem::canonical(std::filesystem::temp_directory_path()) / fmt::format("sx-test-{:08x}", random());
    } while (!std::filesystem::create_directory(path_));
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace sardonyx
