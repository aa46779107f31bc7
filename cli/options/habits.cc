#include "cli/options/habits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <span>

#include "cli/commands.h"
#include "cli/print/output.h"
#include "sardonyx/error.h"
#include "sardonyx/io.h"
#include "support/nearest.h"

namespace sardonyx::cli {
namespace {

using Arguments = std::vector<std::string>;

bool is_model(const std::string& argument) {
  const std::string suffix = std::filesystem::path(argument).extension().string();
  std::error_code none;
  return suffix == ".onnx" || suffix == ".mlpackage" || suffix == ".mlmodel" || std::filesystem::exists(argument, none);
}

std::string line_of(std::string_view command, std::span<const std::string> arguments) {
  std::string line = fmt::format("sardonyx {}", command);
  for (const std::string& a : arguments)
    line += a.find_first_of(" [(<{") == std::string::npos ? " " + a : fmt::format(" \"{}\"", a);
  return line;
}

// Commands of earlier versions and of other tools, and their counterparts. Those of one word take the same
// arguments.
constexpr std::pair<std::string_view, std::string_view> kOtherCommands[] = {
    {"export", "convert"},
    {"lower", "convert"},
    {"convert-opset", "convert"},
    {"verify", "compare"},
    {"explain", "info"},
    {"where", "sardonyx info MODEL --node NAME, or --line model.py:41"},
    {"lint-plugin", "python -m sardonyx.plugins FILES"},
    {"fp16-report", "sardonyx compare MODEL --precision f16"},
    {"simplify", "sardonyx optimize MODEL -o OUTPUT"},
    {"slim", "sardonyx optimize MODEL -o OUTPUT"},
    {"inspect", "sardonyx info MODEL"},
    {"show", "sardonyx view MODEL"},
    {"surgeon", "sardonyx optimize MODEL -o OUTPUT --inputs A --outputs B"},
};

// `coreml COMMAND`, as in earlier versions: the second word is the command.
[[noreturn]] void refuse_command(std::string name, std::span<const std::string> rest) {
  std::string shown = name;
  if (name == "coreml" && !rest.empty() && !rest.front().starts_with('-')) {
    name = rest.front();
    shown += " " + name;
    rest = rest.subspan(1);
  }
  std::vector<std::string> notes;
  const auto other = std::ranges::find(kOtherCommands, name, [](const auto& c) { return c.first; });
  if (find_command(name) != nullptr) {  // coreml optimize
    notes.push_back("help: " + line_of(name, rest));
  } else if (other != std::end(kOtherCommands)) {
    const bool is_word = other->second.find(' ') == std::string_view::npos;
    notes.push_back(is_word ? "help: " + line_of(other->second, rest) : fmt::format("help: {}", other->second));
  } else {
    std::vector<std::string_view> names;
    for (const Command& c : commands()) names.push_back(c.name);
    const std::string_view meant = nearest(name, names);
    notes.push_back(!meant.empty() ? fmt::format("did you mean '{}'?", meant)
                                   : fmt::format("there are: {}", fmt::join(names, ", ")));
  }
  refuse(fmt::format("there is no command named '{}'", shown), std::move(notes));
}

// The indices of positional arguments. Throws for an unknown option.
std::vector<size_t> positions(const Arguments& arguments, std::string_view command) {
  std::vector<size_t> found;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    if (a == "--") break;
    if (a == "-" || !a.starts_with('-')) {
      found.push_back(i);
      continue;
    }
    const SpelledOption o = spelled_option(command, a);
    if (o.option->takes_value() && !o.option->may_lack_value() && !o.value) ++i;
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

// What the result of a command could be called.
std::string output_name(std::string_view command, const std::string& input) {
  const std::filesystem::path in = input;
  if (input == "-") return "-";
  if (command == "optimize") return in.stem().string() + "-small" + in.extension().string();
  if (is_function(input)) return "model.onnx";
  return in.stem().string() + (in.extension() == ".onnx" ? ".mlpackage" : in.extension() == ".sx" ? ".onnx" : ".sx");
}

// Accepts `optimize in.onnx out.onnx`, the syntax of other tools. As in these, a second run replaces the
// result of the first.
void give_output(Arguments& arguments, const std::string& command) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i].starts_with("-o") || arguments[i].starts_with("--output=") || arguments[i] == "--output") return;
    if (arguments[i] == "-h" || arguments[i] == "--help") return;
  }
  const std::vector<size_t> at = positions(arguments, command);
  if (at.empty()) return;
  const std::string& first = arguments[at.front()];
  if (at.size() == 1)
    refuse("-o is missing: where the result goes",
           {fmt::format("help: sardonyx {} {} -o {}", command, first, output_name(command, first))});
  const std::string out = arguments[at.back()];
  std::error_code none;
  const bool same_format =
      command == "optimize" || std::filesystem::path(first).extension() == std::filesystem::path(out).extension();
  const bool may_be_another = same_format && out != "-" && std::filesystem::exists(out, none) && !are_alike(first, out);
  if (at.size() > 2 || may_be_another) {
    std::string models;
    for (size_t i = 0; i + 1 < at.size(); ++i) models += arguments[at[i]] + " ";
    std::vector<std::string> notes{fmt::format("help: sardonyx {} {}-o {}    # replaces {}", command, models, out, out)};
    if (same_format)
      notes.push_back(fmt::format("help: sardonyx {} {}{} -o FOLDER    # takes all of them", command, models, out));
    refuse(may_be_another ? fmt::format("-o is missing: '{}' is there, and may be one more model", out) : "-o is missing",
           std::move(notes));
  }
  arguments.insert(arguments.begin() + static_cast<ptrdiff_t>(at.back()), "-o");
}

