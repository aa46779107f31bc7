// sardonyx convert: from a function, an ONNX model, a saved program or a Core ML program to what the suffix
// of the output says.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/coreml_texts.h"
#include "cli/options/habits.h"
#include "cli/options/value_texts.h"
#include "cli/print/console.h"
#include "cli/print/output.h"
#include "cli/print/say.h"
#include "commands.h"
#include "convert/debug_dump.h"
#include "convert/file_names.h"
#include "convert/plugin.h"
#include "convert/to_coreml.h"
#include "convert/to_onnx.h"
#include "dialects/onnx/runtimes/runtimes.h"
#include "io/text/program_file.h"
#include "sardonyx/inspect.h"
#include "sardonyx/stablehlo.h"
#include "support/system/stopwatch.h"
#include "view/steps.h"
#include "view/steps_file.h"

namespace sardonyx::cli {
namespace {

// --- From ONNX to Core ML

// Converts the models of several functions, or the model, to a package.
std::vector<ToCoremlReport> converted(const Given& given, const std::string& input, const std::string& output) {
  const ReadOptions read = read_options(given);
  ToCoremlOptions how = coreml_options(given);
  std::vector<ToCoremlReport> reports;
  ProgressLine progress;
  std::optional<DebugDump> dump;
  std::optional<view::Steps> steps;
  Observers observers;
  if (!given.has("quiet") && !given.has("json")) observers.add(&progress);
  if (given.has("debug-dump")) observers.add(&dump.emplace(given.text("debug-dump")));
  if (given.has("trace")) {
    view::check_steps_name(given.text("trace"));
    observers.add(&steps.emplace(output));
  }
  how.observer = observers.get();
  if (given.has("function")) {
    std::vector<std::unique_ptr<Model>> models;
    std::vector<CoremlFunction> functions;
    for (const std::string& f : given.list("function")) {
      const auto [name, path] = at_equals(f, "a function as name=model.onnx");
      models.push_back(read_for_coreml(path, read));
      functions.push_back({name, models.back().get()});
    }
    std::vector<const Model*> sources;
    for (const auto& m : models) sources.push_back(m.get());
    write_converted(*functions_to_coreml(functions, how, reports), output, sources);
  } else {
    if (given.has("calibrate"))
      how.calibrate = inputs_of_runs(read_for_coreml(opened(input), read)->graph(), given.list("calibrate"));
    reports.push_back(convert_to_coreml(opened(input), output, how, read));
  }
  if (steps) view::write_steps(given.text("trace"), steps->scene());
  return reports;
}

// Compares the package with the model. Throws if they differ, or if that cannot be judged.
ModelComparison compared(const Given& given, const std::string& input, const std::string& output) {
  if (given.has("function")) refuse("--verify takes one model, and --function converts several");
  if (given.text("verify") == "pass") refuse("--verify=pass is for optimizations; a conversion is compared as a whole");
  const auto before = read_model(opened(input), read_options(given)), after = read_model(output, {});
  ModelComparison found = compare_models(*before, *after, {}, {}, tolerance_of(given));
  if (found.difference)
    throw Error(ErrorCode::kInternal, fmt::format("'{}' differs from the model: {}", output, *found.difference));
  if (found.runs == 0)
    throw Error(ErrorCode::kUnsupported, fmt::format("'{}' could not be compared: {}", output, found.skipped));
  return found;
}

int onnx_to_coreml(const Given& given, const std::string& output) {
  require_output_name(output, DialectId::kMil);
  if (given.has("models") == given.has("function"))
    refuse("expected a model, or models as functions (--function), and not both");
  if (given.list("models").size() > 1) refuse("Core ML packages are made one by one, and several models are given");
  const std::string input = given.text("models");
  Stopwatch watch;
  const std::vector<ToCoremlReport> reports = converted(given, input, output);
  const double seconds = watch.lap();
  std::optional<ModelComparison> comparison;
  if (given.text("verify", "off") != "off") comparison = compared(given, input, output);
  size_t nodes = 0, all_ops = 0;
  std::map<std::string, size_t> ops;
  std::vector<std::pair<std::string, std::string>> renamed;
  std::vector<std::string> open_sizes, single, not_converged;
  for (const ToCoremlReport& r : reports) {
    nodes += r.nodes;
    for (const auto& [op, count] : r.ops) ops[op] += count, all_ops += count;
    renamed.insert(renamed.end(), r.renamed.begin(), r.renamed.end());
    single.insert(single.end(), r.single.begin(), r.single.end());
    not_converged.insert(not_converged.end(), r.not_converged.begin(), r.not_converged.end());
    open_sizes.insert(open_sizes.end(), r.open_sizes.begin(), r.open_sizes.end());
  }
  const std::string from = input.empty() ? fmt::format("{}", fmt::join(given.list("function"), " ")) : input;
  if (given.has("json")) {
    ordered_json j = json_head("convert", from, true);
    j["output"] = output;
    j["nodes"] = nodes;
    j["ops"] = ops;
    j["renamed"] = renamed;
    j["open_sizes"] = open_sizes;
    j["single"] = single;
    for (const auto& [what, times] : reports.front().integers) j["integers"][what] = times;
    j["not_converged"] = not_converged;
    j["seconds"] = seconds;
    if (comparison) {
      j["evaluations"] = comparison->runs;
      j["largest_error"] = comparison->largest_error;
    }
    print_one(std::move(j));
    return 0;
  }
  for (const auto& [before, after] : renamed) warn("'{}' is called '{}' in the Core ML model\n", before, after);
  for (const std::string& what : not_converged) warn("{}\n", what);
  for (const std::string& op : single) warn("stays in single precision: {}\n", op);
  for (const std::string& port : open_sizes)
    warn("{} has a size without an upper bound: the model takes up to {}; help: --size \"T <= 512\"\n", port,
         kAssumedUpperBound);
  if (given.has("quiet")) return 0;
  say("{} -> {}: {} nodes, {} ops, {:.3f} s\n", from, output, nodes, all_ops, seconds);
  for (const auto& [what, times] : reports.front().integers) say("  {:>6} {}\n", times, what);
  if (comparison) say("  {} evaluations compared, largest error {:.3g}\n", comparison->runs, comparison->largest_error);
  return 0;
}

// --- From saved programs to ONNX

// Types of the jax dialect come from the trace: inference cannot supply them.
void require_types(const Graph& g) {
  for (const Node& n : g.nodes()) {
    for (const Value& v : n.results()) {
      if (v.type() != nullptr || !v.has_uses()) continue;
      throw Error(ErrorCode::kInvalidModel, fmt::format("the result '{}' of {} has no type", v.name().view(), n.op().name),
                  {fmt::format("help: write it as \"{}: f32[2,3] = {}(...)\"", v.name().view(), n.op().name)});
    }
    for (const Body& body : n.bodies()) require_types(*body.graph);
  }
}

std::unique_ptr<Model> lowered(const Given& given, const Model& program) {
  for (const auto& f : program.functions()) require_types(f->graph());
  ConvertOptions options;
  options.lower.target = given.text("target");
  if (given.has("opset")) {
    options.lower.opset = static_cast<int>(given.count("opset", 0));
  } else if (given.has("target")) {
    options.lower.opset = std::min(options.lower.opset, onnx::runtime_named(options.lower.target).opset);
  }
  auto made = std::make_unique<Model>(DialectId::kOnnx);
  LoweringRegistry registry(&LoweringRegistry::builtin());
  LateAttributes late;
  for (const std::string& plugin : given.list("plugin")) load_plugin(plugin, registry, late);
  options.after_passes = [&](Model&) { late.set(); };
  sardonyx::convert(program, *made, options, registry);
  check_nesting(*made);
  return made;
}

int program_to_onnx(const Given& given, std::unique_ptr<Model> model, const std::string& output) {
  given.require_fit(Kind::kProgram, given.text("models"));
  require_output_name(output, DialectId::kOnnx);
  model = lowered(given, *model);
  if (output.ends_with(".sx")) {
    save_program(*model, output);
  } else {
    write_onnx(*model, output, write_options(given));
  }
  if (given.has("json")) {
    ordered_json j = json_head("convert", given.text("models"), true);
    j["output"] = output;
    j["nodes"] = model->num_nodes();
    print_one(std::move(j));
  }
  return 0;
}

}  // namespace

int convert(const Given& given) {
  const std::string input = given.text("models"), output = given.text("output");
  const bool to_coreml = is_coreml_name(output);
  if (!given.has("models") && !given.has("function"))
    refuse("what to convert is missing", {"help: sardonyx convert model.onnx -o model.mlpackage"});
  if (is_function(input)) {
    given.require_fit(to_coreml ? Kind::kFunctionToCoreml : Kind::kFunction, output);
    run_python(given, to_coreml ? coreml_keywords(given) : ordered_json());
  }
  const bool is_one_text = given.list("models").size() == 1 && input.ends_with(".sx");
  std::unique_ptr<Model> text =
      is_one_text && std::filesystem::exists(input) ? load_program(input, !given.has("no-mmap")) : nullptr;
  const bool is_coreml = text ? text->dialect() == DialectId::kMil : is_coreml_name(input);
  if (given.list("models").size() == 1 && is_stablehlo_name(input) && !to_coreml)
    return program_to_onnx(given, lower_stablehlo_to_jax(*load_stablehlo(opened(input), read_options(given))), output);
  if (text && text->dialect() == DialectId::kStablehlo) text = lower_stablehlo_to_jax(*text);
  if (text && text->dialect() == DialectId::kJax) {
    if (to_coreml)
      refuse("a saved program becomes ONNX first", {fmt::format("help: sardonyx convert {} -o model.onnx", input)});
    return program_to_onnx(given, std::move(text), output);
  }
  if (given.has("function") || (to_coreml && !is_coreml)) {
    given.require_fit(Kind::kOnnxToCoreml, output);
    return onnx_to_coreml(given, output);
  }
  return optimize(given);
}

}  // namespace sardonyx::cli
