#include "cli/options/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/options/habits.h"

namespace sardonyx::cli {
namespace {

constexpr Command kCommands[] = {
    {"convert", "Convert JAX functions, ONNX models and saved programs to ONNX or Core ML"},
    {"optimize", "Make models smaller and faster, with the same results"},
    {"compare", "Evaluate two models on the same inputs; exit code 1 if they differ"},
    {"check", "Verify a model and its types"},
    {"diff", "Show what differs between two models; exit code 1 if anything does"},
    {"view", "Show a model as text with types, or as an HTML page"},
    {"info", "Summarize a model, one of its nodes or the nodes of a source line, or a JAX function"},
    {"run", "Evaluate a model on the reference evaluator"},
    {"profile", "Show where an ONNX model spends its time in onnxruntime"},
    {"passes", "List passes and presets, or show one"},
    {"completion", "Print a script for tab completion"},
    {"man", "Print the manual page, for `man -l`"},
    {"help", "Print the page of a command: `sardonyx help optimize`"},
};

constexpr Option kOptions[] = {
    // Models
    {"convert", "models", "...",
     "A function (module:function, module:object.method, or module:make() to call a factory first), ONNX models, saved "
     "programs (.sx), "
     "Core ML packages, or folders of models; - is standard input"},
    {"optimize", "models", "...", "ONNX models, Core ML packages, or folders of them; - is standard input", {}, true},
    {"compare", "before", "", "ONNX model, Core ML package, or a function as in convert", {}, true},
    {"compare", "after", "?", "What to compare with; not needed with --precision"},
    {"check view", "model", "", "ONNX model, or Core ML package; - is standard input", {}, true},
    {"info", "model", "", "ONNX model, Core ML package, or a function, whose primitives are listed", {}, true},
    {"run", "model", "", "ONNX model, or Core ML package; - is standard input", {}, true},
    {"diff", "before", "", "ONNX model, or Core ML package", {}, true},
    {"diff", "after", "", "The model to compare with", {}, true},
    {"profile", "model", "", "An ONNX file", {}, true},
    {"profile", "against", "?", "Another model, whose times stand beside"},
    {"passes", "name", "?", "A pass or a preset, or a part of the names to list"},
    {"completion", "shell", "bash|zsh|fish", "bash, zsh or fish", {}, true},
    {"help", "command", "?", "The command"},
    // What is written
    {"convert", "-o,--output", "FILE", "What to write: its suffix decides the format; - is standard output", {}, true},
    {"optimize", "-o,--output", "FILE", "Output file or folder; - is standard output", {}, true},
    {"view", "-o,--output", "FILE", "The page (.html) or text (.txt, .sx) to write"},
    {"diff profile", "-o,--output", "FILE", "A page (.html) of both models, with what differs, or colored by time"},
    {"run", "-o,--output", "FILE", "File for the results: .npz, or .npy for a single one (default: print them)"},
    {"convert/ol optimize/o", "--external-data", "[NAME]",
     "Write weights to a separate file (=NAME: of this name, beside the model)"},
    {"convert/ol optimize/o", "--data-threshold", "N", "Tensors below this many bytes stay in the model", "1024"},
    {"convert/ol optimize/o", "--max-data-file", "N", "Start another weights file beyond this many bytes"},
    {"convert/fFcom optimize", "--trace", "FILE", "Also write the steps, for `sardonyx view FILE.sxt -o page.html`"},
    {"convert/Fc", "--debug-dump", "FOLDER", "The graph as text at each stage"},
    {"convert/om optimize", "-n,--dry-run", "", "Do everything but write the result"},
    // Functions
    {"convert/fF compare/f info/f", "-i,--input", "SPEC...",
     "One per argument of a function, in order: \"f32[B,224,224,3]\", \"x=i32[B,T]\", \"x:B,3\", \"key[]\"; a pytree as JSON"},
    {"convert/fF", "--inputs", "A,B", "Names of the inputs of a function, or \"positional\""},
    {"convert/fF", "--outputs", "A,B", "Names of its results, or \"positional\""},
    {"convert/fF compare/f", "--inputs-as-nchw", "0,1", "Numbers of inputs that are NCHW in the model"},
    {"convert/fF compare/f", "--outputs-as-nchw", "0,1", "Numbers of results that are NCHW in the model"},
    {"convert/fF", "--name", "NAME", "Name of the graph (default: the function's)"},
    {"convert/fFc", "--provenance", "off|line|full", "Source lines in the model; Core ML has them or not", "line"},
    {"convert/fFl compare/f info/f", "--plugin", "FILE...", "Shared object with lowerings (sardonyx/plugin.h)"},
    // What the result is for
    {"convert/fol optimize/o info/f", "--opset", "OPSET",
     "Opset of the result, newer or older (of functions by default 23, or the newest that the target loads)"},
    {"convert/fFcl compare/o info/f", "--target", "RUNTIME",
     "What must run the model: a runtime (ort-1.17) or web, for ONNX; iOS15 to iOS18, iOS26 (default: iOS17) or macOS, for "
     "Core ML"},
    {"convert/fFc optimize/om compare/hf info/f", "--precision", "f32|f16|f64|int8",
     "Precision of the computation: f16 (default of convert for Core ML) or f32; of functions f64 keeps 64-bit types; "
     "int8 computes with constant weights in integers, as --calibrate says; without it, ONNX's products alone. With "
     "compare: the ops of one model that f16 would break"},
    {"convert/Fc optimize/om", "--keep-f32", "OPS",
     "Ops that stay in single precision: names, or auto (Core ML) for those that overflow"},
    {"convert/c optimize/om compare/h", "--calibrate", "INPUT...",
     "Inputs of a run (.npz, NAME=FILE.npy, NAME=VALUE): ops that overflow there stay in single precision, int8 learns scales "
     "there, --max-error measures there, and --weights rounds so that products change least there"},
    {"optimize/o", "--max-error", "SHARE",
     "Choose the types of values and weights: the smallest model whose results stay within this share of their largest "
     "element (1%, 0.01)"},
    {"convert/Fc optimize/o", "--input-shape", "SHAPE...",
     "Shape of an input: x=f32[1,3,224,224] or x:1,3,224,224. For Core ML, several of one input are those that it takes"},
    {"convert/Fc", "--size", "BOUND...", "What holds for a named size (\"T <= 512\"), or what it is by default (T=128)"},
    // The interface of Core ML packages
    {"convert/Fc", "--image-input", "IMAGE...", "An input that takes images: x:rgb, or x:bgr:SCALE:BIAS,BIAS,BIAS"},
    {"convert/Fc", "--image-output", "IMAGE...", "A result that is an image: y:rgb"},
    {"convert/Fc", "--input-type", "TYPE...", "Element type of an input of floats: x=f16, or f16 for all"},
    {"convert/Fc optimize/m", "--output-type", "TYPE...", "Element type of a result of floats: y=f16, or f16 for all"},
    {"convert/Fc", "--class-labels", "FILE[:LABEL[:RESULT]]",
     "Make a classifier: a file with the label of one class a line, the name of the label, the result with the "
     "probabilities"},
    {"convert/c", "--function", "NAME=MODEL...", "Instead of the model, one for each function: prefill=prefill.onnx"},
    {"convert/Fc", "--state", "INPUT=RESULT...", "An input that becomes a state, and its result"},
    {"convert/Fc", "--metadata", "KEY=VALUE...", "Author, license, version, description, or keys of your own"},
    // Passes
    {"convert/fFcom", "--passes", "PASSES",
     "Preset, comma-separated passes, or a file of passes (default: none from ONNX to ONNX)"},
    {"optimize", "--passes", "PASSES",
     "Preset, comma-separated passes, or a file of passes (default: onnx; default for Core ML)"},
    {"view", "--passes", "PASSES", "Optimize, and show the model after each step: a preset, passes, or a file of passes"},
    {"view", "--against", "MODEL", "Color nodes by how far their results are from this model's, on the same inputs"},
    {"view", "-i,--input", "INPUT...",
     "Inputs for --against: NAME=FILE.npy, NAME=VALUE, or FILE.npz with arrays by name; those that are missing are random"},
    {"view", "--seed", "N", "Seed of the random inputs for --against", "0"},
    {"view", "--report", "FILE", "Draw what `optimize --max-error` tried: the JSON that it printed"},
    {"convert/Fcom optimize", "--skip", "PASSES,...", "Passes (or pass/rule) to skip, separated by commas"},
    {"convert/Fcom optimize", "--option", "PASS.OPTION=VALUE...", "Set an option of one pass"},
    {"convert/f", "--functions", "keep|outline", "Keep the functions of the program, or outline repeated parts, too", "keep"},
    {"optimize/o", "--functions", "keep|inline", "Keep the functions of the model, or inline calls of them", "keep"},
    {"convert/fom optimize", "--strict", "", "Stop when a pass fails, instead of skipping it"},
    {"optimize/o", "--inputs", "A,B,...", "Values that become the inputs: only the part behind them is kept"},
    {"optimize/o", "--outputs", "A,B,...", "Values that become the results: only the part before them is kept"},
    {"optimize/o", "--fold-budget", "SIZE", "Bytes by which folding may grow the file (64k, 10M)", "0"},
    {"optimize", "--explain", "PASSES,...",
     "Report why these passes (or those that make an operator: Attention) skipped near matches"},
    {"optimize/om convert/Fc", "--weights", "TYPE",
     "Store weights in fewer bits: as int8, uint8, int4 or uint4 (of ONNX this raises the opset where it has to); for ONNX as "
     "f16 or bf16; for Core ML as palette1, 2, 3, 4, 6 or 8 (indices into a table), sparse, sparse-int8 or sparse-palette4"},
    {"optimize/o", "--prune-inputs", "", "Drop unused inputs"},
    {"optimize/o", "--keep-names", "", "Keep a name only where it means the same elements: changed weights get new names"},
    {"optimize/o", "--allow-empty", "", "Allow named input sizes to be zero"},
    {"optimize/o", "--declare-types", "", "Write inferred types as value_info"},
    {"optimize/m", "--link-weights", "", "Hard-link unchanged weight files of the input model instead of copying them"},
    // Comparing
    {"convert/fFcom", "--verify", "[off|model|pass]",
     "Compare the result with what was converted, on random inputs; in JAX for a function", "off"},
    {"optimize", "--verify", "[off|model|pass]", "Evaluate the model, or each pass, before and after on random inputs", "off"},
    {"compare/o", "--numerics", "exact|rounds|relaxed",
     "What counts as equal: all bits, up to rounding (the default for ONNX), or up to a thousandth (for Core ML)"},
    {"convert/com optimize compare/of", "--rtol", "TOLERANCE", "Compare by |a - b| <= atol + rtol |a| instead"},
    {"convert/com optimize compare/of", "--atol", "TOLERANCE", "See --rtol; the one that is not given is 0"},
    {"compare/h", "--runs", "N", "Number of runs on random inputs, without --calibrate", "2"},
    {"run compare/h", "--seed", "N", "Seed of random operators, and of the inputs: those that are missing are random", "0"},
    // Looking
    {"diff info/om", "--most", "N", "How many nodes, tensors or lines to list (default: 60 of a diff, 5 of a summary)"},
    {"info/om", "--node", "NAME", "Print where a node or a result comes from"},
    {"info/om", "--line", "LINE", "List the nodes of this source line: model.py:41, function:41, model.py or :41"},
    {"info/om run", "--input-shape", "SHAPE...",
     "Shape of an input that is counted with or generated: x=f32[1,3,224,224] or x:1,3,224,224"},
    {"run", "-i,--input", "INPUT...", "NAME=FILE.npy, NAME=VALUE, or FILE.npz with arrays by name"},
    {"run", "--numerics", "exact|relaxed", "relaxed: faster matrix products, whose last bits depend on the machine", "exact"},
    {"run", "--memory", "SIZE", "Limit on live tensors in bytes (64M, 8G)"},
    {"profile", "-i,--input", "FILE", "An .npz file with arrays by name; other inputs are random"},
    {"profile", "--input-shape", "SHAPE...", "Shape of a generated input: x:1,3,224,224 (open sizes are 1 otherwise)"},
    {"profile", "--by", "node|operator|module|line", "What a row is", "node"},
    {"profile", "--most", "N", "How many rows", "20"},
    {"profile", "--runs", "N", "How many runs are counted (default: as many as a second allows, 10 to 200)"},
    {"profile", "--threads", "N", "Threads of one operator (default: onnxruntime's)"},
    {"profile", "--provider", "NAME...", "Execution provider (default: CPUExecutionProvider)"},
    // All
    {"convert/colm optimize compare/oh check view info/om run", "--no-mmap", "",
     "Read files instead of mapping them, for untrusted storage"},
    {"convert optimize compare check diff view info run profile passes", "--json", "",
     "Machine-readable output: an array of objects (docs/reference/command_line.md)"},
    {"convert optimize", "-q,--quiet", "", "Print errors only; no progress bar"},
    {"convert optimize compare/f info/f", "-v,--verbose", "",
     "Also print what each pass did, and how long it took; Python's traceback where a function fails"},
    {"", "-V,--version", "", "Print the version"},
};

constexpr Option kHelp{"", "-h,--help", "", "Print this page"};

// The entry of `commands` for the command: "optimize/o".
std::string_view entry(std::string_view commands, std::string_view command) {
  for (std::string_view one : split(commands, ' ')) {
    if (one.substr(0, one.find('/')) == command) return one.empty() ? "/" : one;
  }
  return {};
}

std::string page_of(std::string_view command) {
  return fmt::format("help: `sardonyx {}{}--help`", command, command.empty() ? "" : " ");
}

bool is_count(std::string_view text, uint64_t& n) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size();
}

// The number in front, and what follows it; -1 without one.
std::pair<double, std::string> number_and_unit(const std::string& text) {
  size_t used = 0;
  double v = -1;
  try {
    v = std::stod(text, &used);
  } catch (const std::exception&) {}
  return {v, text.substr(used)};
}

double number_of(const std::string& text) {
  const auto [v, unit] = number_and_unit(text);
  return unit.empty() ? v : unit == "%" ? v / 100 : -1;
}

// Spellings of precisions elsewhere.
std::string precision_of(const std::string& text) {
  for (const auto& [other, own] : {std::pair<std::string_view, const char*>{"fp16", "f16"},
                                   {"float16", "f16"},
                                   {"half", "f16"},
                                   {"fp32", "f32"},
                                   {"float32", "f32"},
                                   {"single", "f32"},
                                   {"fp64", "f64"},
                                   {"float64", "f64"},
                                   {"double", "f64"}}) {
    if (text == other) return own;
  }
  return text;
}

// The value as commands read it. Throws for one that the option does not take.
std::string value_of(const Option& o, std::string_view shown, std::string value, std::string_view command) {
  const auto wrong = [&](std::string_view expected) { refuse(fmt::format("{}: {}", shown, expected), {page_of(command)}); };
  if (o.name() == "precision") value = precision_of(value);
  if (o.name() == "functions" && value == "auto") value = "outline";
  uint64_t n = 0;
  if (const auto choices = o.choices(); !choices.empty()) {
    if (std::ranges::find(choices, value) == choices.end())
      wrong(fmt::format("{} is not one of {}", value, fmt::join(choices, ", ")));
  } else if (o.value == "N" && !is_count(value, n)) {
    wrong(value.starts_with('-') ? fmt::format("{} is negative", value) : fmt::format("{} is not a number", value));
  } else if (o.value == "OPSET" && (!is_count(value, n) || n < 1 || n > 9999)) {
    wrong(fmt::format("{} is not a number from 1 to 9999", value));
  } else if (o.value == "TOLERANCE" && !(number_of(value) >= 0)) {
    wrong(fmt::format("{} is not a tolerance", value));
  } else if (o.value == "SHARE" && !(number_of(value) > 0 && number_of(value) < 1)) {
    wrong(fmt::format("{} is not a share between 0 and 1 (1%, 0.01)", value));
  } else if (o.value == "SIZE") {
    bytes_of(value);
  }
  return value;
}

}  // namespace

