#include "option_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "sardonyx/error.h"
#include "terminal.h"

namespace sardonyx::tools {
namespace {

std::string spelled(const OptionRow& o) {
  std::string value = o.choices.empty() ? o.value : fmt::format("{}", fmt::join(o.choices, "|"));
  return o.positional ? o.names.front() : fmt::format("{}{}{}", fmt::join(o.names, ", "), value.empty() ? "" : " ", value);
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

std::string usage(const CommandRow& c) {
  std::string line = c.name.empty() ? "sardonyx" : "sardonyx " + c.name;
  if (!c.commands.empty()) line += " COMMAND";
  for (const OptionRow& o : c.options) {
    if (o.positional) line += o.required ? " " + o.names.front() : fmt::format(" [{}]", o.names.front());
  }
  for (const OptionRow& o : c.options) {
    if (!o.positional && o.required) line += fmt::format(" {} {}", o.names.front(), o.value);
  }
  return line + " [OPTIONS]";
}

std::vector<std::string> words_of(const CommandRow& c) {
  std::vector<std::string> words;
  for (const auto& [name, about] : c.commands) words.push_back(name);
  for (const OptionRow& o : c.options) {
    if (!o.positional) words.insert(words.end(), o.names.begin(), o.names.end());
  }
  return words;
}

// `text` escaped for single quotes of a shell.
std::string quoted(std::string text) {
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

std::string bash(const std::vector<CommandRow>& commands) {
  std::string out = R"(# Tab completion for sardonyx: source <(sardonyx completion bash)
_sardonyx() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" command="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    [[ "$word" == -* ]] && continue
    if [[ -z "$command" ]]; then command="$word"; elif [[ "$command" == coreml ]]; then command="coreml $word"; fi
    [[ "$command" != coreml ]] && break
  done
  COMPREPLY=()
  case "$command:$prev" in
)";
  for (const CommandRow& c : commands) {
    for (const OptionRow& o : c.options) {
      if (o.choices.empty()) continue;
      for (const std::string& name : o.names)
        out += fmt::format("    '{}:{}') COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return ;;\n", c.name, name,
                           fmt::join(o.choices, " "));
    }
  }
  out +=
      "  esac\n  if [[ \"$prev\" == --passes || \"$prev\" == --skip || \"$prev\" == --explain || \"$command\" == passes ]]; "
      "then\n"
      "    COMPREPLY=($(compgen -W \"$(sardonyx completion names)\" -- \"$cur\")); return\n  fi\n  local words=\"\"\n  case "
      "\"$command\" in\n";
  for (const CommandRow& c : commands) out += fmt::format("    '{}') words='{}' ;;\n", c.name, fmt::join(words_of(c), " "));
  out += R"(  esac
  if [[ "$cur" == -* || -z "$command" || "$command" == coreml || "$command" == help || "$command" == completion ]]; then
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

std::string zsh(const std::vector<CommandRow>& commands) {
  const auto escaped = [](std::string text) {
    for (size_t at = 0; (at = text.find_first_of(":[]\\", at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return text;
  };
  std::string out = R"(#compdef sardonyx
# Tab completion for sardonyx: sardonyx completion zsh > "${fpath[1]}/_sardonyx"
_sardonyx() {
  local command="" word i
  for ((i = 2; i < CURRENT; i++)); do
    word="${words[i]}"
    [[ "$word" == -* ]] && continue
    if [[ -z "$command" ]]; then command="$word"; elif [[ "$command" == coreml ]]; then command="coreml $word"; fi
    [[ "$command" != coreml ]] && break
  done
  local -a commands
  case "$command" in
)";
  for (const CommandRow& c : commands) {
    out += fmt::format("    '{}')\n", c.name);
    if (!c.commands.empty()) {
      out += "      commands=(";
      for (const auto& [name, about] : c.commands) out += quoted(fmt::format("{}:{}", name, escaped(about))) + " ";
      out += ")\n      _describe command commands\n";
    } else {
      out += "      _arguments '*:file:_files'";
      for (const OptionRow& o : c.options) {
        if (o.positional) continue;
        const std::string value = o.value.empty() && o.choices.empty() ? ""
                                  : o.choices.empty()                  ? ":value:_files"
                                                                       : fmt::format(":value:({})", fmt::join(o.choices, " "));
        for (const std::string& name : o.names)
          out += " \\\n        " + quoted(fmt::format("*{}[{}]{}", name, escaped(o.about), value));
      }
      out += "\n";
    }
    out += "      ;;\n";
  }
  return out + "  esac\n}\n(( $+functions[compdef] )) && compdef _sardonyx sardonyx\n";
}

std::string fish(const std::vector<CommandRow>& commands) {
  std::string out = "# Tab completion for sardonyx: sardonyx completion fish > ~/.config/fish/completions/sardonyx.fish\n";
  for (const CommandRow& c : commands) {
    std::string when = "__fish_use_subcommand";
    if (!c.name.empty()) {
      const size_t space = c.name.find(' ');
      when = fmt::format("__fish_seen_subcommand_from {}", c.name.substr(0, space));
      if (space != std::string::npos)
        when += fmt::format("; and __fish_seen_subcommand_from {}", c.name.substr(space + 1));
      else if (c.commands.empty())
        when += "; and not __fish_seen_subcommand_from coreml";
    }
    for (const auto& [name, about] : c.commands)
      out += fmt::format("complete -c sardonyx -n {} -a {} -d {}\n", quoted(when), name, quoted(about));
    for (const OptionRow& o : c.options) {
      if (o.positional) continue;
      out += fmt::format("complete -c sardonyx -n {}", quoted(when));
      for (const std::string& name : o.names)
        out += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
      if (!o.choices.empty())
        out += fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(o.choices, " "))));
      else if (!o.value.empty())
        out += " -r";
      out += fmt::format(" -d {}\n", quoted(o.about));
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

std::string help_page(const CommandRow& command) {
  std::string page;
  page += wrapped(command.about + ".", 0) + "\n\n";
  page += painted(stdout, kBold, "Usage:") + " " + wrapped(usage(command), 7) + "\n";
  const auto section = [&](std::string_view title, const auto& rows) {
    if (rows.empty()) return;
    page += "\n" + painted(stdout, kBold, title) + "\n";
    for (const auto& [left, about] : rows) add_row(page, left, about);
  };
  section("Commands:", command.commands);
  std::vector<std::pair<std::string, std::string>> arguments, options;
  for (const OptionRow& o : command.options) (o.positional ? arguments : options).emplace_back(spelled(o), o.about);
  section("Arguments:", arguments);
  section("Options:", options);
  page += "\n" + wrapped(kExitCodes, 0) + "\n";
  if (!command.commands.empty())
    page += wrapped(fmt::format("`sardonyx help {}COMMAND` tells more about a command.",
                                command.name.empty() ? "" : command.name + " "),
                    0) +
            "\n";
  return page;
}

std::string completion_script(const std::vector<CommandRow>& commands, const std::string& shell) {
  if (shell == "bash") return bash(commands);
  if (shell == "zsh") return zsh(commands);
  if (shell == "fish") return fish(commands);
  throw Error(ErrorCode::kInvalidArgument, fmt::format("there is no completion for '{}'", shell),
              {"there is: bash, zsh, fish"});
}

std::string man_page(const std::vector<CommandRow>& commands, const std::string& version) {
  std::string out = fmt::format(
      ".TH SARDONYX 1 \"\" \"sardonyx {}\" \"User Commands\"\n.SH NAME\nsardonyx \\- a graph compiler for machine\\-learning "
      "models\n",
      version);
  out += ".SH SYNOPSIS\n.B sardonyx\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  for (const CommandRow& c : commands) {
    if (c.name.empty()) continue;
    out += fmt::format(".SS {}\n{}.\n", troff(usage(c)), troff(c.about));
    for (const OptionRow& o : c.options) out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", troff(spelled(o)), troff(o.about));
  }
  out += ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nthe input was refused, or a check failed\n.TP\n2\nthe command line is wrong\n";
  out +=
      ".SH ENVIRONMENT\n.TP\nSARDONYX_PYTHON\nthe Python interpreter that runs export, explain, profile and lint\\-plugin\n"
      ".TP\nNO_COLOR\nno colours\n.TP\nCOLUMNS\nthe width of help pages\n";
  return out;
}

}  // namespace sardonyx::tools
