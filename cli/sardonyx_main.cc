// The sardonyx command.
//
// Exit codes: 0 = success; 1 = the input was refused, or a check failed; 2 = the command line is invalid.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/options/habits.h"
#include "cli/options/option_tables.h"
#include "cli/options/options.h"
#include "cli/print/output.h"
#include "commands.h"
#include "sardonyx/error.h"
#include "sardonyx/passes.h"
#include "sardonyx/version.h"

namespace sardonyx::cli {
namespace {

int completion(const Given& given) {
  const std::string shell = given.text("shell");
  if (shell == "names") {  // for the scripts
    for (const PresetInfo& p : list_presets()) fmt::print("{}\n", p.name);
    for (const PassInfo& p : list_passes()) fmt::print("{}\n", p.name);
  } else {
    fmt::print("{}", shell == "markdown" ? options_table() : completion_script(shell));
  }
  return 0;
}

int run_command(const Given& given) {
  using Run = int (*)(const Given&);
  // Of each command also what `input` is in --json.
  constexpr std::tuple<std::string_view, Run, std::string_view> kRuns[] = {
      {"convert", convert, "models"},   {"optimize", optimize, "models"},
      {"compare", compare, "before"},   {"check", check, "model"},
      {"diff", diff, "before"},         {"view", view, "model"},
      {"info", info, "model"},          {"run", run, "model"},
      {"profile", run_python, "model"}, {"passes", passes, ""},
  };
  const auto at = std::ranges::find(kRuns, given.command(), [](const auto& r) { return std::get<0>(r); });
  const auto& [name, run, input] = *at;
  const auto& inputs = given.list(input);
  return guarded(name, inputs.empty() ? "" : inputs.front(), given.has("json"), [&] { return run(given); });
}

int execute(const std::vector<std::string>& given_arguments) {
  const std::vector<std::string> arguments = understood(given_arguments);
  const std::string& command = arguments.front();
  if (command == "--version") {
    fmt::print("{}\n", version());
    return 0;
  }
  const Given given(command, {arguments.begin() + 1, arguments.end()});
  if (given.has("help") || command == "help") {
    fmt::print("{}", help_page(command == "help" ? given.text("command") : command));
    return 0;
  }
  if (command == "completion") return completion(given);
  if (command == "man") {
    fmt::print("{}", man_page(version()));
    return 0;
  }
  return run_command(given);
}

}  // namespace
}  // namespace sardonyx::cli

int main(int argc, char** argv) {
  using namespace sardonyx;
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  try {
    const int status = cli::execute(arguments);
    cli::finish_output();
    return status;
  } catch (const std::bad_alloc&) {
    return cli::report_error(arguments, Error(ErrorCode::kLimit, "out of memory"));
  } catch (const std::filesystem::filesystem_error& e) {
    return cli::report_error(arguments, e);
  } catch (const std::system_error& e) {  // fmt::print could not write
    return cli::report_error(arguments,
                             Error(ErrorCode::kIo, fmt::format("cannot write to standard output: {}", e.code().message())));
  } catch (const std::exception& e) {
    return cli::report_error(arguments, e);
  }
}
