#include "habits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "commands.h"
#include "output.h"
#include "sardonyx/error.h"
#include "sardonyx/io.h"
#include "support/nearest.h"

namespace sardonyx::tools {
namespace {

using Arguments = std::vector<std::string>;

[[noreturn]] void refuse(std::string what, std::vector<std::string> notes) {
  throw Error(ErrorCode::kInvalidArgument, std::move(what), std::move(notes));
}

bool is_model(const std::string& argument) {
  const std::string suffix = std::filesystem::path(argument).extension().string();
  std::error_code none;
  return suffix == ".onnx" || suffix == ".mlpackage" || suffix == ".mlmodel" || std::filesystem::exists(argument, none);
}

// The index of the command; only --plugin options may precede it.
size_t command_at(const Arguments& arguments) {
  size_t at = 0;
  while (at < arguments.size() && arguments[at].starts_with("--plugin")) at += arguments[at] == "--plugin" ? 2 : 1;
  return std::min(at, arguments.size());
}

// Commands of other tools, and their counterparts.
constexpr std::pair<std::string_view, std::string_view> kForeignCommands[] = {
    {"simplify", "sardonyx optimize MODEL -o OUTPUT"},
    {"slim", "sardonyx optimize MODEL -o OUTPUT"},
    {"inspect", "sardonyx info MODEL"},
    {"show", "sardonyx view MODEL"},
    {"compare", "sardonyx verify BEFORE AFTER (values), sardonyx diff BEFORE AFTER (text)"},
    {"surgeon", "sardonyx optimize MODEL -o OUTPUT --inputs A --outputs B"},
};

[[noreturn]] void refuse_command(const CommandRow& above, const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& [known, about] : above.commands) names.push_back(known);
  std::vector<std::string> notes;
  const std::string_view meant = nearest(name, names);
  if (!meant.empty()) notes.push_back(fmt::format("did you mean '{}'?", meant));
  for (const auto& [foreign, own] : kForeignCommands) {
    if (above.name.empty() && foreign == name) notes.push_back(fmt::format("help: {}", own));
  }
  if (above.name == "coreml" && (name == "convert" || name == "export"))
    notes.emplace_back("help: sardonyx convert MODEL.onnx -o OUTPUT.mlpackage");
  if (notes.empty() || above.name == "coreml") notes.push_back(fmt::format("there are: {}", fmt::join(names, ", ")));
  refuse(fmt::format("there is no command named '{}{}{}'", above.name, above.name.empty() ? "" : " ", name), std::move(notes));
}

const OptionRow* option_named(const CommandRow& row, std::string_view name) {
  for (const OptionRow& o : row.options) {
    if (!o.positional && std::ranges::find(o.names, name) != o.names.end()) return &o;
  }
  return nullptr;
}

// What is wrong with an option that the command does not have.
Error unknown_option(const CommandRow& row, const std::string& given);

// The indices of positional arguments. Throws for an unknown option.
std::vector<size_t> positions(const Arguments& arguments, size_t first, const CommandRow& row) {
  std::vector<size_t> found;
  for (size_t i = first; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    if (a == "-" || !a.starts_with('-')) {
      found.push_back(i);
      continue;
    }
    if (a == "--") break;
    const std::string_view name = std::string_view(a).substr(0, a.starts_with("--") ? a.find('=') : 2);
    const bool silent =
        std::ranges::any_of(kTakenSilently, [&](std::string_view n) { return name.starts_with("--") && name.substr(2) == n; });
    const OptionRow* o = option_named(row, name);
    if (o == nullptr && !silent) throw unknown_option(row, a);
    const bool takes = silent || !o->value.empty() || !o->choices.empty();
    if (takes && name.size() == a.size()) ++i;
  }
  return found;
}

// Whether two files are models with the same names of inputs and results: one may be made from the other.
bool are_alike(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto names = [](const std::filesystem::path& path) {
    const auto model = read_model(path.string(), {});
    std::vector<std::string> all;
    for (const Port& p : model->graph().inputs()) all.emplace_back(p.name.view());
    for (const Port& p : model->graph().outputs()) all.emplace_back(p.name.view());
    return all;
  };
  try {
    return names(a) == names(b);
  } catch (const Error&) {
    return false;
  }
}

// Accepts `optimize in.onnx out.onnx`, the syntax of other tools. As in these, a second run replaces the result of the first.
void give_output(Arguments& arguments, size_t first, const CommandRow& row) {
  for (size_t i = first; i < arguments.size(); ++i) {
    if (arguments[i].starts_with("-o") || arguments[i].starts_with("--output=") || arguments[i] == "--output") return;
    if (arguments[i] == "-h" || arguments[i] == "--help") return;
  }
  const std::vector<size_t> at = positions(arguments, first, row);
  if (at.empty()) return;
  const std::string command = "sardonyx " + row.name;
  const bool optimizes = option_named(row, "--verify") != nullptr;  // its input and its output have one format
  if (at.size() == 1) {
    const std::string& given = arguments[at.front()];
    const std::filesystem::path in = given;
    const std::string better = given == "-"            ? "-"
                               : optimizes             ? in.stem().string() + "-small" + in.extension().string()
                               : row.name == "convert" ? in.stem().string() + ".mlpackage"
                               : row.name == "export"  ? "model.onnx"
                                                       : in.stem().string() + ".onnx";
    refuse("-o is missing: where the result goes", {fmt::format("help: {} {} -o {}", command, given, better)});
  }
  const std::string out = arguments[at.back()];
  std::error_code none;
  const bool may_be_another =
      optimizes && out != "-" && std::filesystem::exists(out, none) && !are_alike(arguments[at.front()], out);
  if (at.size() > 2 || may_be_another) {
    std::string models;
    for (size_t i = 0; i + 1 < at.size(); ++i) models += arguments[at[i]] + " ";
    std::vector<std::string> notes{fmt::format("help: {} {}-o {}    # replaces {}", command, models, out, out)};
    if (optimizes) notes.push_back(fmt::format("help: {} {}{} -o FOLDER    # optimizes all of them", command, models, out));
    refuse(may_be_another ? fmt::format("-o is missing: '{}' is there, and may be a model to optimize as well", out)
                          : "-o is missing",
           std::move(notes));
  }
  arguments.insert(arguments.begin() + static_cast<ptrdiff_t>(at.back()), "-o");
}

// `--verify` alone means `--verify model`.
void complete_verify(Arguments& arguments, size_t first) {
  for (size_t i = first; i < arguments.size(); ++i) {
    if (arguments[i] != "--verify") continue;
    const std::string next = i + 1 < arguments.size() ? arguments[i + 1] : std::string();
    if (next.empty() || next.starts_with('-') || is_model(next) || next.find_first_of("./") != std::string::npos)
      arguments[i] = "--verify=model";
  }
}

// Options of other optimizers, and the equivalent options.
constexpr std::pair<std::string_view, std::string_view> kForeignOptions[] = {
    {"--check-n", "--verify model"},
    {"--check", "--verify model"},
    {"--model-check", "--verify model"},
    {"--skip-optimizer", "--skip PASS"},
    {"--skip-optimization", "--skip PASS"},
    {"--skip-optimizations", "--skip PASS"},
    {"--skip-fusion-patterns", "--skip PASS"},
    {"--skip-fuse-bn", "--skip fuse_affine_into_conv"},
    {"--skip-constant-folding", "--skip fold_constants"},
    {"--target-opset", "--opset N"},
    {"--inline-functions", "--inline"},
    {"--save-as-external-data", "--external-data"},
    {"--size-threshold", "--fold-budget BYTES"},
    {"--no-large-tensor", "nothing: folding adds 1 % to a file at most"},
    {"--tensor-size-threshold", "--fold-budget BYTES"},
    {"--unused-output", "--outputs NAMES, the results to keep"},
    {"--inspect", "the command `sardonyx info`"},
    {"--override-input-shapes", "--input-shape x:1,3"},
    {"--batch", "--input-shape NAME:8,3,224,224, with the batch size in its place"},
    {"--batch-size", "--input-shape NAME:8,3,224,224, with the batch size in its place"},
    {"-f", "no option: an existing file is replaced"},
    {"--force", "no option: an existing file is replaced"},
    {"--fp16", "--compute-precision fp16, of `sardonyx convert` and `sardonyx coreml optimize`"},
    {"--half", "--compute-precision fp16, of `sardonyx convert` and `sardonyx coreml optimize`"},
};

Error unknown_option(const CommandRow& row, const std::string& given) {
  const std::string_view option = std::string_view(given).substr(0, given.find('='));
  std::vector<std::string_view> names;
  for (const OptionRow& o : row.options) {
    if (!o.positional) names.insert(names.end(), o.names.begin(), o.names.end());
  }
  std::vector<std::string> notes;
  std::string_view meant = nearest(option, names);
  if (option.size() == 2) {  // any two letters are near
    const auto is_letter = [&](std::string_view n) { return n.size() == 2 && std::tolower(n[1]) == std::tolower(option[1]); };
    const auto same = std::ranges::find_if(names, is_letter);
    meant = same != names.end() ? *same : std::string_view();
  }
  for (const auto& [foreign, own] : kForeignOptions) {
    const bool is_there = !own.starts_with("--") || option_named(row, own.substr(0, own.find_first_of(" ,"))) != nullptr;
    if (foreign == option && (is_there || row.name == "optimize")) notes.push_back(fmt::format("help: use {}", own));
  }
  if (notes.empty() && !meant.empty()) notes.push_back(fmt::format("did you mean {}?", meant));
  notes.push_back(fmt::format("help: `sardonyx {}{}--help`", row.name, row.name.empty() ? "" : " "));
  return {ErrorCode::kInvalidArgument, fmt::format("there is no option {}", option), std::move(notes)};
}

// Options of commands before the command or the model, as in `sardonyx -q in.onnx out.onnx`.
void refuse_option_in_front(const Arguments& arguments, size_t at, const FindCommand& find) {
  const std::string_view given = std::string_view(arguments[at]).substr(0, arguments[at].find('='));
  const CommandRow own = *find("");
  if (option_named(own, given) != nullptr) return;
  const auto first = arguments.begin() + static_cast<ptrdiff_t>(at);
  const auto command =
      std::find_if(first, arguments.end(), [&](const std::string& a) { return !a.starts_with('-') && find(a); });
  const bool has_command = command != arguments.end();
  if (!has_command && std::none_of(first, arguments.end(), is_model)) throw unknown_option(own, arguments[at]);
  const std::string name = has_command ? *command : "optimize";
  if (const CommandRow row = *find(name); option_named(row, given) == nullptr && row.commands.empty())
    throw unknown_option(row, arguments[at]);
  std::string line = "sardonyx " + name;
  for (auto a = first; a != arguments.end(); ++a) {
    if (a != command) line += " " + *a;
  }
  refuse(fmt::format("{} is an option of a command, and no command is in front of it", given), {"help: " + line});
}

}  // namespace

