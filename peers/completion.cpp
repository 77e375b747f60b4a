// Shell completion: scripts for bash and zsh that know every command and option.
#include <algorithm>
#include <iterator>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "command_table.hpp"

namespace starling::peers {
namespace {

/// A command and the commands that contain it: "starling data encode".
struct Path {
  std::string name;
  const Command* command;
};

void add_paths(std::vector<Path>& paths, const Command& command, const std::string& parent) {
  const std::string name = parent + command.name;
  paths.push_back({name, &command});
  for (const Command& inner : command.commands) add_paths(paths, inner, name + " ");
}

/// All commands, the program itself first.
std::vector<Path> paths_of(const Command& program) {
  std::vector<Path> paths;
  add_paths(paths, program, "");
  return paths;
}

/// A text as typed in a shell within single quotes.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

std::string in_quotes(std::string_view text) { return fmt::format("'{}'", escaped(text)); }

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  std::ranges::transform(commands, std::back_inserter(names), &Command::name);
  return names;
}

/// The positional argument of a command, if it has one.
const Option* alone(const Command& command) {
  for (const Option& option : command.options) {
    if (option.stands_alone()) return &option;
  }
  return nullptr;
}

bool is_folder(const Option& option) {
  return option.argument == kFolderArgument || option.argument == kPeerArgument;
}

bool is_file(const Option& option) {
  return option.argument == kFileArgument || option.argument == kPathArgument;
}

// --- bash ---

/// The completions that bash offers for an argument: a line of shell.
std::string bash_offer(const Option& option) {
  if (!option.choices.empty()) {
    return fmt::format("_starling_offer -W {}",
                       in_quotes(fmt::format("{}", fmt::join(option.choices, " "))));
  }
  if (is_folder(option)) return "_starling_offer -d";
  if (is_file(option)) return "_starling_offer -f";
  return "true";  // nothing that a shell could know
}

/// Adds the words "COMMAND OPTION" of a command's options with an argument to the words with the
/// same offer.
void add_bash_arguments(std::map<std::string, std::vector<std::string>>& by_offer,
                        const Path& path) {
  for (const Option& option : path.command->options) {
    if (option.stands_alone() || option.argument.empty()) continue;
    std::vector<std::string>& words = by_offer[bash_offer(option)];
    for (const std::string& name : option.names) words.push_back(in_quotes(path.name + " " + name));
  }
}

/// The cases of arguments: the words before them, and the offer.
std::string bash_arguments(const std::vector<Path>& paths) {
  std::map<std::string, std::vector<std::string>> by_offer;
  for (const Path& path : paths) add_bash_arguments(by_offer, path);
  std::string text;
  for (const auto& [offer, words] : by_offer) {
    text += fmt::format("    {}) {}; return ;;\n", fmt::join(words, " | "), offer);
  }
  return text;
}

/// The case of a command: its options, or its positional argument.
std::string bash_words(const Path& path) {
  std::vector<std::string> options;
  for (const Option& option : path.command->options) {
    if (option.stands_alone()) continue;
    options.insert(options.end(), option.names.begin(), option.names.end());
  }
  const Option* const argument = alone(*path.command);
  const std::string offer =
      !path.command->commands.empty()
          ? fmt::format("_starling_offer -W '{}'", fmt::join(names_of(path.command->commands), " "))
      : argument != nullptr ? bash_offer(*argument)
                            : "true";
  return fmt::format(
      "    {})\n"
      "      if [[ $current == -* ]]; then _starling_offer -W '{}'; else {}; fi ;;\n",
      in_quotes(path.name), fmt::join(options, " "), offer);
}

// --- zsh ---

/// A text within the brackets of a specification for _arguments.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '`') continue;
    if (c == '\\' || c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return escaped(out);
}

/// ":FILE:_files"
std::string zsh_argument(const Option& option) {
  std::string action = " ";
  if (!option.choices.empty()) action = fmt::format("({})", fmt::join(option.choices, " "));
  if (is_folder(option)) action = "_files -/";
  if (is_file(option)) action = "_files";
  return fmt::format(":{}:{}", zsh_text(option.argument), action);
}

/// The sign that _arguments needs after a name whose argument may follow at once.
const char* zsh_joint(const Option& option, std::string_view name) {
  if (option.argument.empty()) return "";
  return name.starts_with("--") ? "=" : "+";
}

/// The words of _arguments for an option: '--out=[The file to write]:FILE:_files'.
std::string zsh_option(const Option& option) {
  if (option.stands_alone()) {
    return fmt::format("'{}{}'", option.repeatable ? "*" : "", zsh_argument(option));
  }
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(name + zsh_joint(option, name));
  const std::string rest = fmt::format("[{}]{}", zsh_text(option.help),
                                       option.argument.empty() ? "" : zsh_argument(option));
  if (names.size() > 1) {  // one of them suffices
    return fmt::format("'({})'{{{}}}'{}'", fmt::join(option.names, " "), fmt::join(names, ","),
                       rest);
  }
  return fmt::format("'{}{}{}'", option.repeatable ? "*" : "", names.front(), rest);
}

/// "_starling_data_encode"
std::string zsh_function(std::string_view path) {
  std::string name = "_";
  for (const char c : path) name += c == ' ' || c == '-' ? '_' : c;
  return name;
}

std::string zsh_options(const Command& command) {
  std::string text;
  for (const Option& option : command.options) text += " \\\n    " + zsh_option(option);
  return text;
}

/// A command with subcommands: the first word chooses one, and the rest belongs to it.
std::string zsh_commands(const Path& path) {
  std::string names;
  std::string cases;
  for (const Command& inner : path.command->commands) {
    names += fmt::format("    '{}:{}'\n", inner.name, zsh_text(inner.about));
    cases +=
        fmt::format("        {}) {} ;;\n", inner.name, zsh_function(path.name + " " + inner.name));
  }
  return fmt::format(
      "{}() {{\n"
      "  local state line\n"
      "  local -a commands\n"
      "  commands=(\n{}  )\n"
      "  _arguments -C{} \\\n"
      "    '1:command:->command' \\\n"
      "    '*::argument:->argument'\n"
      "  case $state in\n"
      "    command) _describe command commands ;;\n"
      "    argument)\n"
      "      case $line[1] in\n{}      esac ;;\n"
      "  esac\n"
      "}}\n\n",
      zsh_function(path.name), names, zsh_options(*path.command), cases);
}

std::string zsh_command(const Path& path) {
  if (!path.command->commands.empty()) return zsh_commands(path);
  return fmt::format("{}() {{\n  _arguments{}\n}}\n\n", zsh_function(path.name),
                     zsh_options(*path.command));
}

}  // namespace

