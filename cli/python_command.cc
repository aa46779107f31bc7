// Runs commands that trace functions, and profile, in Python: the process becomes `python -c ... COMMAND
// OPTIONS`, with the options as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/print/output.h"
#include "commands.h"
#include "sardonyx/error.h"
#include "support/system/system.h"

namespace sardonyx::cli {
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

// `python -m sardonyx`, with a message in place of a traceback where that cannot be imported. Runs under any
// Python 3.
constexpr const char* kStart = R"(
import sys
try:
    from sardonyx.__main__ import run_command
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
sys.exit(run_command(sys.argv[1], sys.argv[2]))
)";

// All options of the command: false, null or an empty list for those that are not given.
ordered_json json_of(const Given& given) {
  ordered_json all = ordered_json::object();
  for (const Option* o : options_of(given.command())) {
    std::string key(o->name());
    const std::vector<std::string>& values = given.list(key);
    std::ranges::replace(key, '-', '_');
    if (o->repeats()) {
      all[key] = values;
    } else if (!o->takes_value() && !o->is_positional()) {
      all[key] = !values.empty();
    } else if (values.empty()) {
      all[key] = nullptr;
    } else if (o->value == "N" || o->value == "OPSET") {
      all[key] = given.count(o->name(), 0);
    } else if (o->value == "TOLERANCE") {
      all[key] = *given.number(o->name());
    } else {
      all[key] = values.back();
    }
  }
  return all;
}

}  // namespace

int run_python(const Given& given) { run_python(given, nullptr); }

void run_python(const Given& given, const ordered_json& keywords) {
  const std::string python = interpreter();
  ordered_json options = json_of(given);
  options["keywords"] = keywords;
  const std::vector<std::string> arguments{python, "-c", kStart, given.command(), options.dump()};
  sys::become(python, arguments);
  throw Error(ErrorCode::kIo, fmt::format("cannot start {}: {}", python, std::strerror(errno)),
              {"help: this command needs Python with sardonyx[jax] installed; SARDONYX_PYTHON says where it is"});
}

}  // namespace sardonyx::cli