// The value of `--verify` may follow it as a word.
void complete_verify(Arguments& arguments) {
  for (size_t i = 1; i + 1 < arguments.size(); ++i) {
    if (arguments[i] != "--verify") continue;
    const std::string next = arguments[i + 1];
    if (next.starts_with('-') || is_model(next) || next.find_first_of("./:") != std::string::npos) continue;
    arguments[i] += "=" + next;
    arguments.erase(arguments.begin() + static_cast<ptrdiff_t>(i) + 1);
  }
}

// Other names of options, which are accepted.
constexpr std::pair<std::string_view, std::string_view> kTakenSilently[] = {
    {"--overwrite-input-shape", "--input-shape"},
    {"--input-shapes", "--input-shape"},
    {"--preset", "--passes"},
};

// Options of earlier versions and of other optimizers, and the equivalent options.
constexpr std::pair<std::string_view, std::string_view> kOtherOptions[] = {
    {"--compute-precision", "--precision f16 or f32"},
    {"--skip-ops", "--keep-f32 OPS"},
    {"--double", "--precision f64"},
    {"--changes", "-v"},
    {"--web", "--target web"},
    {"--random", "--seed 0: missing inputs are then random"},
    {"--fast", "--numerics relaxed"},
    {"--text", "the command `sardonyx view`"},
    {"--infer", "the command `sardonyx view`, or `sardonyx check`"},
    {"--inline", "--functions inline"},
    {"--enumerated-shape", "--input-shape, once for each shape"},
    {"--default-size", "--size T=128"},
    {"--data-file", "--external-data=NAME"},
    {"--author", "--metadata author=..."},
    {"--license", "--metadata license=..."},
    {"--model-version", "--metadata version=..."},
    {"--description", "--metadata description=..."},
    {"--input-names", "--inputs A,B"},
    {"--output-names", "--outputs A,B"},
    {"--output-dtype", "--output-type NAME=f16"},
    {"--image-input", "--option image_input_preprocess.inputs=NAME:nhwc"},
    {"--lines", "--most N"},
    {"--against", "the other model as second argument"},
    {"--predicted-feature-name", "--class-labels FILE:LABEL"},
    {"--predicted-probabilities-output", "--class-labels FILE:LABEL:RESULT"},
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
    {"--inline-functions", "--functions inline"},
    {"--save-as-external-data", "--external-data"},
    {"--size-threshold", "--fold-budget BYTES"},
    {"--no-large-tensor", "no option is needed: folding adds 1 % to a file at most"},
    {"--tensor-size-threshold", "--fold-budget BYTES"},
    {"--unused-output", "--outputs NAMES, the results to keep"},
    {"--inspect", "the command `sardonyx info`"},
    {"--override-input-shapes", "--input-shape x:1,3"},
    {"--batch", "--input-shape NAME:8,3,224,224, with the batch size in its place"},
    {"--batch-size", "--input-shape NAME:8,3,224,224, with the batch size in its place"},
    {"-f", "no option is needed: an existing file is replaced"},
    {"--force", "no option is needed: an existing file is replaced"},
    {"--fp16", "--precision f16"},
    {"--half", "--precision f16"},
    {"--dtype", "--precision f16"},
    {"--convert-to", "no option is needed: the suffix of -o decides the format"},
    {"--minimum-deployment-target", "--target iOS17"},
};

