// sardonyx view: shows a model as text or as a page.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "cli/options/value_texts.h"
#include "cli/print/output.h"
#include "cli/print/page.h"
#include "cli/print/say.h"
#include "commands.h"
#include "convert/read_source.h"
#include "convert/run_inputs.h"
#include "inspect/value_errors.h"
#include "sardonyx/eval.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"
#include "support/files/atomic_file.h"
#include "view/curve_file.h"
#include "view/model_page.h"
#include "view/steps_file.h"

namespace sardonyx::cli {
namespace {

// How far results of nodes are from those of the model --against.
std::optional<ValueErrors> errors_of(const Model& m, const Given& given) {
  if (!given.has("against")) return std::nullopt;
  const auto reference = read_source(opened(given.text("against")), read_options(given));
  ValueFacts facts;
  infer_model(*reference, facts, /*tolerant=*/true);
  const Graph& g = reference->graph();
  std::vector<EvalValue> inputs = inputs_by_name(g, input_values(g, given.list("input")));
  fill_inputs(g, inputs, given.count("seed", 0));
  check_inputs(g, inputs);
  return value_errors(m, *reference, inputs);
}

std::string page_of(Model& m, const Given& given, const std::optional<ValueErrors>& errors) {
  const std::string input = given.text("model"), passes = given.text("passes");
  if (!passes.empty()) return view::steps_page(m, input, optimize_options(passes, m.dialect()));
  view::PageExtras extras{.errors = errors ? &*errors : nullptr, .reference = given.text("against")};
  if (given.has("report")) extras.curve = view::read_curve(given.text("report"), input);
  return view::model_page(m, input, extras);
}

// Those of values with names; null where a number would be infinite.
ordered_json json_of(const ValueErrors& errors) {
  std::map<std::string, ordered_json> by_name;
  for (const auto& [value, error] : errors) {
    const std::string_view name = value->name().view();
    if (!name.empty()) by_name.emplace(name, std::isfinite(error) ? ordered_json(error) : ordered_json());
  }
  return by_name;
}

// Options of pages, where another is missing or in the way.
void check_options(const Given& given, bool is_page, bool is_steps) {
  const std::string input = given.text("model");
  for (const char* option : {"passes", "against", "report"}) {
    if (!given.has(option)) continue;
    if (is_steps) refuse(fmt::format("{} holds the steps of an optimization, and --{} is for models", input, option), {});
    if (!is_page) refuse(fmt::format("--{} is about a page, and no page is written", option), {"help: add -o page.html"});
    if (option != std::string_view("passes") && given.has("passes"))
      refuse(fmt::format("--passes shows each step of an optimization, and --{} one model", option), {"help: leave one out"});
  }
  for (const char* option : {"input", "seed"}) {
    if (given.has(option) && !given.has("against"))
      refuse(fmt::format("--{} is for --against, which runs the model", option), {"help: --against MODEL, or `sardonyx run`"});
  }
}

int view_steps(const Given& given, bool is_page) {
  const std::string input = given.text("model"), output = given.text("output");
  if (!is_page)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} holds the steps of an optimization, which a page shows", input),
                {"help: add -o page.html"});
  write_page(output, view::page(view::read_steps(input)));
  if (!given.has("json")) return 0;
  ordered_json j = json_head("view", input, true);
  j["output"] = output;
  print_one(std::move(j));
  return 0;
}

}  // namespace

void require_page_name(const std::string& output) {
  const std::string suffix = std::filesystem::path(output).extension().string();
  if (suffix != ".html" && suffix != ".htm" && !is_standard_output(output)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' ends in {}, and a page ends in .html", output, suffix.empty() ? "no suffix" : suffix),
                {fmt::format("help: name the output '{}.html'", output)});
  }
  view::require_page();
}

void write_page(const std::string& output, const std::string& page) {
  AtomicFile file(output == "-" ? "/dev/stdout" : output);
  file.append(page);
  file.commit();
}

int view(const Given& given) {
  const std::string input = given.text("model"), output = given.text("output");
  const std::string suffix = std::filesystem::path(output).extension().string();
  const bool is_page = suffix == ".html" || suffix == ".htm" || is_standard_output(output);
  const bool is_text = suffix == ".txt" || suffix == ".sx";
  if (!output.empty() && !is_page && !is_text) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' ends in {}, and a model is shown as a page (.html) or as text (.txt, .sx)", output,
                            suffix.empty() ? "no suffix" : suffix),
                {fmt::format("help: name the output '{}.html'", output)});
  }
  const bool is_steps = std::filesystem::path(input).extension() == ".sxt";
  check_options(given, is_page, is_steps);
  if (is_page) view::require_page();
  if (is_steps) return view_steps(given, is_page);
  const auto model = read_source(opened(input), read_options(given));
  ValueFacts facts;
  infer_model(*model, facts, /*tolerant=*/true);  // what is wrong, `check` says
  const std::optional<ValueErrors> errors = errors_of(*model, given);
  if (!output.empty()) {
    const std::string content = is_page ? page_of(*model, given, errors) : print(*model, {.types = true});
    write_page(output, content);
  }
  if (given.has("json")) {
    ordered_json j = json_head("view", input, true);
    j["output"] = output.empty() ? ordered_json() : ordered_json(output);
    if (output.empty()) j["text"] = print(*model, {.types = true});
    if (errors) j["errors"] = json_of(*errors);
    print_one(std::move(j));
  } else if (output.empty()) {
    fmt::print("{}", print(*model, {.types = true}));
  }
  return 0;
}

}  // namespace sardonyx::cli