std::string bash_completion(const Command& program) {
  const std::vector<Path> paths = paths_of(program);
  std::vector<std::string> commands;
  std::string words;
  for (const Path& path : paths) {
    if (path.command != &program) commands.push_back(in_quotes(path.name));
    words += bash_words(path);
  }
  // bash splits --out=FILE at its '='.
  return fmt::format(
      "# Completion of {0} for bash.\n"
      "_starling_offer() {{\n"
      "  mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$current\")\n"
      "  if [[ $1 != -W ]]; then compopt -o filenames 2>/dev/null; fi\n"
      "}}\n\n"
      "_{0}() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}\n"
      "  local command={0} word\n"
      "  if [[ $current == = ]]; then current=; fi\n"
      "  if [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi\n"
      "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD - 1}}\"; do\n"
      "    case \"$command $word\" in\n"
      "      {1}) command+=\" $word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  COMPREPLY=()\n"
      "  case \"$command $before\" in\n{2}  esac\n"
      "  case $command in\n{3}  esac\n"
      "}}\n\n"
      "complete -F _{0} {0}\n",
      program.name, fmt::join(commands, " | "), bash_arguments(paths), words);
}

std::string zsh_completion(const Command& program) {
  std::string text = fmt::format("#compdef {0}\n# Completion of {0} for zsh.\n\n", program.name);
  for (const Path& path : paths_of(program)) text += zsh_command(path);
  return text + fmt::format("_{0} \"$@\"\n", program.name);
}

}  // namespace starling::peers
