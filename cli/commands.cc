#include "commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/print/output.h"
#include "cli/print/say.h"
#include "cli/print/terminal.h"
#include "convert/file_names.h"
#include "convert/read_source.h"
#include "io/text/program_file.h"
#include "sardonyx/infer.h"
#include "sardonyx/inspect.h"
#include "sardonyx/io.h"

namespace sardonyx::cli {

void show_error(const std::exception& e) { fmt::print(stderr, "{} {}\n", painted(stderr, kRed, "error:"), e.what()); }

int exit_code_of(const std::exception& e) {
  constexpr int kRefused = 1, kUsage = 2;
  const auto* error = dynamic_cast<const Error*>(&e);
  return error != nullptr && error->code() == ErrorCode::kInvalidArgument ? kUsage : kRefused;
}

int guarded(std::string_view command, const std::string& input, bool json, const std::function<int()>& run) {
  if (!json) return run();
  try {
    return run();
  } catch (const std::exception& e) {
    ordered_json object = json_head(command, input, false);
    object["error"] = json_of(e);
    print_one(std::move(object));
    show_error(e);
    return exit_code_of(e);
  }
}

int check(const Given& given) {
  const std::string input = given.text("model");
  const bool json = given.has("json");
  const auto model = read_source(opened(input), read_options(given));
  ValueFacts facts;
  const auto faults = infer_model(*model, facts, /*tolerant=*/true);
  if (!json) {
    for (const std::string& message : faults) say("fault: {}\n", message);
  }
  verify(*model);
  std::vector<std::string> warned;
  for (const std::string& message : warnings(*model)) {
    const bool said = !faults.empty() && message.starts_with("not checked");
    if (!said) warned.push_back(message);
  }
  if (json) {
    ordered_json j = json_head("check", input, faults.empty());
    j["nodes"] = model->num_nodes();
    j["faults"] = faults;
    j["warnings"] = warned;
    print_one(std::move(j));
    return faults.empty() ? 0 : 1;
  }
  for (const std::string& message : warned) say("warning: {}\n", message);
  if (faults.empty()) {
    say("{}: {} nodes, no faults\n", input, model->num_nodes());
    return 0;
  }
  say("{}: {} of {} nodes are ill-typed\n", input, faults.size(), model->num_nodes());
  return 1;
}

std::pair<std::string, std::string> at_equals(const std::string& text, std::string_view expected) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("expected {}, found '{}'", expected, text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::pair<std::string, std::string>> pass_options(const Given& given) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& o : given.list("option")) all.push_back(at_equals(o, "an option as pass.option=value"));
  return all;
}

std::optional<Tolerance> tolerance_of(const Given& given) {
  if (!given.has("rtol") && !given.has("atol")) return std::nullopt;
  return Tolerance{given.number("rtol").value_or(0), given.number("atol").value_or(0)};
}

DialectId dialect_of(const std::filesystem::path& in) {
  if (is_coreml_name(in)) return DialectId::kMil;
  if (in.extension() != ".sx") return DialectId::kOnnx;
  try {
    return load_program(in)->dialect();
  } catch (const Error&) {
    return DialectId::kOnnx;  // the command says what is wrong
  }
}

std::string long_type(std::string text) {
  for (const auto& [own, other] : {std::pair("f16", "fp16"), {"f32", "fp32"}}) {
    if (text == own || text.ends_with(fmt::format("={}", own))) return text.substr(0, text.size() - 3) + other;
  }
  return text;
}

ReadOptions read_options(const Given& given) { return {.map = !given.has("no-mmap")}; }

WriteOptions write_options(const Given& given) {
  WriteOptions options;
  if (given.has("external-data")) options.external = WriteOptions::External::kAlways;
  options.data_file = given.text("external-data");
  options.external_threshold = given.count("data-threshold", options.external_threshold);
  options.max_data_file_bytes = given.count("max-data-file", 0);
  return options;
}

}  // namespace sardonyx::cli