// What is wrong with an option that the command does not have.
Error unknown_option(std::string_view command, std::string_view given) {
  const std::string_view option = given.substr(0, given.find('='));
  std::vector<std::string_view> names;
  for (const Option* o : options_of(command)) {
    if (o->is_positional()) continue;
    for (std::string_view name : o->spellings()) names.push_back(name);
  }
  std::vector<std::string> notes;
  std::string_view meant = nearest(option, names);
  if (option.size() == 2) {  // any two letters are near
    const auto is_letter = [&](std::string_view n) { return n.size() == 2 && std::tolower(n[1]) == std::tolower(option[1]); };
    const auto same = std::ranges::find_if(names, is_letter);
    meant = same != names.end() ? *same : std::string_view();
  }
  for (const auto& [other, own] : kOtherOptions) {
    const bool is_there = !own.starts_with("-") || find_option(command, own.substr(0, own.find_first_of(" ,:="))) != nullptr;
    if (other == option && is_there) notes.push_back(fmt::format("help: {}{}", own.starts_with("no ") ? "" : "use ", own));
  }
  if (notes.empty() && !meant.empty()) notes.push_back(fmt::format("did you mean {}?", meant));
  notes.push_back(fmt::format("help: `sardonyx {}{}--help`", command, command.empty() ? "" : " "));
  return {ErrorCode::kInvalidArgument, fmt::format("there is no option {}", option), std::move(notes)};
}

// Options of commands before the command or the model, as in `sardonyx -q in.onnx out.onnx`.
[[noreturn]] void refuse_option_in_front(const Arguments& arguments) {
  const std::string_view given = std::string_view(arguments.front()).substr(0, arguments.front().find('='));
  const auto command = std::ranges::find_if(arguments, [](const std::string& a) { return find_command(a) != nullptr; });
  const bool has_command = command != arguments.end();
  if (!has_command && std::ranges::none_of(arguments, is_model)) throw unknown_option("", given);
  const std::string name = has_command ? *command : "optimize";
  if (find_option(name, given) == nullptr) throw unknown_option(name, given);
  Arguments rest = arguments;
  if (has_command) rest.erase(rest.begin() + (command - arguments.begin()));
  refuse(fmt::format("{} is an option of a command, and no command is in front of it", given),
         {"help: " + line_of(name, rest)});
}

}  // namespace

bool is_function(const std::string& text) {
  const std::filesystem::path path = text;
  const std::string suffix = path.extension().string();
  for (std::string_view known : {".onnx", ".pb", ".sx", ".mlpackage", ".mlmodel"}) {
    if (suffix == known) return false;
  }
  if (suffix == ".py") return true;
  std::error_code none;
  if (std::filesystem::exists(path, none)) return false;
  // "net.f" of net.py is answered by Python.
  return text.find(':') != std::string::npos ||
         (!suffix.empty() && std::filesystem::exists(path.stem().string() + ".py", none));
}

SpelledOption spelled_option(std::string_view command, std::string_view argument) {
  const bool is_long = argument.starts_with("--");
  const size_t end = is_long ? std::min(argument.find('='), argument.size()) : 2;
  std::string_view name = argument.substr(0, end);
  for (const auto& [other, own] : kTakenSilently) {
    if (name == other) name = own;
  }
  SpelledOption found{.option = find_option(command, name), .name = std::string(name)};
  if (found.option == nullptr) throw unknown_option(command, argument);
  if (argument.size() > end) found.value = argument.substr(end + (argument[end] == '=' ? 1 : 0));
  return found;
}

Arguments understood(Arguments arguments) {
  if (arguments.empty()) refuse("a command is missing", {"help: `sardonyx --help`, `sardonyx COMMAND --help`"});
  std::string& first = arguments.front();
  if (first == "version" || first == "--version" || first == "-V") return {"--version"};
  if (first == "--help" || first == "-h") return {"help"};
  if (first == "help") {
    std::erase_if(arguments, [](const std::string& a) { return a == "-h" || a == "--help"; });
    if (arguments.size() > 1 && find_command(arguments[1]) == nullptr)
      refuse_command(arguments[1], std::span(arguments).subspan(2));
    return arguments;
  }
  if (first.starts_with('-') && first != "-") refuse_option_in_front(arguments);
  if (find_command(first) == nullptr) {
    const std::string name = first;
    if (!is_model(name)) refuse_command(name, std::span(arguments).subspan(1));
    const bool has_more = std::any_of(arguments.begin() + 1, arguments.end(), [](const std::string& a) {
      return !a.starts_with('-') || a.starts_with("-o") || a == "--output";
    });
    if (!has_more) {
      refuse(fmt::format("'{}' is a file, and a command is expected", name),
             {fmt::format("help: sardonyx info {}", name), fmt::format("help: sardonyx optimize {} -o OUTPUT", name)});
    }
    arguments.insert(arguments.begin(), "optimize");
  }
  const std::string command = arguments.front();
  if (find_option(command, "--verify") != nullptr) complete_verify(arguments);
  if (const Option* o = find_option(command, "-o"); o != nullptr && o->required) give_output(arguments, command);
  return arguments;
}

int report_error(const Arguments& arguments, const std::exception& e) {
  if (std::ranges::find(arguments, "--json") != arguments.end()) {
    ordered_json object = json_head(arguments.front(), "", false);
    object["error"] = json_of(e);
    try {
      print_one(std::move(object));
    } catch (const std::exception&) {}  // standard output is what failed
  }
  show_error(e);
  return exit_code_of(e);
}

}  // namespace sardonyx::cli
