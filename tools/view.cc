// sardonyx view: shows a model as text or as a page.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "commands.h"
#include "output.h"
#include "page.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"
#include "say.h"
#include "support/atomic_file.h"
#include "view/model_page.h"
#include "view/steps_file.h"

namespace sardonyx::tools {
namespace {

std::string page_of(Model& m, const std::string& input, const ViewArgs& args) {
  std::optional<OptimizeOptions> options;
  if (!args.passes.empty()) options = optimize_options(args.passes, m.dialect());
  return view::model_page(m, input, options ? &*options : nullptr);
}

int view_steps(const FileArgs& files, const ViewArgs& args, bool is_page) {
  if (!args.passes.empty())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} holds the steps of an optimization, and --passes runs one", files.input));
  if (!is_page)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} holds the steps of an optimization, which a page shows", files.input),
                {"help: add -o page.html"});
  write_page(args.output, view::page(view::read_steps(files.input)));
  if (!args.json) return 0;
  ordered_json j = json_head("view", files.input, true);
  j["output"] = args.output;
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

int view(const FileArgs& files, const ViewArgs& args) {
  const std::string suffix = std::filesystem::path(args.output).extension().string();
  const bool is_page = suffix == ".html" || suffix == ".htm" || is_standard_output(args.output);
  const bool is_text = suffix == ".txt" || suffix == ".sx";
  if (!args.output.empty() && !is_page && !is_text) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' ends in {}, and a model is shown as a page (.html) or as text (.txt, .sx)", args.output,
                            suffix.empty() ? "no suffix" : suffix),
                {fmt::format("help: name the output '{}.html'", args.output)});
  }
  if (!args.passes.empty() && !is_page) {
    throw Error(ErrorCode::kInvalidArgument, "--passes shows the steps of an optimization on a page, and no page is written",
                {"help: add -o page.html; `sardonyx optimize` writes the optimized model"});
  }
  if (is_page) view::require_page();
  if (std::filesystem::path(files.input).extension() == ".sxt") return view_steps(files, args, is_page);
  const auto model = read_model(opened(files.input), {.map = !files.no_mmap});
  ValueFacts facts;
  infer_model(*model, facts, /*tolerant=*/true);  // what is wrong, `check` says
  if (!args.output.empty()) {
    const std::string content = is_page ? page_of(*model, files.input, args) : print(*model, {.types = true});
    write_page(args.output, content);
  }
  if (args.json) {
    ordered_json j = json_head("view", files.input, true);
    j["output"] = args.output.empty() ? ordered_json() : ordered_json(args.output);
    if (args.output.empty()) j["text"] = print(*model, {.types = true});
    print_one(std::move(j));
  } else if (args.output.empty()) {
    fmt::print("{}", print(*model, {.types = true}));
  }
  return 0;
}

}  // namespace sardonyx::tools
