// The commands. Each returns the exit code. options.cc lists their options.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/options.h"
#include "sardonyx/io.h"
#include "sardonyx/passes.h"

namespace sardonyx {
struct OptimizeOptions;
struct Tolerance;
enum class DialectId : uint8_t;
}  // namespace sardonyx

namespace sardonyx::cli {

int convert(const Given& given);
// Optimizes one model, or several into a folder. Continues after a model that is refused; the exit code
// tells.
int optimize(const Given& given);
// Returns 0 when the models compute the same; 1 when they differ, when nothing could be compared, or when a
// runtime loads only the first.
int compare(const Given& given);
int half_report(const Given& given);
int check(const Given& given);
// Returns 0 when the models are the same, else 1.
int diff(const Given& given);
int view(const Given& given);
int info(const Given& given);
// info --node and --line. Returns 1 if there are no such nodes.
int where(const Given& given);
int run(const Given& given);
int passes(const Given& given);
// Replaces this process by Python, which runs the command with these options. Returns only by throwing (kIo).
[[noreturn]] int run_python(const Given& given);
// With more keywords for the Python function.
[[noreturn]] void run_python(const Given& given, const nlohmann::ordered_json& keywords);

// What `optimize` does with these --passes and no other option.
OptimizeOptions optimize_options(const std::string& passes, DialectId dialect);
// pass.option=value, of --option.
std::vector<std::pair<std::string, std::string>> pass_options(const Given& given);
std::pair<std::string, std::string> at_equals(const std::string& text, std::string_view expected);
std::optional<Tolerance> tolerance_of(const Given& given);

// The dialect of a model, by its name; of a text, by what it says. ONNX for texts that cannot be read.
DialectId dialect_of(const std::filesystem::path& in);
// "x=fp16" for "x=f16".
std::string long_type(std::string text);
ReadOptions read_options(const Given& given);
WriteOptions write_options(const Given& given);

// Prints "error: ..." and the indented notes to stderr.
void show_error(const std::exception& e);
// The exit code for an error: 2 if the command line is wrong, else 1.
int exit_code_of(const std::exception& e);
// Runs a command. With `json`, prints an error as an object of --json as well.
int guarded(std::string_view command, const std::string& input, bool json, const std::function<int()>& run);

}  // namespace sardonyx::cli
