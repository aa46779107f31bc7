// The sardonyx command. Only this file includes CLI11, which takes seconds to compile.
//
// Exit codes: 0 = success; 1 = the input was refused, or a check failed; 2 = the command line is invalid.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "commands.h"
#include "convert.h"
#include "habits.h"
#include "option_tables.h"
#include "output.h"
#include "sardonyx/error.h"
#include "sardonyx/passes.h"
#include "sardonyx/version.h"

namespace sardonyx::tools {
namespace {

// CLI11 parses -1 as the largest unsigned number.
const std::function<std::string(const std::string&)> kNoSign = [](const std::string& text) {
  return text.starts_with('-') ? fmt::format("{} is negative", text) : std::string();
};

const std::function<std::string(const std::string&)> kNotNegative = [](const std::string& text) {
  return text.starts_with('-') || text == "nan" ? fmt::format("{} is not a tolerance", text) : std::string();
};

// Limits each option to one argument, since models may follow it; the option can be repeated. Only
// --calibrate takes a list.
void take_one_text_each(CLI::App* command) {
  for (CLI::Option* o : command->get_options()) {
    if (!o->get_positional() && o->get_items_expected_max() > 1 && o->get_name() != "--calibrate") o->allow_extra_args(false);
  }
}

// --- CLI11's options as tables

OptionRow row_of(const CLI::Option& o) {
  OptionRow row{.about = o.get_description(), .positional = o.get_positional(), .required = o.get_required()};
  if (row.positional) {
    row.names = {o.get_name(true)};
    return row;
  }
  for (const std::string& name : o.get_snames()) row.names.push_back("-" + name);
  for (const std::string& name : o.get_lnames()) {
    if (!std::ranges::any_of(kTakenSilently, [&](std::string_view n) { return n == name; })) row.names.push_back("--" + name);
  }
  if (o.get_items_expected_max() == 0) return row;
  const std::string type = o.get_type_name();
  const size_t open = type.find('{'), close = type.find('}');
  if (open != std::string::npos && close != std::string::npos) {
    for (size_t at = open + 1; at < close;) {
      const size_t end = std::min(type.find(',', at), close);
      row.choices.push_back(type.substr(at, end - at));
      at = end + 1;
    }
  } else {
    row.value = type.substr(0, type.find(':'));
    if (row.value.empty() || row.value == "TEXT") row.value = "VALUE";
    if (row.value == "INT" || row.value == "UINT" || row.value == "FLOAT") row.value = "N";
  }
  if (!o.get_default_str().empty() && o.get_default_str() != "\"\"" && o.get_default_str() != "[]")
    row.about += fmt::format(" (default: {})", o.get_default_str());
  return row;
}

CommandRow row_of(const CLI::App& app, const std::string& name) {
  CommandRow row{.name = name, .about = app.get_description()};
  for (const CLI::Option* o : app.get_options()) row.options.push_back(row_of(*o));
  for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; }))
    row.commands.emplace_back(c->get_name(), c->get_description());
  return row;
}

// `app` and what is below it.
void add_rows(const CLI::App& app, const std::string& name, std::vector<CommandRow>& rows) {
  rows.push_back(row_of(app, name));
  for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; }))
    add_rows(*c, name.empty() ? c->get_name() : name + " " + c->get_name(), rows);
}

class Pages : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::string name;
    for (const CLI::App* a = app; a->get_parent() != nullptr; a = a->get_parent())
      name = name.empty() ? a->get_name() : a->get_name() + " " + name;
    return help_page(row_of(*app, name));
  }
};