Habit understood(Arguments arguments, const FindCommand& find) {
  size_t at = command_at(arguments);
  if (at == arguments.size()) return {std::move(arguments)};
  if (arguments[at] == "version") arguments[at] = "--version";
  if (arguments[at] == "help") {
    arguments.erase(arguments.begin() + static_cast<ptrdiff_t>(at));
    std::erase_if(arguments, [](const std::string& a) { return a == "-h" || a == "--help"; });
    arguments.emplace_back("--help");
  }
  if (arguments[at].starts_with('-') && arguments[at] != "-") {
    refuse_option_in_front(arguments, at, find);
    return {std::move(arguments)};
  }
  std::optional<CommandRow> row = find(arguments[at]);
  if (!row) {
    const std::string name = arguments[at];
    if (!is_model(name)) refuse_command(*find(""), name);
    const bool has_more =
        std::any_of(arguments.begin() + static_cast<ptrdiff_t>(at) + 1, arguments.end(),
                    [](const std::string& a) { return !a.starts_with('-') || a.starts_with("-o") || a == "--output"; });
    if (!has_more) {
      refuse(fmt::format("'{}' is a file, and a command is expected", name),
             {fmt::format("help: sardonyx info {}", name), fmt::format("help: sardonyx optimize {} -o OUTPUT", name)});
    }
    arguments.insert(arguments.begin() + static_cast<ptrdiff_t>(at), "optimize");
    row = find("optimize");
  }
  if (row->name == "coreml" && at + 1 < arguments.size() && !arguments[at + 1].starts_with('-')) {
    std::optional<CommandRow> below = find(row->name + " " + arguments[at + 1]);
    if (!below) refuse_command(*row, arguments[at + 1]);
    row = std::move(below);
    ++at;
  }
  if (option_named(*row, "--verify") != nullptr) complete_verify(arguments, at + 1);
  positions(arguments, at + 1, *row);  // refuses unknown options
  if (option_named(*row, "-o") != nullptr && option_named(*row, "-o")->required) give_output(arguments, at + 1, *row);
  const bool in_python = std::ranges::find(kPythonCommands, row->name) != std::end(kPythonCommands);
  const bool helps = std::ranges::any_of(arguments, [](const std::string& a) { return a == "-h" || a == "--help"; });
  return {std::move(arguments), in_python && !helps};
}

