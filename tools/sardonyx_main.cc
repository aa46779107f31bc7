// The sardonyx command. CLI11 is included here and nowhere else: it costs seconds to compile.
//
// Exit codes: 0 = done; 1 = the input was refused, or a check failed; 2 = the command line makes no sense.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "sardonyx/error.h"
#include "sardonyx/version.h"
#include "support/nearest.h"

namespace {

constexpr int kRefused = 1;
constexpr int kUsage = 2;

// CLI11 reads -1 as the largest unsigned number.
const std::function<std::string(const std::string&)> kNoSign = [](const std::string& text) {
  return text.starts_with('-') ? fmt::format("{} is below zero", text) : std::string();
};

// A word that is no command: CLI11 would only say that it wants one.
void require_known(const CLI::App& app, std::string_view name) {
  std::vector<std::string> commands;
  for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; })) commands.push_back(c->get_name());
  const std::vector<std::string_view> names(commands.begin(), commands.end());
  if (name.empty() || name.starts_with('-') || std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string_view meant = sardonyx::nearest(name, names);
  throw sardonyx::Error(
      sardonyx::ErrorCode::kInvalidArgument, fmt::format("there is no command named '{}'", name),
      {meant.empty() ? fmt::format("there are: {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", meant)});
}

}  // namespace

