// A small table of commands, with one of each kind of option.
#pragma once

#include <string>

#include "command_table.hpp"

namespace starling::peers {

inline Option help_option() {
  return {.names = {"-h", "--help"}, .argument = "", .help = "Print this help"};
}

inline Command small_table() {
  Command encode{.name = "encode", .about = "Write tokens", .options = {help_option()}};
  encode.options.push_back({.names = {"texts"},
                            .argument = kPathArgument,
                            .help = "Texts: [many]",
                            .required = true,
                            .repeatable = true});
  encode.options.push_back(
      {.names = {"--out"}, .argument = kFolderArgument, .help = "It's new", .required = true});
  Command data{.name = "data", .about = "Prepare text", .options = {help_option()}};
  data.commands.push_back(encode);
  Command bench{.name = "bench", .about = "Measure", .options = {help_option()}};
  bench.options.push_back({.names = {"what"},
                           .argument = "WHAT",
                           .choices = {"codec", "compute"},
                           .help = "Which part"});
  bench.options.push_back({.names = {"-n", "--peers"},
                           .argument = "N",
                           .range = "1 to 64",
                           .value = "4",
                           .help = ".5 is `not` a \\ number"});
  return {.name = "starling",
          .about = "peers that train",
          .options = {help_option()},
          .commands = {data, bench}};
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace starling::peers
