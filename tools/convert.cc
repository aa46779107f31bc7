#include "convert.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "driver/debug_dump.h"
#include "driver/file_names.h"
#include "driver/model_counts.h"
#include "driver/to_coreml.h"
#include "output.h"
#include "say.h"
#include "support/stopwatch.h"
#include "view/steps.h"
#include "view/steps_file.h"

namespace sardonyx::tools {
namespace {

struct ConvertArgs {
  std::string input, output, precision = "fp16", dump, trace;
  std::string class_labels, skip_ops;
  std::vector<std::string> options, user_defined, states, shapes, functions, default_sizes;
  CoremlClassifier classifier;
  ToCoremlOptions how;
  bool no_mmap = false, json = false, quiet = false;
};

std::pair<std::string, std::string> at_equals(const std::string& text, std::string_view what) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) throw Error(ErrorCode::kInvalidArgument, fmt::format("expected {}, found '{}'", what, text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

int64_t whole_number(const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(ErrorCode::kInvalidArgument, fmt::format("expected a size as T=128, found '{}'", text));
  return n;
}

struct Converted {
  std::vector<ToCoremlReport> reports;
  double seconds = 0;
};

// The models of several functions, or the model.
Converted converted(const ConvertArgs& args) {
  const ReadOptions read{.map = !args.no_mmap};
  ToCoremlOptions how = args.how;
  ProgressLine progress;
  std::optional<DebugDump> dump;
  std::optional<view::Steps> steps;
  Observers observers;
  if (!args.quiet && !args.json) observers.add(&progress);
  if (!args.dump.empty()) observers.add(&dump.emplace(args.dump));
  if (!args.trace.empty()) observers.add(&steps.emplace(args.output));
  how.observer = observers.get();
  Converted out;
  Stopwatch watch;
  if (args.functions.empty()) {
    out.reports.push_back(convert_to_coreml(opened(args.input), args.output, how, read));
  } else {
    std::vector<std::unique_ptr<Model>> models;
    std::vector<CoremlFunction> functions;
    for (const std::string& f : args.functions) {
      const auto [name, path] = at_equals(f, "a function as name=model.onnx");
      models.push_back(read_for_coreml(path, read));
      functions.push_back({name, models.back().get()});
    }
    std::vector<const Model*> sources;
    for (const auto& m : models) sources.push_back(m.get());
    write_converted(*functions_to_coreml(functions, how, out.reports), args.output, sources);
  }
  if (steps) view::write_steps(args.trace, steps->scene());
  out.seconds = watch.lap();
  return out;
}

int convert(ConvertArgs args) {
  require_output_name(args.output, DialectId::kMil);
  if (args.input.empty() == args.functions.empty())
    throw Error(ErrorCode::kInvalidArgument, "expected a model, or models as functions (--function), and not both");
  args.how.half = args.precision == "fp16";
  if (!args.trace.empty()) view::check_steps_name(args.trace);
  for (const std::string& o : args.options) args.how.pass_options.push_back(at_equals(o, "an option as pass.option=value"));
  if (!args.skip_ops.empty()) args.how.pass_options.emplace_back("add_fp16_cast.skip_ops", args.skip_ops);
  for (const std::string& s : args.states) args.how.states.push_back(at_equals(s, "a state as input=result"));
  for (const std::string& u : args.user_defined)
    args.how.metadata.user_defined.push_back(at_equals(u, "metadata as key=value"));
  for (const std::string& d : args.default_sizes) {
    const auto [name, size] = at_equals(d, "a size as T=128");
    args.how.default_sizes.emplace_back(name, whole_number(size));
  }
  for (const std::string& shape : args.shapes) add_enumerated_shape(args.how.enumerated_shapes, shape);
  if (!args.class_labels.empty()) {
    args.classifier.texts = read_class_labels(args.class_labels);
    args.how.classifier = args.classifier;
  }
  const auto [reports, seconds] = converted(args);
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
  const std::string from = args.functions.empty() ? args.input : fmt::format("{}", fmt::join(args.functions, " "));
  if (args.json) {
    ordered_json j = json_head("convert", from, true);
    j["output"] = args.output;
    j["nodes"] = nodes;
    j["ops"] = ops;
    j["renamed"] = renamed;
    j["open_sizes"] = open_sizes;
    j["single"] = single;
    j["not_converged"] = not_converged;
    j["seconds"] = seconds;
    print_one(std::move(j));
    return 0;
  }
  for (const auto& [before, after] : renamed) warn("'{}' is called '{}' in the Core ML model\n", before, after);
  for (const std::string& what : not_converged) warn("{}\n", what);
  for (const std::string& op : single) warn("stays in single precision: {}\n", op);
  for (const std::string& input : open_sizes)
    warn("{} has a size without an upper bound: the model takes up to {}; help: --size \"T <= 512\"\n", input,
         kAssumedUpperBound);
  if (!args.quiet) say("{} -> {}: {} nodes, {} ops, {:.3f} s\n", from, args.output, nodes, all_ops, seconds);
  return 0;
}

}  // namespace

void add_convert(CLI::App& to, int* status) {
  auto* command = to.add_subcommand("convert", "Convert an ONNX model to a Core ML package");
  auto args = std::make_shared<ConvertArgs>();
  command->add_option("model", args->input, "ONNX model, or a program in text form (.sx); - is standard input");
  command->add_option("-o,--output", args->output, "Package (.mlpackage) or model file (.mlmodel) to write")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--target", args->how.target,
                   "Oldest system that must run it: iOS15 to iOS18, iOS26, macOS12 to macOS15, macOS26")
      ->capture_default_str();
  command->add_option("--compute-precision", args->precision, "fp16, or fp32 for single precision")
      ->check(CLI::IsMember({"fp16", "fp32"}))
      ->capture_default_str();
  command->add_option("--skip-ops", args->skip_ops,
                      "Ops that stay in single precision: names, or auto for those that overflow");
  command->add_option("--input-shape", args->how.input_shapes, "New shape of an input: NAME:1,3,224,224");
  command->add_option("--size", args->how.sizes, "What holds for a named size: \"T <= 512\"");
  command->add_option("--default-size", args->default_sizes, "What a named size is by default, within its range: T=128");
  command->add_option("--image-input", args->how.image_inputs,
                      "An input that takes images: x:rgb, or x:bgr:SCALE:BIAS,BIAS,BIAS");
  command->add_option("--image-output", args->how.image_outputs, "A result that is an image: y:rgb");
  command->add_option("--input-type", args->how.input_types, "Element type of an input of floats: x=fp16, or fp16 for all");
  command->add_option("--output-type", args->how.output_types, "Element type of a result of floats: y=fp16, or fp16 for all");
  command->add_option("--enumerated-shape", args->shapes, "One of the shapes that an input takes: x:1,3,224,224");
  command->add_option("--class-labels", args->class_labels, "Make a classifier: a file with the label of one class a line");
  command->add_option("--predicted-feature-name", args->classifier.label, "Name of the result that is the label")
      ->capture_default_str();
  command->add_option("--predicted-probabilities-output", args->classifier.probabilities,
                      "The result with one probability for each class, if several may be it");
  command->add_option("--function", args->functions, "Instead of the model, one for each function: prefill=prefill.onnx");
  command->add_option("--state", args->states, "An input that becomes a state, and its result: past_keys=present_keys");
  command->add_option("--skip", args->how.skip, "Passes to skip, separated by commas")->delimiter(',');
  command->add_option("--option", args->options, "Set an option of one pass: pass.option=value");
  command->add_option("--author", args->how.metadata.author, "Author, in the metadata");
  command->add_option("--license", args->how.metadata.license, "Licence, in the metadata");
  command->add_option("--model-version", args->how.metadata.version, "Version, in the metadata");
  command->add_option("--description", args->how.metadata.description, "Description, in the metadata");
  command->add_option("--metadata", args->user_defined, "More metadata: key=value");
  command->add_option("--debug-dump", args->dump, "Folder for the graph as text at each stage");
  command->add_option("--trace", args->trace, "Also write the steps, for `sardonyx view FILE.sxt -o page.html`")
      ->type_name("FILE.sxt");
  command->add_flag("--no-mmap", args->no_mmap, "Read files instead of mapping them");
  command->add_flag("--json", args->json, "Machine-readable output: an array of objects (docs/command_line.md)");
  command->add_flag("-q,--quiet", args->quiet, "Print errors only");
  command->callback([args, status] { *status = guarded("convert", args->input, args->json, [&] { return convert(*args); }); });
}

}  // namespace sardonyx::tools
