#include "commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "dialects/onnx/runtimes.h"
#include "driver/convert.h"
#include "driver/file_names.h"
#include "driver/plugin.h"
#include "io/program_file.h"
#include "output.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"
#include "say.h"
#include "terminal.h"

namespace sardonyx::tools {

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

int check(const FileArgs& files, bool json) {
  const auto model = read_model(opened(files.input), {.map = !files.no_mmap});
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
    ordered_json j = json_head("check", files.input, faults.empty());
    j["nodes"] = model->num_nodes();
    j["faults"] = faults;
    j["warnings"] = warned;
    print_one(std::move(j));
    return faults.empty() ? 0 : 1;
  }
  for (const std::string& message : warned) say("warning: {}\n", message);
  if (faults.empty()) {
    say("{}: {} nodes, no faults\n", files.input, model->num_nodes());
    return 0;
  }
  say("{}: {} of {} nodes are ill-typed\n", files.input, faults.size(), model->num_nodes());
  return 1;
}

WriteOptions write_options(const OutputArgs& out) {
  WriteOptions options;
  if (out.external) options.external = WriteOptions::External::kAlways;
  options.data_file = out.data_file;
  options.external_threshold = out.threshold;
  options.max_data_file_bytes = out.max_data_file;
  return options;
}

namespace {

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

}  // namespace

int lower(const FileArgs& files, const OutputArgs& out, std::optional<int> opset, const std::string& target,
          const std::vector<std::string>& plugins, bool json) {
  require_output_name(out.output, DialectId::kOnnx);
  std::unique_ptr<Model> model = load_program(files.input, !files.no_mmap);
  if (model->dialect() == DialectId::kJax) {
    for (const auto& f : model->functions()) require_types(f->graph());
    ConvertOptions options;
    options.lower.target = target;
    if (opset) {
      options.lower.opset = *opset;
    } else if (!target.empty()) {
      options.lower.opset = std::min(options.lower.opset, onnx::runtime_named(target).opset);
    }
    auto lowered = std::make_unique<Model>(DialectId::kOnnx);
    LoweringRegistry registry(&LoweringRegistry::builtin());
    LateAttributes late;
    for (const std::string& plugin : plugins) load_plugin(plugin, registry, late);
    options.after_passes = [&](Model&) { late.set(); };
    convert(*model, *lowered, options, registry);
    check_nesting(*lowered);
    model = std::move(lowered);
  }
  if (model->dialect() != DialectId::kOnnx) {
    throw Error(ErrorCode::kUnsupported, "only programs of the jax and onnx dialects can become ONNX");
  }
  if (out.output.ends_with(".sx")) {
    save_program(*model, out.output);
  } else {
    write_onnx(*model, out.output, write_options(out));
  }
  if (json) {
    ordered_json j = json_head("lower", files.input, true);
    j["output"] = out.output;
    j["nodes"] = model->num_nodes();
    print_one(std::move(j));
  }
  return 0;
}

}  // namespace sardonyx::tools
