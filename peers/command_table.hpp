// The command line as a table: what --help, the manual page and shell completion have in common.
// main.cpp makes it of what it parses by.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling::peers {

// Names of arguments that a shell can complete.
inline constexpr char kFileArgument[] = "FILE";
inline constexpr char kFolderArgument[] = "FOLDER";
inline constexpr char kPathArgument[] = "PATH";  ///< a file or a folder
inline constexpr char kPeerArgument[] = "PEER";  ///< its folder, or an address

/// An option, a flag, or an argument that stands alone.
struct Option {
  std::vector<std::string> names;  ///< as typed: "-n", "--peers"; or "run_file", which stands alone
  std::string argument;            ///< "FILE"; empty: a flag
  std::vector<std::string> choices;  ///< all that the argument may be; empty: anything
  std::string range;                 ///< of a number: "1 to 64"; empty: any
  std::string value;                 ///< by default; empty: none that can be told
  std::string help;
  bool required = false;
  bool repeatable = false;

  [[nodiscard]] bool stands_alone() const { return !names.front().starts_with('-'); }
  [[nodiscard]] bool asks_for_help() const { return names.back() == "--help"; }
};

struct Command {
  std::string name;  ///< "up"; the program's for the whole table
  std::string about;
  std::vector<Option> options;
  std::vector<Command> commands;
};

/// The table as a manual page (man(7)).
[[nodiscard]] std::string manual_page(const Command& program, std::string_view version);

/// The table as a completion that bash, or zsh, loads when the program's name is typed.
[[nodiscard]] std::string bash_completion(const Command& program);
[[nodiscard]] std::string zsh_completion(const Command& program);

}  // namespace starling::peers