// Each member function adds one command to `to` and sets the function that runs it.
class CommandLine {
 public:
  // `asked`: the first argument. If that is a command, only its options are made: those of all others would take longer than reading a
  // small model.
  explicit CommandLine(std::string_view asked) {
    app_.formatter(std::make_shared<Pages>());
    app_.set_help_flag("-h,--help", "Print this page");
    app_.set_version_flag("-V,--version", version(), "Print the version");
    app_.require_subcommand(1);
    using Add = void (*)(CommandLine&);
    constexpr std::pair<std::string_view, Add> kCommands[] = {
        {"info", [](CommandLine& c) { c.add_info(c.app_); }},
        {"check", [](CommandLine& c) { c.add_check(c.app_, "check"); }},
        {"diff", [](CommandLine& c) { c.add_diff(c.app_); }},
        {"verify", [](CommandLine& c) { c.add_verify(c.app_); }},
        {"view", [](CommandLine& c) { c.add_view(c.app_); }},
        {"where", [](CommandLine& c) { c.add_where(c.app_); }},
        {"optimize", [](CommandLine& c) { c.add_optimize(c.app_); }},
        {"convert-opset", [](CommandLine& c) { c.add_convert_opset(c.app_); }},
        {"coreml", [](CommandLine& c) { c.add_coreml(); }},
        {"passes", [](CommandLine& c) { c.add_passes(c.app_, ""); }},
        {"run", [](CommandLine& c) { c.add_run(c.app_); }},
        {"lower", [](CommandLine& c) { c.add_lower(c.app_); }},
        {"convert", [](CommandLine& c) { tools::add_convert(c.app_, &c.status_); }},
    };
    const bool known = asked == "--version" || asked == "-V" || asked == "version" ||
                       std::ranges::find(kCommands, asked, [](const auto& c) { return c.first; }) != std::end(kCommands);
    for (const auto& [name, add] : kCommands) {
      if (!known || name == asked) add(*this);
    }
    if (known) return;
    add_python_commands();
    add_shell_commands();
  }

  // The exit code.
  int execute(std::vector<std::string> arguments) {
    const auto find = [this](std::string_view name) { return find_row(name); };
    const Habit habit = understood(std::move(arguments), find);
    try {
      std::vector<std::string> reversed(habit.arguments.rbegin(), habit.arguments.rend());  // as CLI11 wants them
      app_.parse(reversed);
      if (habit.in_python) run_python(habit.arguments);
    } catch (const CLI::Success& e) {
      return app_.exit(e);
    } catch (const CLI::ParseError& e) {
      throw Error(ErrorCode::kInvalidArgument, usage_message(e.what()), usage_notes(habit.arguments, find, e.what()));
    }
    return status_;
  }

