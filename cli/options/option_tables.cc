#include "cli/options/option_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "cli/options/options.h"
#include "cli/print/terminal.h"
#include "sardonyx/error.h"

namespace sardonyx::cli {
namespace {

constexpr std::string_view kExitCodes =
    "Exit codes: 0 done; 1 the input was refused, or a check failed; 2 the command line is wrong.";

// "FILE" of "FILE..."
std::string_view placeholder(const Option& o) {
  std::string_view value = o.value;
  if (o.repeats()) value.remove_suffix(value.ends_with(",...") ? 4 : 3);
  return value;
}

std::string spelled(const Option& o) {
  if (o.is_positional()) return std::string(o.names);
  const std::string names = fmt::format("{}", fmt::join(o.spellings(), ", "));
  const std::string value(placeholder(o));
  return o.may_lack_value() ? fmt::format("{}[={}]", names, value.substr(1, value.size() - 2))
                            : names + (value.empty() ? "" : " ") + value;
}

std::string about(const Option& o, std::string_view command) {
  const std::string_view formats = o.formats(command);
  std::string text(o.about);
  if (formats == "ONNX" || formats == "Core ML") text = fmt::format("{}: {}", formats, text);
  return o.preset.empty() ? text : fmt::format("{} (default: {})", text, o.preset);
}

// Two columns; on a narrow terminal, one below the other.
void add_row(std::string& page, const std::string& left, const std::string& about) {
  const size_t width = columns();
  const size_t column = width >= 72 ? 30 : 6;
  page += "  " + left;
  if (about.empty()) {
    page += '\n';
    return;
  }
  if (width < 72 || left.size() + 4 > column) {
    page += '\n' + std::string(column, ' ');
  } else {
    page += std::string(column - 2 - left.size(), ' ');
  }
  page += wrapped(about, column, width) + '\n';
}

std::string usage(std::string_view command) {
  std::string line = command.empty() ? "sardonyx COMMAND" : fmt::format("sardonyx {}", command);
  for (const Option* o : options_of(command)) {
    if (o->is_positional()) line += o->required ? fmt::format(" {}", o->names) : fmt::format(" [{}]", o->names);
  }
  for (const Option* o : options_of(command)) {
    if (!o->is_positional() && o->required) line += fmt::format(" {} {}", o->spellings().front(), o->value);
  }
  return line + " [OPTIONS]";
}

std::vector<std::string_view> words_of(std::string_view command) {
  std::vector<std::string_view> words;
  for (const Option* o : options_of(command)) {
    std::ranges::copy(o->is_positional() ? o->choices() : o->spellings(), std::back_inserter(words));
  }
  return words;
}

std::vector<std::string_view> command_names() {
  std::vector<std::string_view> names;
  for (const Command& c : commands()) names.push_back(c.name);
  return names;
}

// `text` escaped for single quotes of a shell.
std::string quoted(std::string text) {
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

std::string bash() {
  std::string out = R"(# Tab completion for sardonyx: source <(sardonyx completion bash)
_sardonyx() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" command="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ "${COMP_WORDS[i]}" == -* ]] || { command="${COMP_WORDS[i]}"; break; }
  done
  COMPREPLY=()
  case "$command:$prev" in
)";
  for (const Command& c : commands()) {
    for (const Option* o : options_of(c.name)) {
      if (const auto choices = o->choices(); !o->is_positional() && !choices.empty())
        out += fmt::format("    '{}:--{}') COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return ;;\n", c.name, o->name(),
                           fmt::join(choices, " "));
    }
  }
  out +=
      "  esac\n  if [[ \"$prev\" == --passes || \"$prev\" == --skip || \"$prev\" == --explain || \"$command\" == passes ]]; "
      "then\n"
      "    COMPREPLY=($(compgen -W \"$(sardonyx completion names)\" -- \"$cur\")); return\n  fi\n  local words=\"\"\n  case "
      "\"$command\" in\n";
  out += fmt::format("    '') words='{} {}' ;;\n", fmt::join(command_names(), " "), fmt::join(words_of(""), " "));
  for (const Command& c : commands())
    out +=
        fmt::format("    '{}') words='{}' ;;\n", c.name, fmt::join(c.name == "help" ? command_names() : words_of(c.name), " "));
  out += R"(  esac
  if [[ "$cur" == -* || -z "$command" || "$command" == help || "$command" == completion ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  else
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}
complete -F _sardonyx sardonyx
)";
  return out;
}