std::string_view Option::name() const {
  const size_t dashes = names.find("--");
  return dashes == std::string_view::npos ? names : names.substr(dashes + 2);
}

std::vector<std::string_view> Option::spellings() const { return split(names, ','); }

std::vector<std::string_view> Option::choices() const {
  if (value.find('|') == std::string_view::npos) return {};
  return split(may_lack_value() ? value.substr(1, value.size() - 2) : value, '|');
}

bool Option::applies_to(std::string_view command, Kind kind) const {
  const std::string_view found = entry(commands, command);
  const size_t slash = found.find('/');
  if (slash == std::string_view::npos || found == "/") return true;
  return found.find(static_cast<char>(kind), slash) != std::string_view::npos;
}

std::string_view Option::formats(std::string_view command) const {
  const auto only = [&](std::string_view kinds) {
    return std::ranges::all_of(std::string_view("omclfFh"), [&](char k) {
      return kinds.find(k) != std::string_view::npos || !applies_to(command, Kind{k});
    });
  };
  if (only("fF")) return "functions";
  if (command == "compare") return "";
  return only("fol") ? "ONNX" : only("Fcmh") ? "Core ML" : only("om") ? "models" : "";
}

std::span<const Command> commands() { return kCommands; }

std::span<const Option> all_options() { return kOptions; }

