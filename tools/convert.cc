// sardonyx convert: from a function, an ONNX model, a saved program or a Core ML program to what the suffix of the output says.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "dialects/onnx/runtimes.h"
#include "driver/compare_models.h"
#include "driver/convert.h"
#include "driver/file_names.h"
#include "driver/plugin.h"
#include "driver/to_coreml.h"
#include "habits.h"
#include "io/program_file.h"
#include "output.h"
#include "say.h"
#include "support/stopwatch.h"
#include "view/model_page.h"

namespace sardonyx::tools {
namespace {

[[noreturn]] void refuse(std::string what, std::vector<std::string> notes = {}) {
  throw Error(ErrorCode::kInvalidArgument, std::move(what), std::move(notes));
}

// --- From ONNX to Core ML

// "T <= 512" is a bound, "T=128" the size by default.
bool is_default_size(const std::string& text) {
  const size_t equals = text.find('=');
  return equals != std::string::npos && text.find_first_of("<>!") == std::string::npos && text.find("==") == std::string::npos;
}

std::pair<std::string, int64_t> default_size(const std::string& text) {
  const auto [name, size] = at_equals(text, "a size as T=128");
  int64_t n = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), n);
  if (error != std::errc() || end != size.data() + size.size())
    refuse(fmt::format("expected a size as T=128, found '{}'", size));
  return {name, n};
}

// The shapes of an input that is named several times are those that it takes.
void add_shapes(const std::vector<std::string>& texts, ToCoremlOptions& to) {
  const auto name_of = [](const std::string& text) { return text.substr(0, text.find_first_of(":=")); };
  for (const std::string& text : texts) {
    const auto same = [&](const std::string& other) { return name_of(other) == name_of(text); };
    if (std::ranges::count_if(texts, same) > 1) {
      add_enumerated_shape(to.enumerated_shapes, text);
    } else {
      to.input_shapes.push_back(text);
    }
  }
}

// "labels.txt", "labels.txt:LABEL" or "labels.txt:LABEL:RESULT".
CoremlClassifier classifier_of(const std::string& text) {
  CoremlClassifier made;
  std::string path = text;
  std::vector<std::string> names;
  std::error_code none;
  while (names.size() < 2 && !std::filesystem::exists(path, none) && path.rfind(':') != std::string::npos) {
    names.insert(names.begin(), path.substr(path.rfind(':') + 1));
    path.resize(path.rfind(':'));
  }
  made.texts = read_class_labels(path);
  if (!names.empty() && !names[0].empty()) made.label = names[0];
  if (names.size() > 1) made.probabilities = names[1];
  return made;
}

CoremlMetadata metadata_of(const Given& given) {
  CoremlMetadata made;
  for (const std::string& text : given.list("metadata")) {
    const auto [key, value] = at_equals(text, "metadata as key=value");
    std::string* known = key == "author"        ? &made.author
                         : key == "license"     ? &made.license
                         : key == "version"     ? &made.version
                         : key == "description" ? &made.description
                                                : nullptr;
    if (known != nullptr) {
      *known = value;
    } else {
      made.user_defined.emplace_back(key, value);
    }
  }
  return made;
}

ToCoremlOptions coreml_options(const Given& given) {
  ToCoremlOptions how;
  const std::string precision = given.text("precision", "f16");
  if (precision != "f16" && precision != "f32") refuse(fmt::format("Core ML computes in f16 or f32, not in {}", precision));
  how.half = precision == "f16";
  how.target = given.text("target", how.target);
  how.dump = given.text("debug-dump");
  how.skip = given.list("skip");
  how.pass_options = pass_options(given);
  if (given.has("keep-f32")) how.pass_options.emplace_back("add_fp16_cast.skip_ops", given.text("keep-f32"));
  if (given.has("passes")) {
    how.passes.clear();
    const std::string passes = given.text("passes");
    for (size_t at = 0; at <= passes.size();) {
      const size_t end = std::min(passes.find(',', at), passes.size());
      how.passes.push_back(passes.substr(at, end - at));
      at = end + 1;
    }
  }
  for (const std::string& s : given.list("state")) how.states.push_back(at_equals(s, "a state as input=result"));
  for (const std::string& s : given.list("size")) {
    if (is_default_size(s)) {
      how.default_sizes.push_back(default_size(s));
    } else {
      how.sizes.push_back(s);
    }
  }
  add_shapes(given.list("input-shape"), how);
  how.image_inputs = given.list("image-input");
  how.image_outputs = given.list("image-output");
  for (const std::string& t : given.list("input-type")) how.input_types.push_back(long_type(t));
  for (const std::string& t : given.list("output-type")) how.output_types.push_back(long_type(t));
  if (given.has("class-labels")) how.classifier = classifier_of(given.text("class-labels"));
  how.metadata = metadata_of(given);
  return how;
}

// Converts the models of several functions, or the model, to a package.
std::vector<ToCoremlReport> converted(const Given& given, const std::string& input, const std::string& output) {
  const ReadOptions read = read_options(given);
  const ToCoremlOptions how = coreml_options(given);
  std::vector<ToCoremlReport> reports;
  const std::vector<std::string>& named = given.list("function");
  if (given.has("trace")) {
    if (!named.empty()) refuse("--trace takes one model, and --function converts several");
    const auto model = read_for_coreml(opened(input), read);
    reports.push_back(view::convert_to_coreml_with_steps(nullptr, *model, output, given.text("trace"), how));
    return reports;
  }
  if (named.empty()) {
    reports.push_back(convert_to_coreml(opened(input), output, how, read));
    return reports;
  }
  std::vector<std::unique_ptr<Model>> models;
  std::vector<CoremlFunction> functions;
  for (const std::string& f : named) {
    const auto [name, path] = at_equals(f, "a function as name=model.onnx");
    models.push_back(read_for_coreml(path, read));
    functions.push_back({name, models.back().get()});
  }
  std::vector<const Model*> sources;
  for (const auto& m : models) sources.push_back(m.get());
  write_converted(*functions_to_coreml(functions, how, reports), output, sources);
  return reports;
}

// Compares the package with the model. Throws if they differ, or if that cannot be judged.
ModelComparison compared(const Given& given, const std::string& input, const std::string& output) {
  if (given.has("function")) refuse("--verify takes one model, and --function converts several");
  if (given.text("verify") == "pass") refuse("--verify=pass is for optimizations; a conversion is compared as a whole");
  const auto before = read_model(opened(input), read_options(given)), after = read_model(output, {});
  ModelComparison found = compare_models(*before, *after, Numerics::kRelaxed, {}, tolerance_of(given));
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
    run_python(given);
  }
  const bool is_one_text = given.list("models").size() == 1 && input.ends_with(".sx");
  std::unique_ptr<Model> text =
      is_one_text && std::filesystem::exists(input) ? load_program(input, !given.has("no-mmap")) : nullptr;
  const bool is_coreml = text ? text->dialect() == DialectId::kMil : is_coreml_name(input);
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

}  // namespace sardonyx::tools
