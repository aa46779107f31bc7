// Runs commands that trace or read Python in Python: the process becomes `python -c ... ARGUMENTS`.
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

// `python -m sardonyx`, with a message in place of a traceback where that cannot be imported. Runs under any Python 3.
constexpr const char* kStart = R"(
import sys
try:
    from sardonyx.__main__ import main
except Exception as e:
    version = ".".join(map(str, sys.version_info[:3]))
    is_missing = isinstance(e, ImportError) and getattr(e, "name", None) == "sardonyx"
    what = "sardonyx is not installed in it" if is_missing else "cannot import sardonyx: %s" % e
    sys.stderr.write("error: '%s' runs in %s (Python %s), and %s\n" % (sys.argv[1], sys.executable, version, what))
    if sys.version_info < (3, 11):
        sys.stderr.write("  expected Python 3.11 or newer\n")
    else:
        sys.stderr.write("  help: %s -m pip install 'sardonyx[jax]'\n" % sys.executable)
    sys.stderr.write("  help: or name another interpreter: SARDONYX_PYTHON=/path/to/python sardonyx %s ...\n" % sys.argv[1])
    sys.exit(1)
sys.exit(main(sys.argv[1:]))
)";

}  // namespace

void run_python(const std::vector<std::string>& given) {
  const std::string python = interpreter();
  std::vector<std::string> arguments{python, "-c", kStart};
  arguments.insert(arguments.end(), given.begin(), given.end());
  sys::become(python, arguments);
  throw Error(ErrorCode::kIo, fmt::format("cannot start {}: {}", python, std::strerror(errno)),
              {"help: this command needs Python with sardonyx[jax] installed; SARDONYX_PYTHON says where it is"});
}

}  // namespace sardonyx::tools
