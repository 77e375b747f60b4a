// The command line as a table, shared by --help, the manual page and shell completion. main.cpp
// makes it from its parser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling::peers {

// Names of arguments that a shell can complete.
inline constexpr char kFileArgument[] = "FILE";
inline constexpr char kFolderArgument[] = "FOLDER";
inline constexpr char kPathArgument[] = "PATH";  ///< a file or a folder
inline constexpr char kPeerArgument[] = "PEER";  ///< the peer's folder, or an address

/// An option, a flag, or a positional argument.
struct Option {
  std::vector<std::string> names;    ///< as typed: "-n", "--peers"; or "run_file", a positional one
  std::string argument;              ///< "FILE"; empty: a flag
  std::vector<std::string> choices;  ///< all allowed values of the argument; empty: any
  std::string range;                 ///< of a number: "1 to 64"; empty: any
  std::string value;                 ///< the default; empty: none that can be told
  std::string help;
  bool required = false;
  bool repeatable = false;

  [[nodiscard]] bool stands_alone() const { return !names.front().starts_with('-'); }
  [[nodiscard]] bool asks_for_help() const { return names.back() == "--help"; }
};

struct Command {
  std::string name;  ///< "up"; for the whole table, the program's name
  std::string about;
  std::vector<Option> options;
  std::vector<Command> commands;
};

/// The table as a manual page (man(7)).
[[nodiscard]] std::string manual_page(const Command& program, std::string_view version);

/// The table as a completion script that bash or zsh loads when the program's name is typed.
[[nodiscard]] std::string bash_completion(const Command& program);
[[nodiscard]] std::string zsh_completion(const Command& program);

}  // namespace starling::peers
