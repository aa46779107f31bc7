// sardonyx view: shows a model as text or as a page.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "cli/print/output.h"
#include "cli/print/page.h"
#include "cli/print/say.h"
#include "commands.h"
#include "convert/read_source.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"
#include "support/files/atomic_file.h"
#include "view/model_page.h"
#include "view/steps_file.h"

namespace sardonyx::cli {
namespace {

std::string page_of(Model& m, const std::string& input, const std::string& passes) {
  std::optional<OptimizeOptions> options;
  if (!passes.empty()) options = optimize_options(passes, m.dialect());
  return view::model_page(m, input, options ? &*options : nullptr);
}

int view_steps(const Given& given, bool is_page) {
  const std::string input = given.text("model"), output = given.text("output");
  if (given.has("passes"))
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} holds the steps of an optimization, and --passes runs one", input));
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
  const std::string input = given.text("model"), output = given.text("output"), passes = given.text("passes");
  const std::string suffix = std::filesystem::path(output).extension().string();
  const bool is_page = suffix == ".html" || suffix == ".htm" || is_standard_output(output);
  const bool is_text = suffix == ".txt" || suffix == ".sx";
  if (!output.empty() && !is_page && !is_text) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' ends in {}, and a model is shown as a page (.html) or as text (.txt, .sx)", output,
                            suffix.empty() ? "no suffix" : suffix),
                {fmt::format("help: name the output '{}.html'", output)});
  }
  if (!passes.empty() && !is_page) {
    throw Error(ErrorCode::kInvalidArgument, "--passes shows the steps of an optimization on a page, and no page is written",
                {"help: add -o page.html; `sardonyx optimize` writes the optimized model"});
  }
  if (is_page) view::require_page();
  if (std::filesystem::path(input).extension() == ".sxt") return view_steps(given, is_page);
  const auto model = read_source(opened(input), read_options(given));
  ValueFacts facts;
  infer_model(*model, facts, /*tolerant=*/true);  // what is wrong, `check` says
  if (!output.empty()) {
    const std::string content = is_page ? page_of(*model, input, passes) : print(*model, {.types = true});
    write_page(output, content);
  }
  if (given.has("json")) {
    ordered_json j = json_head("view", input, true);
    j["output"] = output.empty() ? ordered_json() : ordered_json(output);
    if (output.empty()) j["text"] = print(*model, {.types = true});
    print_one(std::move(j));
  } else if (output.empty()) {
    fmt::print("{}", print(*model, {.types = true}));
  }
  return 0;
}

}  // namespace sardonyx::cli