const Command* find_command(std::string_view name) {
  const auto at = std::ranges::find(kCommands, name, &Command::name);
  return at == std::end(kCommands) ? nullptr : at;
}

std::vector<const Option*> options_of(std::string_view command) {
  std::vector<const Option*> found;
  for (const Option& o : kOptions) {
    if (!entry(o.commands, command).empty()) found.push_back(&o);
  }
  found.push_back(&kHelp);
  return found;
}

const Option* find_option(std::string_view command, std::string_view name) {
  for (const Option* o : options_of(command)) {
    if (!o->is_positional() && std::ranges::count(o->spellings(), name) > 0) return o;
  }
  return nullptr;
}

Given::Given(std::string_view command, std::vector<std::string> arguments) : command_(command) {
  std::vector<std::string> positional;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string a = arguments[i];
    if (a == "--") {
      positional.insert(positional.end(), arguments.begin() + static_cast<ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    if (a == "-" || !a.starts_with('-')) {
      positional.push_back(a);
      continue;
    }
    const SpelledOption spelled = spelled_option(command, a);
    const Option& o = *spelled.option;
    std::vector<std::string>& values = values_[std::string(o.name())];
    if (!o.takes_value()) {
      values = {"true"};
      if (!spelled.value) continue;
      if (a.starts_with("--")) refuse(fmt::format("{} takes no value", spelled.name), {page_of(command)});
      arguments.insert(arguments.begin() + static_cast<ptrdiff_t>(i) + 1, "-" + *spelled.value);  // -qn
      continue;
    }
    std::string value = spelled.value.value_or("");
    if (!spelled.value && !o.may_lack_value()) {
      if (++i == arguments.size()) refuse(fmt::format("{} needs a value", spelled.name), {page_of(command)});
      value = arguments[i];
    } else if (!spelled.value && !o.choices().empty()) {
      value = "model";  // --verify
    }
    if (!o.value.ends_with(",...")) {
      values.push_back(value_of(o, spelled.name, std::move(value), command));
      continue;
    }
    for (std::string_view one : split(value, ',')) {
      if (!one.empty()) values.emplace_back(one);
    }
  }
  size_t next = 0;
  for (const Option* o : options_of(command)) {
    if (!o->is_positional()) continue;
    auto& values = values_[std::string(o->name())];
    while (next < positional.size()) {
      values.push_back(positional[next++]);
      if (o->value != "...") break;
    }
    if (values.empty()) values_.erase(std::string(o->name()));
  }
  if (has("help")) return;
  if (next < positional.size()) refuse(fmt::format("not expected: {}", positional[next]), {page_of(command)});
  for (const Option* o : options_of(command)) {
    if (o->required && !has(o->name()))
      refuse(fmt::format("{} is required", o->is_positional() ? o->names : "--" + std::string(o->name())), {page_of(command)});
  }
}

std::string Given::text(std::string_view name, std::string_view otherwise) const {
  const auto at = values_.find(name);
  return at == values_.end() || at->second.empty() ? std::string(otherwise) : at->second.back();
}

const std::vector<std::string>& Given::list(std::string_view name) const {
  static const std::vector<std::string> kNone;
  const auto at = values_.find(name);
  return at == values_.end() ? kNone : at->second;
}

std::optional<double> Given::number(std::string_view name) const {
  return has(name) ? std::optional(number_of(text(name))) : std::nullopt;
}

uint64_t Given::count(std::string_view name, uint64_t otherwise) const {
  if (has(name)) is_count(text(name), otherwise);
  return otherwise;
}

void Given::require_fit(Kind kind, const std::string& subject) const {
  const bool is_function = kind == Kind::kFunction || kind == Kind::kFunctionToCoreml;
  const bool is_coreml = kind == Kind::kCoreml || kind == Kind::kOnnxToCoreml || kind == Kind::kFunctionToCoreml;
  for (const auto& [name, values] : values_) {
    const Option* o = find_option(command_, "--" + name);
    if (o == nullptr || o->applies_to(command_, kind)) continue;
    const std::string_view formats = o->formats(command_);
    const std::string_view other = formats == "functions"               ? "functions"
                                   : formats == "ONNX" && is_coreml     ? "ONNX models"
                                   : formats == "Core ML" && !is_coreml ? "Core ML packages"
                                                                        : "";
    if (!other.empty() && kind != Kind::kHalf) {
      refuse(fmt::format("--{} is for {}, and {} is {}", name, other, subject,
                         is_coreml                ? "a Core ML program"
                         : kind == Kind::kProgram ? "a saved program"
                                                  : "an ONNX model"));
    }
    refuse(fmt::format("--{} is not for {}", name,
                       is_function              ? "functions"
                       : kind == Kind::kProgram ? "saved programs"
                       : kind == Kind::kHalf    ? "the report on half precision"
                       : command_ == "compare"  ? "two models"
                       : command_ == "convert"  ? "this conversion"
                       : is_coreml              ? "Core ML packages"
                                                : "ONNX models"));
  }
}

void refuse(std::string what, std::vector<std::string> notes) {
  throw Error(ErrorCode::kInvalidArgument, std::move(what), std::move(notes));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

int64_t bytes_of(const std::string& text) {
  const auto [v, unit] = number_and_unit(text);
  const double factor = unit.empty()                                 ? 1
                        : unit == "k" || unit == "K" || unit == "kB" ? 1e3
                        : unit == "M" || unit == "MB"                ? 1e6
                        : unit == "G" || unit == "GB"                ? 1e9
                                                                     : -1;
  if (!(v >= 0) || factor < 0 || v * factor > 9e15)
    refuse(fmt::format("'{}' is not a number of bytes", text), {"expected 65536, 64k, 10M or 2G"});
  return static_cast<int64_t>(v * factor);
}

}  // namespace sardonyx::cli