 private:
  std::optional<CommandRow> find_row(std::string_view name) const {
    const CLI::App* app = &app_;
    for (std::string_view rest = name; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      const auto below = app->get_subcommands([&](const CLI::App* c) { return c->get_name() == rest.substr(0, end); });
      if (below.empty()) return std::nullopt;
      app = below.front();
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return row_of(*app, std::string(name));
  }

  std::vector<CommandRow> rows() const {
    std::vector<CommandRow> all;
    add_rows(app_, "", all);
    return all;
  }

  void add_json(CLI::App* command, bool& json) {
    command->add_flag("--json", json, "Machine-readable output: an array of objects (docs/reference/command_line.md)");
  }

  template <class Tolerances>
  static void add_tolerances(CLI::App* command, Tolerances& to) {
    command->add_option("--rtol", to.rtol, "Compare by |a - b| <= atol + rtol |a| instead")->check(kNotNegative);
    command->add_option("--atol", to.atol, "See --rtol; the one that is not given is 0")->check(kNotNegative);
  }

  void add_input(CLI::App* command) {
    command->add_option("model", files_.input, "ONNX model, or Core ML package; - is standard input")->required();
    command->add_flag("--no-mmap", files_.no_mmap, "Read files instead of mapping them, for untrusted storage");
  }

  void add_output(CLI::App* command) {
    command->add_option("-o,--output", output_.output, "Output file or folder; - is standard output")
        ->required()
        ->type_name("FILE");
    command->add_flag("--external-data", output_.external, "Write weights to a separate file");
    command->add_option("--data-file", output_.data_file, "Name of the weights file, beside the model");
    command->add_option("--data-threshold", output_.threshold, "Tensors below this many bytes stay in the model")
        ->check(kNoSign)
        ->capture_default_str();
    command->add_option("--max-data-file", output_.max_data_file, "Start another weights file beyond this many bytes")
        ->check(kNoSign);
  }

  CLI::Option* add_opset(CLI::App* command) {
    return command->add_option("--opset", optimize_.opset, "Convert the model to this opset, newer or older")
        ->check(CLI::Range(1, 9999));
  }

  static void add_verify_option(CLI::App* command, OptimizeArgs& args) {
    command->add_option("--verify", args.verify, "Evaluate the model, or each pass, before and after on random inputs")
        ->check(CLI::IsMember({"off", "model", "pass"}))
        ->capture_default_str();
  }

  void add_reporting(CLI::App* command, OptimizeArgs& args) {
    add_json(command, args.json);
    command->add_flag("-q,--quiet", args.quiet, "Print errors only; no progress bar");
    command->add_flag("-v,--verbose", args.verbose, "Also print what each pass did, and how long it took");
    command->add_flag("-n,--dry-run", args.dry_run, "Do everything but write the result");
    command->add_option("--trace", args.trace, "Also write the steps, for `sardonyx view FILE.sxt -o page.html`")
        ->type_name("FILE.sxt");
  }

  void run_optimize(CLI::App* command, std::string name) {
    command->callback([this, name] {
      optimize_.command = name;
      if (name == "convert-opset") optimize_.passes = "none";
      const std::string first = optimize_.inputs.front();
      status_ = guarded(name, first, optimize_.json, [&] { return optimize(output_, optimize_); });
    });
  }

  void add_info(CLI::App& to) {
    auto* command = to.add_subcommand("info", "Summarize a model: inputs, outputs, operators, sizes");
    add_input(command);
    add_json(command, info_.json);
    command->add_flag("--text", info_.text, "Print the whole graph in Sardonyx's text form");
    command->add_flag("--infer", info_.infer, "Infer types before printing them");
    command->add_option("--input-shape", info_.input_shapes, "Shape of an input: x=f32[1,3,224,224] or x:1,3,224,224");
    command->add_option("--most", info_.most, "How many of the costliest nodes and the largest tensors to list")
        ->capture_default_str();
    command->callback([this] { status_ = guarded("info", files_.input, info_.json, [&] { return info(files_, info_); }); });
  }

  void add_check(CLI::App& to, std::string name) {
    auto* command = to.add_subcommand("check", "Verify a model and its types");
    add_input(command);
    add_json(command, json_);
    command->callback([this, name] { status_ = guarded(name, files_.input, json_, [&] { return check(files_, json_); }); });
  }

  void add_diff(CLI::App& to) {
    auto* command = to.add_subcommand("diff", "Compare two models; exit code 1 if they differ");
    command->add_option("before", diff_.before, "ONNX model, or Core ML package")->required();
    command->add_option("after", diff_.after, "The model to compare with")->required();
    command->add_option("-o,--output", diff_.output, "A page (.html) that shows both models and what differs")
        ->type_name("FILE");
    command->add_option("--lines", diff_.lines, "Show at most this many nodes, and lines of text, that differ")
        ->check(kNoSign)
        ->capture_default_str();
    add_json(command, diff_.json);
    command->callback([this] { status_ = guarded("diff", diff_.before, diff_.json, [&] { return diff(diff_); }); });
  }

  void add_verify(CLI::App& to) {
    auto* command = to.add_subcommand("verify", "Evaluate two models on the same inputs; exit code 1 if they differ");
    command->add_option("before", verify_.before, "ONNX model, or Core ML package")->required();
    command->add_option("after", verify_.after, "The model to compare with")->required();
    command
        ->add_option(
            "--numerics", verify_.numerics,
            "What counts as equal: all bits, up to rounding (the default for ONNX), or up to a thousandth (for Core ML)")
        ->check(CLI::IsMember({"exact", "rounds", "relaxed"}));
    add_tolerances(command, verify_);
    command->add_option("--target", verify_.target,
                        "The runtime (ort-1.23) that must load the second model if it loads the first; by default the newest");
    add_json(command, verify_.json);
    command->callback([this] { status_ = guarded("verify", verify_.before, verify_.json, [&] { return verify(verify_); }); });
  }

  void add_view(CLI::App& to) {
    auto* command = to.add_subcommand("view", "Show a model as text with types, or as an HTML page");
    add_input(command);
    command->add_option("-o,--output", view_.output, "The page (.html) or text (.txt, .sx) to write")->type_name("FILE");
    command->add_option("--passes,--preset", view_.passes,
                        "Optimize, and show the model after each step: a preset, passes, or a file of passes");
    add_json(command, view_.json);
    command->callback([this] { status_ = guarded("view", files_.input, view_.json, [&] { return view(files_, view_); }); });
  }

  void add_where(CLI::App& to) {
    auto* command = to.add_subcommand("where", "Print the source line of a node, or the nodes of a source line");
    add_input(command);
    command->add_option("node", where_.node, "Name of a node or of a result; or a line, as with --line");
    command->add_option("--line", where_.line, "List the nodes of this line: model.py:41, function:41, model.py or :41");
    add_json(command, where_.json);
    command->callback([this] { status_ = guarded("where", files_.input, where_.json, [&] { return where(files_, where_); }); });
  }

  void add_optimize(CLI::App& to) {
    auto* command = to.add_subcommand("optimize", "Make models smaller and faster, with the same results");
    command->add_option("models", optimize_.inputs, "ONNX models, Core ML packages, or folders of them; - is standard input")
        ->required();
    command->add_flag("--no-mmap", optimize_.no_mmap, "Read files instead of mapping them");
    add_output(command);
    command->add_option("--passes,--preset", optimize_.passes,
                        "Preset, comma-separated passes, or a file of passes (default: onnx; default for Core ML)");
    command->add_option("--skip", optimize_.skip, "Passes (or pass/rule) to skip, separated by commas")->delimiter(',');
    command->add_option("--option", optimize_.options, "Set an option of one pass: pass.option=value");
    command->add_option("--input-shape,--overwrite-input-shape,--input-shapes", optimize_.input_shapes,
                        "Shape of an input: x=f32[1,3,224,224] or x:1,3,224,224");
    command->add_option("--inputs", optimize_.cut_inputs, "Values that become the inputs: only the part behind them is kept")
        ->delimiter(',');
    command->add_option("--outputs", optimize_.cut_outputs, "Values that become the results: only the part before them is kept")
        ->delimiter(',');
    add_opset(command);
    command->add_option("--fold-budget", optimize_.fold_budget, "Bytes by which folding may grow the file (64k, 10M)")
        ->capture_default_str();
    command
        ->add_option("--explain", optimize_.explain,
                     "Report why these passes (or those that make an operator: Attention) skipped near matches")
        ->delimiter(',');
    add_verify_option(command, optimize_);
    add_tolerances(command, optimize_);
    command->add_flag("--prune-inputs", optimize_.prune_inputs, "Drop unused inputs");
    command->add_flag("--keep-names", optimize_.keep_names,
                      "Keep a name only where it means the same elements: changed weights get new names");
    command->add_flag("--inline", optimize_.inline_functions, "Inline calls of functions");
    command->add_flag("--allow-empty", optimize_.allow_empty, "Allow named input sizes to be zero");
    command->add_flag("--strict", optimize_.strict, "Stop when a pass fails, instead of skipping it");
    command->add_flag("--declare-types", optimize_.declare_types, "Write inferred types as value_info");
    add_reporting(command, optimize_);
    take_one_text_each(command);
    run_optimize(command, "optimize");
  }

  void add_convert_opset(CLI::App& to) {
    auto* command = to.add_subcommand("convert-opset", "Convert models to another opset without optimizing them");
    command->add_option("models", optimize_.inputs, "ONNX models, or folders of them")->required();
    add_output(command);
    add_opset(command)->required();
    add_verify_option(command, optimize_);
    add_tolerances(command, optimize_);
    add_reporting(command, optimize_);
    run_optimize(command, "convert-opset");
  }

  void add_coreml_optimize(CLI::App& to) {
    auto* command = to.add_subcommand("optimize", "Run Core ML's graph passes");
    command->add_option("models", coreml_.inputs, "Packages, model files, or folders of them")->required();
    command->add_flag("--no-mmap", coreml_.no_mmap, "Read files instead of mapping them");
    command->add_option("-o,--output", coreml_output_, "Output file or folder")->required()->type_name("FILE");
    command->add_option("--passes,--preset", coreml_.passes,
                        "Preset, comma-separated passes, or a file of passes (default: default)");
    command->add_option("--skip", coreml_.skip, "Passes (or pass/rule) to skip, separated by commas")->delimiter(',');
    command->add_option("--option", coreml_.options, "Set an option of one pass: pass.option=value");
    command->add_option("--image-input", coreml_.image_inputs,
                        "NAME:nhwc: move the channels of an image input to the front (image_input_preprocess)");
    command->add_option("--output-dtype", coreml_.output_dtypes,
                        "NAME=fp16: change the dtype of a result (update_output_dtypes)");
    command->add_option("--compute-precision", coreml_.compute_precision,
                        "fp16: end presets in half precision (add_fp16_cast, add_int16_cast)");
    command->add_option("--calibrate", coreml_.calibrate,
                        "Calibration inputs (.npz, NAME=FILE.npy, NAME=VALUE): add_fp16_cast keeps fp32 where they overflow");
    add_verify_option(command, coreml_);
    command->add_option("--explain", coreml_.explain, "Report why these passes skipped near matches")->delimiter(',');
    command->add_flag("--changes", coreml_.changes,
                      "Report what each pass changed: op counts, and which rule fired at which op");
    command->add_flag("--link-weights", coreml_.link_weights,
                      "Hard-link unchanged weight files of the input model instead of copying them");
    command->add_flag("--strict", coreml_.strict, "Stop when a pass fails, instead of skipping it");
    add_tolerances(command, coreml_);
    add_reporting(command, coreml_);
    take_one_text_each(command);
    command->callback([this] {
      coreml_.command = "coreml optimize";
      const std::string first = coreml_.inputs.front();
      status_ = guarded(coreml_.command, first, coreml_.json, [&] { return optimize_coreml(coreml_output_, coreml_); });
    });
  }

  void add_half_report(CLI::App& to) {
    auto* command = to.add_subcommand("fp16-report", "Report the ops that half precision would break");
    command->add_option("model", half_.input, "Package or model file")->required();
    command->add_option("--calibrate", half_.runs, "Calibration inputs: .npz (one run each), NAME=FILE.npy, NAME=VALUE");
    command->add_option("--runs", half_.random_runs, "Number of runs on random inputs, without --calibrate")
        ->capture_default_str();
    command->add_option("--seed", half_.seed, "Seed of the random inputs")->check(kNoSign)->capture_default_str();
    command->add_flag("--no-mmap", half_.no_mmap, "Read files instead of mapping them");
    add_json(command, half_.json);
    command->callback(
        [this] { status_ = guarded("coreml fp16-report", half_.input, half_.json, [&] { return half_report(half_); }); });
  }

  void add_passes(CLI::App& to, std::string dialect) {
    auto* command = to.add_subcommand("passes", "List passes and presets, or show one");
    command->add_option("name", pass_name_, "A pass or a preset, or a part of the names to list");
    add_json(command, json_);
    command->callback(
        [this, dialect] { status_ = guarded("passes", "", json_, [&] { return passes(pass_name_, dialect, json_); }); });
  }

  void add_run(CLI::App& to) {
    auto* command = to.add_subcommand("run", "Evaluate a model on the reference evaluator");
    add_input(command);
    command->add_option("-i,--input", run_.inputs, "NAME=FILE.npy, NAME=VALUE, or FILE.npz with arrays by name");
    command->add_option("-o,--output", run_.output,
                        "File for the results: .npz, or .npy for a single one (default: print them)");
    command->add_flag("--random", run_.random, "Generate missing inputs at random");
    command->add_option("--seed", run_.seed, "Seed of generated inputs and of random operators")
        ->check(kNoSign)
        ->capture_default_str();
    command->add_option("--input-shape", run_.input_shapes, "Shape of a generated input: x=f32[2,3] or x:2,3");
    command->add_option("--memory", run_.memory, "Limit on live tensors in bytes (64M, 8G)")
        ->transform(CLI::AsSizeValue(false));
    command->add_flag("--fast", run_.fast, "Faster matrix products, whose last bits depend on the machine");
    add_json(command, run_.json);
    command->callback([this] { status_ = guarded("run", files_.input, run_.json, [&] { return tools::run(files_, run_); }); });
  }

  void add_lower(CLI::App& to) {
    to.add_option("--plugin", plugins_, "Shared object with lowerings (sardonyx/plugin.h), for `lower` and `export`");
    auto* command = to.add_subcommand("lower", "Convert a program in text form (.sx) to ONNX");
    command->add_option("program", files_.input, "Program of the jax or onnx dialect")->required();
    command->add_flag("--no-mmap", files_.no_mmap, "Read files instead of mapping them");
    add_output(command);
    command->add_option("--opset", opset_, "Opset of the result (default: 23, or the newest that the target loads)");
    command->add_option("--target", target_, "Runtime that must run the model, such as ort-1.17");
    add_json(command, json_);
    command->callback([this] {
      status_ = guarded("lower", files_.input, json_, [&] { return lower(files_, output_, opset_, target_, plugins_, json_); });
    });
  }

  void add_coreml() {
    auto* coreml = app_.add_subcommand("coreml", "Core ML packages and model files")->require_subcommand(1);
    add_info(*coreml);
    add_check(*coreml, "coreml check");
    add_diff(*coreml);
    add_verify(*coreml);
    add_view(*coreml);
    add_coreml_optimize(*coreml);
    add_half_report(*coreml);
    add_passes(*coreml, "mil");
    add_run(*coreml);
  }

  // Python reads the values of these; here the options are checked, and listed for --help, completion and the man page.
  // tests/python/test_command.py compares them with Python's.
  void add_python_commands() {
    const auto traced = [&](const char* name, const char* about) {
      auto* command = app_.add_subcommand(name, about);
      command->add_option("function", text_, "module:function, module:object.method, or module:make() to call a factory first")
          ->required();
      command
          ->add_option("-i,--input", text_,
                       "One per argument, in order: \"f32[B,224,224,3]\", \"x=i32[B,T]\", \"x:B,3\", \"key[]\"")
          ->type_name("SPEC");
      command->add_option("--plugin", text_, "Shared object with lowerings (sardonyx/plugin.h); repeatable")->type_name("FILE");
      command->add_flag("--double", flag_, "64-bit types");
      command->add_flag("-v,--verbose", flag_, "Also print Python's traceback where the function fails");
      add_json(command, flag_);
      return command;
    };
    auto* command = traced("export", "Export a JAX function, given as module:function, as ONNX or to Core ML");
    command->add_option("-o,--output", text_, "The .onnx file to write, or a Core ML package (.mlpackage)")
        ->required()
        ->type_name("FILE");
    command->add_flag("-q,--quiet", flag_, "Print errors and warnings only");
    command->add_option("--opset", text_, "Opset of the model (default: 23, or the newest that the target loads)")
        ->type_name("N");
    command->add_option("--target", text_,
                        "Runtime that must run the model, such as ort-1.17; of packages: iOS15 to iOS18, iOS26");
    command->add_option("--compute-precision", text_, "Of packages (default: fp16)")->check(CLI::IsMember({"fp16", "fp32"}));
    command->add_option("--state", text_, "Of packages: an input that becomes a state")->type_name("INPUT=RESULT");
    command->add_option("--image-input", text_, "Of packages: an input that takes images")->type_name("NAME:COLORS");
    command->add_option("--image-output", text_, "Of packages: a result that is an image")->type_name("NAME:COLORS");
    command->add_option("--input-type", text_, "Of packages: element type of an input of floats, or of all")
        ->type_name("NAME=fp16");
    command->add_option("--output-type", text_, "Of packages: element type of a result of floats, or of all")
        ->type_name("NAME=fp16");
    command->add_option("--default-size", text_, "Of packages: what a named size is by default")->type_name("T=128");
    command->add_option("--enumerated-shape", text_, "Of packages: one of the shapes that an input takes")
        ->type_name("NAME:1,3,224,224");
    command->add_option("--class-labels", text_, "Of packages: a file with the label of one class a line")->type_name("FILE");
    command->add_option("--functions", text_, "auto: repeated parts become functions, too")
        ->check(CLI::IsMember({"decorated", "auto"}));
    command->add_option("--name", text_, "Name of the graph (default: the function's)");
    command->add_option("--passes", text_, "\"onnx\", \"none\", or names separated by commas");
    command->add_flag("--check", flag_, "Compare with JAX: in onnxruntime; of packages, on the evaluator");
    command->add_flag("--strict", flag_, "Stop when a pass fails");
    command->add_option("--provenance", text_, "Source lines in the model")->check(CLI::IsMember({"off", "line", "full"}));
    command->add_option("--input-names", text_, "Names of the inputs, or \"positional\"")->type_name("A,B");
    command->add_option("--output-names", text_, "Names of the results, or \"positional\"")->type_name("A,B");
    command->add_option("--inputs-as-nchw", text_, "Numbers of inputs that are NCHW in the model")->type_name("0,1");
    command->add_option("--outputs-as-nchw", text_, "Numbers of results that are NCHW in the model")->type_name("0,1");
    command->add_flag("--web", flag_, "Write a single file, for the browser");
    command->add_option("--trace", text_, "Also write the steps, for `sardonyx view FILE.sxt -o page.html`")
        ->type_name("FILE.sxt");
    command = traced("explain", "List the primitives of a JAX function, and what would be refused");
    command->add_option("--opset", text_, "As of export")->type_name("N");
    command->add_option("--target", text_, "As of export");
    command = app_.add_subcommand("profile", "Show where an ONNX model spends its time in onnxruntime");
    command->add_option("model", text_, "An ONNX file")->required();
    command->add_option("--against", text_, "Another model, whose times stand beside")->type_name("MODEL");
    command->add_option("-o,--output", text_, "A page of the model, colored by time; with --against, of both models")
        ->type_name("FILE.html");
    command->add_option("--by", text_, "What a row is (default: node)")
        ->check(CLI::IsMember({"node", "operator", "module", "line"}));
    command->add_option("--most", text_, "How many rows (default: 20)")->type_name("N");
    command->add_option("--input-shape", text_, "Shape of a generated input: x:1,3,224,224 (open sizes are 1 otherwise)")
        ->type_name("SHAPE");
    command->add_option("--inputs", text_, "An .npz file with arrays by name; other inputs are random")->type_name("FILE");
    command->add_option("--runs", text_, "How many runs are counted (default: as many as a second allows, 10 to 200)")
        ->type_name("N");
    command->add_option("--threads", text_, "Threads of one operator (default: onnxruntime's)")->type_name("N");
    command->add_option("--provider", text_, "Execution provider (default: CPUExecutionProvider); repeatable")
        ->type_name("NAME");
    add_json(command, flag_);
    command = app_.add_subcommand("lint-plugin", "Check plugins for misuse of the builder");
    command->add_option("files", texts_, "Python files or folders");
    command->add_flag("--diff", flag_, "Check staged files");
    add_json(command, flag_);
    for (const char* name : kPythonCommands) {
      for (CLI::Option* o : app_.get_subcommand(name)->get_options()) o->take_last();  // Python keeps those that repeat
    }
  }

  void add_shell_commands() {
    auto* command = app_.add_subcommand("completion", "Print a script for tab completion");
    command->add_option("shell", shell_, "bash, zsh or fish")->required();
    command->callback([this] {
      if (shell_ == "names") {  // for the scripts
        for (const PresetInfo& p : list_presets()) fmt::print("{}\n", p.name);
        for (const PassInfo& p : list_passes()) fmt::print("{}\n", p.name);
      } else {
        fmt::print("{}", completion_script(rows(), shell_));
      }
    });
    app_.add_subcommand("man", "Print the manual page, for `man -l`")->callback([this] {
      fmt::print("{}", man_page(rows(), version()));
    });
    app_.add_subcommand("help", "Print the page of a command: `sardonyx help optimize`");
  }

  CLI::App app_{"Sardonyx: a native graph compiler for machine-learning models"};
  int status_ = 0;
  // Filled by the options.
  FileArgs files_;
  InfoArgs info_;
  DiffArgs diff_;
  VerifyArgs verify_;
  ViewArgs view_;
  WhereArgs where_;
  OutputArgs output_;
  OptimizeArgs optimize_, coreml_;
  std::string coreml_output_;
  HalfReportArgs half_;
  std::string pass_name_;
  bool json_ = false;
  RunArgs run_;
  std::vector<std::string> plugins_;
  std::optional<int> opset_;
  std::string target_, shell_;
  std::string text_;  // of commands that Python runs
  std::vector<std::string> texts_;
  bool flag_ = false;  // of the same
};

}  // namespace
}  // namespace sardonyx::tools

int main(int argc, char** argv) {
  using namespace sardonyx;
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  try {
    const int status = tools::CommandLine(arguments.empty() ? "" : arguments.front()).execute(arguments);
    tools::finish_output();
    return status;
  } catch (const std::bad_alloc&) {
    return tools::report_error(arguments, Error(ErrorCode::kLimit, "out of memory"));
  } catch (const std::filesystem::filesystem_error& e) {
    return tools::report_error(arguments, e);
  } catch (const std::system_error& e) {  // fmt::print could not write
    return tools::report_error(arguments,
                               Error(ErrorCode::kIo, fmt::format("cannot write to standard output: {}", e.code().message())));
  } catch (const std::exception& e) {
    return tools::report_error(arguments, e);
  }
}