std::string usage_message(std::string what) {
  constexpr std::string_view kUnexpected = "The following argument was not expected: ";
  constexpr std::string_view kSeveral = "The following arguments were not expected: ";
  if (what.starts_with(kUnexpected)) return fmt::format("there is no option {}", what.substr(kUnexpected.size()));
  if (what.starts_with(kSeveral)) return fmt::format("not expected: {}", what.substr(kSeveral.size()));
  if (!what.empty() && std::isupper(static_cast<unsigned char>(what[0])) && what.size() > 1 &&
      std::islower(static_cast<unsigned char>(what[1])))
    what[0] = static_cast<char>(std::tolower(what[0]));
  return what;
}

std::vector<std::string> usage_notes(const Arguments& arguments, const FindCommand& find, std::string_view what) {
  const size_t at = command_at(arguments);
  std::optional<CommandRow> row;
  if (at < arguments.size()) row = find(arguments[at]);
  if (row && at + 1 < arguments.size()) {
    if (auto below = find(row->name + " " + arguments[at + 1])) row = std::move(below);
  }
  const size_t dash = what.find("not expected: -");
  if (row && dash != std::string_view::npos) {
    const std::string_view option = what.substr(dash + 14);
    return unknown_option(*row, std::string(option.substr(0, option.find(' ')))).notes();
  }
  return {!row ? "help: `sardonyx --help`, `sardonyx COMMAND --help`" : fmt::format("help: `sardonyx {} --help`", row->name)};
}

int report_error(const Arguments& arguments, const std::exception& e) {
  if (std::ranges::find(arguments, "--json") != arguments.end()) {
    const size_t at = command_at(arguments);
    ordered_json object = json_head(at < arguments.size() ? arguments[at] : "", "", false);
    object["error"] = json_of(e);
    try {
      print_one(std::move(object));
    } catch (const std::exception&) {}  // standard output is what failed
  }
  show_error(e);
  return exit_code_of(e);
}

}  // namespace sardonyx::tools