std::string zsh() {
  const auto escaped = [](std::string text) {
    for (size_t at = 0; (at = text.find_first_of(":[]\\", at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return text;
  };
  std::string out = R"(#compdef sardonyx
# Tab completion for sardonyx: sardonyx completion zsh > "${fpath[1]}/_sardonyx"
_sardonyx() {
  local command="" i
  for ((i = 2; i < CURRENT; i++)); do
    [[ "${words[i]}" == -* ]] || { command="${words[i]}"; break; }
  done
  local -a commands
  case "$command" in
    '')
      commands=()";
  for (const Command& c : commands()) out += quoted(fmt::format("{}:{}", c.name, escaped(std::string(c.about)))) + " ";
  out += ")\n      _describe command commands\n      ;;\n";
  for (const Command& c : commands()) {
    out += fmt::format("    '{}')\n      _arguments '*:file:_files'", c.name);
    for (const Option* o : options_of(c.name)) {
      if (o->is_positional()) continue;
      const auto choices = o->choices();
      const std::string value = !o->takes_value() ? ""
                                : choices.empty() ? ":value:_files"
                                                  : fmt::format(":value:({})", fmt::join(choices, " "));
      for (std::string_view name : o->spellings())
        out += " \\\n        " + quoted(fmt::format("*{}[{}]{}", name, escaped(about(*o, c.name)), value));
    }
    out += "\n      ;;\n";
  }
  return out + "  esac\n}\n(( $+functions[compdef] )) && compdef _sardonyx sardonyx\n";
}

std::string fish() {
  std::string out = "# Tab completion for sardonyx: sardonyx completion fish > ~/.config/fish/completions/sardonyx.fish\n";
  for (const Command& c : commands())
    out += fmt::format("complete -c sardonyx -n __fish_use_subcommand -a {} -d {}\n", c.name, quoted(std::string(c.about)));
  for (const Command& c : commands()) {
    const std::string when = quoted(fmt::format("__fish_seen_subcommand_from {}", c.name));
    for (const Option* o : options_of(c.name)) {
      if (o->is_positional()) continue;
      out += fmt::format("complete -c sardonyx -n {}", when);
      for (std::string_view name : o->spellings())
        out += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
      if (const auto choices = o->choices(); !choices.empty())
        out += fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(choices, " "))));
      else if (o->takes_value())
        out += " -r";
      out += fmt::format(" -d {}\n", quoted(about(*o, c.name)));
    }
  }
  return out;
}

std::string troff(std::string text) {
  for (size_t at = 0; (at = text.find_first_of("\\-", at)) != std::string::npos; at += 2) text.insert(at, "\\");
  if (text.starts_with('.') || text.starts_with('\'')) text.insert(0, "\\&");
  return text;
}

}  // namespace

std::string help_page(std::string_view name) {
  const Command* command = find_command(name);
  std::string page;
  page += wrapped(command == nullptr ? "Sardonyx: a native graph compiler for machine-learning models."
                                     : fmt::format("{}.", command->about),
                  0) +
          "\n\n";
  page += painted(stdout, kBold, "Usage:") + " " + wrapped(usage(name), 7) + "\n";
  const auto section = [&](std::string_view title, const auto& rows) {
    if (rows.empty()) return;
    page += "\n" + painted(stdout, kBold, title) + "\n";
    for (const auto& [left, text] : rows) add_row(page, left, text);
  };
  std::vector<std::pair<std::string, std::string>> rows, arguments, options;
  if (command == nullptr) {
    for (const Command& c : commands()) rows.emplace_back(c.name, c.about);
  }
  for (const Option* o : options_of(name))
    (o->is_positional() ? arguments : options).emplace_back(spelled(*o), about(*o, name));
  section("Commands:", rows);
  section("Arguments:", arguments);
  section("Options:", options);
  page += "\n" + wrapped(kExitCodes, 0) + "\n";
  if (command == nullptr) page += wrapped("`sardonyx help COMMAND` tells more about a command.", 0) + "\n";
  return page;
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  throw Error(ErrorCode::kInvalidArgument, fmt::format("there is no completion for '{}'", shell),
              {"there is: bash, zsh, fish"});
}

std::string options_table() {
  std::string out = "| Option | Of | |\n|---|---|---|\n";
  for (const Option& o : all_options()) {
    if (o.is_positional() || o.commands.empty()) continue;
    std::string of, text(o.about);
    for (const Command& c : commands()) {
      if (find_option(c.name, "--" + std::string(o.name())) != &o) continue;
      const std::string_view formats = o.formats(c.name);
      of += fmt::format("{}`{}`{}", of.empty() ? "" : ", ", c.name, formats.empty() ? "" : fmt::format(" ({})", formats));
    }
    if (!o.preset.empty()) text += fmt::format(" (default: {})", o.preset);
    std::string name = spelled(o);
    for (std::string* cell : {&name, &text}) {
      for (size_t at = 0; (at = cell->find('|', at)) != std::string::npos; at += 2) cell->insert(at, "\\");
    }
    out += fmt::format("| `{}` | {} | {} |\n", name, of, text);
  }
  return out;
}

std::string man_page(const std::string& version) {
  std::string out = fmt::format(
      ".TH SARDONYX 1 \"\" \"sardonyx {}\" \"User Commands\"\n.SH NAME\nsardonyx \\- a graph compiler for machine\\-learning "
      "models\n",
      version);
  out += ".SH SYNOPSIS\n.B sardonyx\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  for (const Command& c : commands()) {
    out += fmt::format(".SS {}\n{}.\n", troff(usage(c.name)), troff(std::string(c.about)));
    for (const Option* o : options_of(c.name))
      out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", troff(spelled(*o)), troff(about(*o, c.name)));
  }
  out += ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nthe input was refused, or a check failed\n.TP\n2\nthe command line is wrong\n";
  out +=
      ".SH ENVIRONMENT\n.TP\nSARDONYX_PYTHON\nthe Python interpreter that converts functions, and profiles\n"
      ".TP\nNO_COLOR\nno colors\n.TP\nCOLUMNS\nthe width of help pages\n";
  return out;
}

}  // namespace sardonyx::cli
