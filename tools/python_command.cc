// Runs commands that trace or read Python in Python: the process becomes `python -m sardonyx ...`.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "commands.h"
#include "sardonyx/error.h"

namespace sardonyx::tools {
namespace {

// The interpreter that SARDONYX_PYTHON names, else that of the environment this program is installed in, else
// the first on PATH.
std::string interpreter() {
  if (const char* named = std::getenv("SARDONYX_PYTHON"); named != nullptr && *named != '\0') return named;
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  if (!folder.empty()) {
    for (const char* name : {"python3", "python"}) {
      const auto candidate = folder / name;
      if (std::filesystem::is_regular_file(candidate, ignored) && access(candidate.c_str(), X_OK) == 0) return candidate;
    }
  }
  return "python3";
}

}  // namespace

void run_python(int argc, char** argv) {
  std::string python = interpreter();
  std::string module_flag = "-m", module = "sardonyx";
  std::vector<char*> arguments{python.data(), module_flag.data(), module.data()};
  for (int i = 1; i < argc; ++i) arguments.push_back(argv[i]);
  arguments.push_back(nullptr);
  execvp(python.c_str(), arguments.data());
  throw Error(ErrorCode::kIo, fmt::format("cannot start {}: {}", python, std::strerror(errno)),
              {fmt::format("help: '{}' needs Python with sardonyx installed; SARDONYX_PYTHON says where it is", argv[1])});
}

}  // namespace sardonyx::tools
