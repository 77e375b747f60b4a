// The manual page, in the macros of man(7).
#include <utility>

#include <fmt/format.h>

#include "command_table.hpp"

namespace starling::peers {
namespace {

/// Text for roff: `backticks` make text bold, as is everything that a person types.
std::string roff(std::string_view text) {
  std::string out;
  bool bold = false;
  for (const char c : text) {
    if (c == '`') {
      bold = !bold;
      out += bold ? "\\fB" : "\\fR";
    } else if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";  // a minus sign, which can be copied
    } else {
      out += c;
    }
  }
  // A dot or a quote would begin a command.
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", roff(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", roff(text)); }

/// "-n, --peers N", or "run_file ...".
std::string head(const Option& option) {
  std::string text;
  for (const std::string& name : option.names) {
    if (!text.empty()) text += ", ";
    text += option.stands_alone() ? italic(name) : bold(name);
  }
  if (!option.stands_alone() && !option.argument.empty()) text += " " + italic(option.argument);
  return option.stands_alone() && option.repeatable ? text + " ..." : text;
}

std::string about(const Option& option) {
  std::string text = roff(option.help);
  if (!option.range.empty()) text += fmt::format(" ({})", roff(option.range));
  if (!option.value.empty()) text += fmt::format(" (default: {})", roff(option.value));
  if (option.required && !option.stands_alone()) text += " (required)";
  return text;
}

std::string entry(const Option& option) {
  return fmt::format(".TP\n{}\n{}\n", head(option), about(option));
}

/// A command with its subcommands: "data encode [options] texts ...".
std::string section(const Command& command, const std::string& parent) {
  const std::string name = parent + command.name;
  std::string usage = bold(name);
  if (!command.commands.empty()) usage += " " + italic("command");
  usage += " [" + italic("options") + "]";
  std::string entries;
  for (const Option& option : command.options) {
    if (option.asks_for_help()) continue;  // described once for all
    if (option.stands_alone()) usage += " " + head(option);
    entries += entry(option);
  }
  std::string text = fmt::format(".SS {}\n{}.\n{}", usage, roff(command.about), entries);
  for (const Command& inner : command.commands) text += section(inner, name + " ");
  return text;
}

constexpr std::pair<int, std::string_view> kExitCodes[] = {
    {0, "Done, or left on request."},
    {1, "An error of the program itself, of the network, or of its output; or a scenario failed."},
    {2, "An error in the command line."},
    {3, "An error in the run file, the data, a checkpoint or another file, or the wrong secret."},
    {4,
     "No peer answers, or it refuses; or the run ended before this peer had a replica of it. With "
     "`--require-peers` also: before a peer was met."},
    {5, "Training gave a value that is not finite, or an evaluation did."},
    {6, "A device error."},
    {7, "The run is done, but this peer has agreed with none of the others (unsettled)."},
    {130, "A second Ctrl-C."},
};

std::string exit_codes() {
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kExitCodes) {
    text += fmt::format(".TP\n.B {}\n{}\n", code, roff(meaning));
  }
  return text;
}

constexpr std::string_view kDescription =
    "A peer trains its own replica of a model, finds neighbours, and swaps small differences with "
    "them until all replicas agree. There is no server: any peer may be killed while the others "
    "go on. A run file says what is trained; `starling check --keys` lists its keys.\n"
    ".PP\n"
    "One Ctrl-C saves a checkpoint and leaves, a second one stops at once.\n";
constexpr std::string_view kFiles =
    ".SH FILES\n.TP\n\\fIruns/RUN/PEER/\\fR\n"
    "Files that a peer leaves: its run file, checkpoints, log, metrics and summary, and "
    "\\fIkey.pem\\fR, which is its identity.\n";

}  // namespace

std::string manual_page(const Command& program, std::string_view version) {
  std::string text = fmt::format(
      ".TH STARLING 1 \"\" \"starling {0}\" \"User commands\"\n"
      ".SH NAME\n{1} \\- {2}\n"
      ".SH SYNOPSIS\n{3} {4} [{5}]\n"
      ".SH DESCRIPTION\n{6}",
      version, program.name, roff(program.about), bold(program.name), italic("command"),
      italic("options"), roff(kDescription));
  text += ".SH OPTIONS\n";
  for (const Option& option : program.options) text += entry(option);
  text += ".PP\nEach command has \\fB\\-\\-help\\fR, too.\n.SH COMMANDS\n";
  for (const Command& command : program.commands) text += section(command, "");
  text += exit_codes();
  text += kFiles;
  return text;
}

}  // namespace starling::peers
