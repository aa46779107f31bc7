// Runs commands that trace or read Python in Python: the process becomes `python -m sardonyx ...`.
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "commands.h"
#include "sardonyx/error.h"
#include "support/system.h"

namespace sardonyx::tools {
namespace {

// The interpreter that SARDONYX_PYTHON names, else that of the environment this program is installed in, else
// the first on PATH.
std::string interpreter() {
  if (const char* named = std::getenv("SARDONYX_PYTHON"); named != nullptr && *named != '\0') return named;
  std::error_code ignored;
  const auto folder = sys::running_program().parent_path();
  if (!folder.empty()) {
    for (const char* name : {"python3", "python", "python.exe"}) {
      const auto candidate = folder / name;
      if (std::filesystem::is_regular_file(candidate, ignored) && sys::may_run(candidate)) return candidate.string();
    }
  }
  return "python3";
}

}  // namespace

void run_python(int argc, char** argv) {
  const std::string python = interpreter();
  std::vector<std::string> arguments{python, "-m", "sardonyx"};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  sys::become(python, arguments);
  throw Error(ErrorCode::kIo, fmt::format("cannot start {}: {}", python, std::strerror(errno)),
              {fmt::format("help: '{}' needs Python with sardonyx installed; SARDONYX_PYTHON says where it is", argv[1])});
}

}  // namespace sardonyx::tools
