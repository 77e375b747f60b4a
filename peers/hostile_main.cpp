// starling-hostile: the program `starling`, whose peer may attack the others. For tests; it is not
// installed. Beside the options of `starling up` and `starling join` it takes
//
//     --attack KIND[:FACTOR]             how, as scenarios/LANGUAGE.md says
//     --attack-from SECONDS|settling     when: after its start, or after its last step; default: 0
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "base/parse_number.hpp"
#include "commands.hpp"
#include "hostile/attacker.hpp"

namespace {

using namespace starling;

constexpr int kUsageExit = 2;

int usage() {
  std::fputs(
      "usage: starling-hostile up ... --attack KIND[:FACTOR] [--attack-from SECONDS|settling]\n",
      stderr);
  return kUsageExit;
}

/// "settling", or seconds from 0 on.
bool read_begin(std::string_view text, hostile::Attack& attack) {
  if (!hostile::can_begin_later(attack.kind)) return text == "0" || text == "0.0";
  attack.from_settling = text == "settling";
  if (attack.from_settling) return true;
  const auto seconds = base::parse_number<double>(text);
  attack.from = seconds.value_or(-1);
  return attack.from >= 0;
}

/// Seconds since now.
hostile::Attacker::Clock clock_from_now() {
  const auto start = std::chrono::steady_clock::now();
  return [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<char*> words;
  std::optional<hostile::Attack> attack;
  std::string_view from = "0";
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word != "--attack" && word != "--attack-from") {
      words.push_back(argv[i]);
      continue;
    }
    if (++i == argc) return usage();
    if (word == "--attack") {
      attack = hostile::parse_attack(argv[i]);
      if (!attack) return usage();
    } else {
      from = argv[i];
    }
  }
  const int count = static_cast<int>(words.size());
  words.push_back(nullptr);
  if (!attack) return peers::run_program(count, words.data());
  if (!read_begin(from, *attack)) return usage();
  hostile::Attacker attacker(*attack, clock_from_now(), static_cast<std::uint64_t>(getpid()));
  return peers::run_program(count, words.data(), &attacker);
}