int main(int argc, char** argv) {
  using namespace sardonyx;
  CLI::App app("Sardonyx: a native graph compiler for machine-learning models");
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& e) {
    return fmt::format("error: {}\n  help: `sardonyx --help`, `sardonyx COMMAND --help`\n", e.what());
  });
  int status = 0;

  tools::FileArgs files;
  const auto add_input = [&files](CLI::App* command) {
    command->add_option("model", files.input, "ONNX model, or Core ML package")->required();
    command->add_flag("--no-mmap", files.no_mmap, "Read files instead of mapping them, for storage that is not to be trusted");
  };

  tools::InfoArgs info;
  const auto add_info = [&](CLI::App& to) {
    auto* command = to.add_subcommand("info", "Show what a model consists of");
    add_input(command);
    command->add_flag("--json", info.json, "For programs");
    command->add_flag("--text", info.text, "The whole graph in Sardonyx's text form");
    command->add_flag("--infer", info.infer, "Infer types first");
    command->callback([&] { status = tools::info(files, info); });
  };
  add_info(app);

  auto* check_command = app.add_subcommand("check", "Verify a model and its types");
  add_input(check_command);
  check_command->callback([&] { status = tools::check(files); });

  tools::DiffArgs diff;
  const auto add_diff = [&](CLI::App& to) {
    auto* command = to.add_subcommand("diff", "Say what tells two models apart; exit code 1 if something does");
    command->add_option("before", diff.before, "ONNX model, or Core ML package")->required();
    command->add_option("after", diff.after, "The other one")->required();
    command->add_option("--lines", diff.lines, "How many lines that differ are shown")->check(kNoSign)->capture_default_str();
    command->add_flag("--json", diff.json, "For programs");
    command->callback([&] { status = tools::diff(diff); });
  };
  add_diff(app);

  tools::VerifyArgs to_verify;
  auto* verify_command = app.add_subcommand("verify", "Evaluate two models on the same inputs; exit code 1 if they differ");
  verify_command->add_option("before", to_verify.before, "ONNX model, or Core ML package")->required();
  verify_command->add_option("after", to_verify.after, "The other one")->required();
  verify_command
      ->add_option("--numerics", to_verify.numerics, "What is the same: all bits, up to rounding, or up to a thousandth")
      ->check(CLI::IsMember({"exact", "rounds", "relaxed"}))
      ->capture_default_str();
  verify_command->callback([&] { status = tools::verify(to_verify); });

  std::string view_output;
  const auto add_view = [&](CLI::App& to) {
    auto* command = to.add_subcommand("view", "Show a model as text with types, or as an HTML page");
    add_input(command);
    command->add_option("-o,--output", view_output, "The HTML page to write");
    command->callback([&] { status = tools::view(files, view_output); });
  };
  add_view(app);

  tools::OutputArgs output;
  const auto add_output = [&output](CLI::App* command) {
    command->add_option("-o,--output", output.output, "Where the result goes")->required();
    command->add_flag("--external-data", output.external, "Put weights in a file of their own");
    command->add_option("--data-file", output.data_file, "Name of that file, beside the model");
    command->add_option("--data-threshold", output.threshold, "Smaller tensors stay in the model, in bytes")
        ->check(kNoSign)
        ->capture_default_str();
    command->add_option("--max-data-file", output.max_data_file, "Start another data file beyond this size, in bytes")
        ->check(kNoSign);
  };

  tools::OptimizeArgs optimize;
  auto* optimize_command = app.add_subcommand("optimize", "Make models smaller and faster, with the same results");
  optimize_command->add_option("models", optimize.inputs, "ONNX models, or folders of them")->required();
  optimize_command->add_flag("--no-mmap", optimize.no_mmap, "Read files instead of mapping them");
  add_output(optimize_command);
  optimize_command
      ->add_option("--passes,--preset", optimize.passes, "Preset, list of passes separated by commas, or a file of them")
      ->capture_default_str();
  optimize_command->add_option("--skip", optimize.skip, "Passes (or pass/rule) to leave out, separated by commas")
      ->delimiter(',');
  optimize_command->add_option("--option", optimize.options, "pass.option=value, for one pass");
  optimize_command->add_option("--input-shape", optimize.input_shapes,
                               "Shape of an input: x=f32[1,3,224,224] or x:1,3,224,224");
  const auto opset_option = [&](CLI::App* command) {
    return command->add_option("--opset", optimize.opset, "The opset to spell the model in, newer or older")
        ->check(CLI::Range(1, 9999));
  };
  opset_option(optimize_command);
  optimize_command->add_option("--fold-budget", optimize.fold_budget, "Bytes by which folding may grow the file (64k, 10M)")
      ->capture_default_str();
  optimize_command
      ->add_option("--explain", optimize.explain,
                   "Say why these passes (or those that make an operator: Attention) left near matches alone")
      ->delimiter(',');
  const auto verify_option = [](CLI::App* command, tools::OptimizeArgs& args) {
    command->add_option("--verify", args.verify, "Evaluate before and after on random inputs: the model, or each pass")
        ->check(CLI::IsMember({"off", "model", "pass"}))
        ->capture_default_str();
  };
  verify_option(optimize_command, optimize);
  optimize_command->add_flag("--prune-inputs", optimize.prune_inputs, "Drop inputs that nobody reads");
  optimize_command->add_flag("--keep-names", optimize.keep_names,
                             "A name stands for the same elements as before, or is gone: changed weights get new ones");
  optimize_command->add_flag("--inline", optimize.inline_functions, "Calls of functions become the nodes of the functions");
  optimize_command->add_flag("--allow-empty", optimize.allow_empty, "Named sizes of inputs may be zero");
  optimize_command->add_flag("--strict", optimize.strict, "Stop when a pass fails, instead of going on without it");
  optimize_command->add_flag("--declare-types", optimize.declare_types, "Write inferred types as value_info");
  optimize_command->add_flag("--json", optimize.json, "For programs");
  optimize_command->add_flag("--quiet", optimize.quiet, "Only errors; no progress bar at a terminal");
  // Behind an option stands one text, and models may follow: further texts take the option again. Runs are files, and come in lists.
  const auto one_text_each = [](CLI::App* command) {
    for (CLI::Option* o : command->get_options()) {
      if (!o->get_positional() && o->get_items_expected_max() > 1 && o->get_name() != "--calibrate") o->allow_extra_args(false);
    }
  };
  one_text_each(optimize_command);
  optimize_command->callback([&] { status = tools::optimize(output, optimize); });

  auto* convert_command = app.add_subcommand("convert-opset", "Spell models in another opset, without optimizing them");
  convert_command->add_option("models", optimize.inputs, "ONNX models, or folders of them")->required();
  add_output(convert_command);
  opset_option(convert_command)->required();
  verify_option(convert_command, optimize);
  convert_command->add_flag("--json", optimize.json, "For programs");
  convert_command->add_flag("--quiet", optimize.quiet, "Only errors");
  convert_command->callback([&] {
    optimize.passes = "none";
    status = tools::optimize(output, optimize);
  });

  auto* coreml_command = app.add_subcommand("coreml", "Core ML packages and model files")->require_subcommand(1);
  add_info(*coreml_command);
  add_diff(*coreml_command);
  add_view(*coreml_command);
  tools::OptimizeArgs coreml{.passes = "default"};
  std::string coreml_output;
  auto* coreml_optimize = coreml_command->add_subcommand("optimize", "Run Core ML's graph passes");
  coreml_optimize->add_option("models", coreml.inputs, "Packages, model files, or folders of them")->required();
  coreml_optimize->add_flag("--no-mmap", coreml.no_mmap, "Read files instead of mapping them");
  coreml_optimize->add_option("-o,--output", coreml_output, "Where the result goes")->required();
  coreml_optimize
      ->add_option("--passes,--preset", coreml.passes, "Preset, list of passes separated by commas, or a file of them")
      ->capture_default_str();
  coreml_optimize->add_option("--skip", coreml.skip, "Passes (or pass/rule) to leave out, separated by commas")->delimiter(',');
  coreml_optimize->add_option("--option", coreml.options, "pass.option=value, for one pass");
  coreml_optimize->add_option("--image-input", coreml.image_inputs,
                              "NAME:nhwc: an image with its channels last, which are to come first (image_input_preprocess)");
  coreml_optimize->add_option("--output-dtype", coreml.output_dtypes,
                              "NAME=fp16: the element type that a result is to have (update_output_dtypes)");
  coreml_optimize->add_option("--compute-precision", coreml.compute_precision,
                              "fp16: presets end in half precision (add_fp16_cast, add_int16_cast)");
  coreml_optimize->add_option(
      "--calibrate", coreml.calibrate,
      "Inputs of runs (.npz, NAME=FILE.npy, NAME=VALUE): add_fp16_cast leaves what they show to be unfit");
  verify_option(coreml_optimize, coreml);
  coreml_optimize->add_option("--explain", coreml.explain, "Say why these passes left near matches alone")->delimiter(',');
  coreml_optimize->add_flag("--changes", coreml.changes,
                            "Say what each pass changed: ops before and after, and which rule at which op");
  coreml_optimize->add_flag(
      "--link-weights", coreml.link_weights,
      "Share weights that do not change with the model that was read (hard links), instead of copying them");
  coreml_optimize->add_flag("--strict", coreml.strict, "Stop when a pass fails, instead of going on without it");
  coreml_optimize->add_flag("--json", coreml.json, "For programs");
  coreml_optimize->add_flag("--quiet", coreml.quiet, "Only errors");
  one_text_each(coreml_optimize);
  coreml_optimize->callback([&] { status = tools::optimize_coreml(coreml_output, coreml); });

  tools::HalfReportArgs half;
  auto* half_command = coreml_command->add_subcommand("fp16-report", "Say which ops half precision does not serve");
  half_command->add_option("model", half.input, "Package or model file")->required();
  half_command->add_option("--calibrate", half.runs, "Inputs of runs: .npz (one run each), NAME=FILE.npy, NAME=VALUE");
  half_command->add_option("--runs", half.random_runs, "Runs on random inputs where none are given")->capture_default_str();
  half_command->add_option("--seed", half.seed, "Of the random inputs")->check(kNoSign)->capture_default_str();
  half_command->add_flag("--no-mmap", half.no_mmap, "Read files instead of mapping them");
  half_command->add_flag("--json", half.json, "For programs");
  half_command->callback([&] { status = tools::half_report(half); });

  std::string pass_name;
  bool passes_json = false;
  auto* passes_command = app.add_subcommand("passes", "List passes and presets, or show one");
  passes_command->add_option("name", pass_name, "A pass or a preset");
  passes_command->add_flag("--json", passes_json, "For programs");
  passes_command->callback([&] { status = tools::passes(pass_name, passes_json); });

  tools::RunArgs run;
  const auto add_run = [&](CLI::App& to) {
    auto* run_command = to.add_subcommand("run", "Evaluate a model, exactly");
    add_input(run_command);
    run_command->add_option("-i,--input", run.inputs, "NAME=FILE.npy, NAME=VALUE, or FILE.npz with arrays by name");
    run_command->add_option("-o,--output", run.output,
                            "Where the results go: an .npz file, or .npy for one (default: print them)");
    run_command->add_flag("--random", run.random, "Make up inputs that are not given");
    run_command->add_option("--seed", run.seed, "Of made-up inputs and of random operators")
        ->check(kNoSign)
        ->capture_default_str();
    run_command->add_option("--input-shape", run.input_shapes, "Shape of an input that is made up: x=f32[2,3] or x:2,3");
    run_command->add_option("--memory", run.memory, "Bytes of tensors at once (64M, 8G)")->transform(CLI::AsSizeValue(false));
    run_command->add_flag("--fast", run.fast, "Faster products, whose last bits depend on the machine");
    run_command->callback([&] { status = tools::run(files, run); });
  };
  add_run(app);
  add_run(*coreml_command);

  std::vector<std::string> plugins;
  app.add_option("--plugin", plugins,
                 "A shared object with lowerings of its own (sardonyx/plugin.h), for `lower` and `export`");
  std::optional<int> opset;
  std::string target;
  auto* lower_command = app.add_subcommand("lower", "Turn a program in text form (.sx) into ONNX");
  lower_command->add_option("program", files.input, "Program of the jax or onnx dialect")->required();
  lower_command->add_flag("--no-mmap", files.no_mmap, "Read files instead of mapping them");
  add_output(lower_command);
  lower_command->add_option("--opset", opset, "Version of ai.onnx to lower to (default: 23, or what the target loads)");
  lower_command->add_option("--target", target, "A runtime that must run the model, such as ort-1.17");
  lower_command->callback([&] { status = tools::lower(files, output, opset, target, plugins); });

  // These are Python's: listed here, parsed there.
  app.add_subcommand("export", "Export a JAX function, given as module:function, as ONNX");
  app.add_subcommand("explain", "Say what a JAX function consists of, and whether it can be exported");
  app.add_subcommand("lint-plugin", "Check how plugins use the builder");

  try {
    int first = 1;  // argument that is no --plugin
    while (first < argc && std::string_view(argv[first]).starts_with("--plugin"))
      first += std::string_view(argv[first]) == "--plugin" ? 2 : 1;
    const std::string_view command = first < argc ? argv[first] : "";
    if (command == "export" || command == "explain" || command == "lint-plugin") tools::run_python(argc, argv);
    require_known(app, command);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : kUsage;
  } catch (const Error& e) {
    tools::show_error(e);
    return e.code() == ErrorCode::kInvalidArgument ? kUsage : kRefused;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\n");
    return kRefused;
  } catch (const std::exception& e) {
    tools::show_error(e);
    return kRefused;
  }
  return status;
}
