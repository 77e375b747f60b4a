#include "sim/language/scenario.hpp"

#include <filesystem>
#include <string>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

using namespace starling;
using namespace starling::sim;

namespace {

const std::string kHead = "[scenario]\nname = \"t\"\nduration = 100\n[peers]\ncount = 4\n";

std::string error_of(const std::string& rest) {
  const auto parsed = parse_scenario(kHead + rest, "f/t.toml");
  BOOST_REQUIRE(!parsed);
  BOOST_TEST(static_cast<int>(parsed.error().code) == static_cast<int>(base::ErrorCode::run_file));
  return parsed.error().text;
}

bool says(const std::string& text, const std::string& part) {
  BOOST_TEST_INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scenario)

BOOST_AUTO_TEST_CASE(a_short_scenario_has_defaults) {
  const auto parsed = parse_scenario(kHead, "f/t.toml");
  BOOST_REQUIRE(parsed);
  BOOST_TEST(parsed->count == 4U);
  BOOST_TEST(parsed->regions.size() == 1U);
  BOOST_TEST((parsed->sim.problem == Problem::small));
  BOOST_TEST(parsed->timeline.empty());
}

BOOST_AUTO_TEST_CASE(a_run_file_is_found_beside_the_scenario) {
  const auto parsed = parse_scenario(kHead + "[run]\nfile = \"../runs/x.toml\"\n", "a/f/t.toml");
  BOOST_REQUIRE(parsed);
  BOOST_TEST(parsed->run_file == "a/runs/x.toml");
  BOOST_TEST((parsed->sim.problem == Problem::model));
}

BOOST_AUTO_TEST_CASE(errors_name_file_and_line_and_the_word_that_was_meant) {
  BOOST_TEST(says(error_of("[netwrok]\n"),
                  "f/t.toml:6: [netwrok]: unknown section; did you mean "
                  "'network'?"));
  BOOST_TEST(says(error_of("[network]\nlatency = 3\n"),
                  "f/t.toml:7: network.latency: unknown key; did you mean 'latency_ms'?"));
  BOOST_TEST(says(error_of("[[timeline]]\nkind = \"kil\"\nat = 1\n"),
                  "f/t.toml:7: timeline 1.kind: 'kil' is not known; did you mean 'kill'?"));
  BOOST_TEST(says(error_of("[[timeline]]\nkind = \"kill\"\nat = 1\npeers = \"all\"\nspeed = 0.5\n"),
                  "f/t.toml:10: timeline 1.speed: 'kill' has no such key"));
  BOOST_TEST(says(error_of("[expect]\naccuracy = 1\n"), "did you mean 'accuracy_min'?"));
}

BOOST_AUTO_TEST_CASE(values_are_bounded) {
  BOOST_TEST(says(error_of("[network]\nloss = 1.5\n"), "1.5 is out of range: 0 to 1"));
  BOOST_TEST(says(error_of("[network]\nloss = nan\n"), "out of range"));
  // An integer that no double represents.
  BOOST_TEST(says(error_of("[network]\nloss = 99999999999999999\n"), "out of range"));
  BOOST_TEST(says(error_of("speeds = [99999999999999999]\n"), "numbers from"));
  BOOST_TEST(says(error_of("[[network.line]]\nregion = \"local\"\n"), "rate_mbit: is missing"));
  BOOST_TEST(says(error_of("[network]\nloss = \"much\"\n"), "is a string, must be a number"));
  BOOST_TEST(
      says(error_of("[[timeline]]\nkind = \"throttle\"\nat = 1\npeers = \"all\"\nspeed = 5\n"),
           "5 is out of range: 0.001 to 1"));
  const std::string pair = "[[network.pair]]\nbetween = [\"local\", \"local\"]\nloss = 0.1\n";
  BOOST_TEST(says(error_of(pair + pair), "is given twice"));
  BOOST_TEST(says(error_of("[[timeline]]\nkind = \"stop\"\nat = -1\npeers = \"first\"\nfor = 3\n"),
                  "-1 is out of range"));
  BOOST_TEST(says(error_of("[[timeline]]\nkind = \"kill\"\nevery = 0\npeers = \"first\"\n"),
                  "0 is out of range"));
}

BOOST_AUTO_TEST_CASE(keys_of_ever_so_many_parts_do_not_end_the_program) {
  std::string key = "a";
  for (int part = 0; part < 100'000; ++part) key += ".a";
  BOOST_TEST(error_of(key + " = 1\n") == "f/t.toml:6: a key has more than 16 parts");
}

BOOST_AUTO_TEST_CASE(what_peers_are_behind_is_checked) {
  const std::string home = "[[network.nat]]\nregion = \"local\"\n";
  BOOST_TEST(says(error_of(home), "f/t.toml:6: network.nat.kind: is missing"));
  BOOST_TEST(says(error_of(home + "kind = \"symetric\"\n"), "'symetric' is not known"));
  BOOST_TEST(says(error_of("[[network.nat]]\nkind = \"strict\"\n"),
                  "say either which 'region' or which 'peers'"));
  BOOST_TEST(says(error_of(home + "peers = [1]\nkind = \"strict\"\n"), "say either"));
  BOOST_TEST(says(error_of("[[network.nat]]\nregion = \"locla\"\nkind = \"open\"\n"),
                  "there is no region 'locla'; did you mean 'local'?"));
  BOOST_TEST(says(error_of(home + "kind = \"open\"\npcp = true\n"), "there is no router"));
  BOOST_TEST(says(error_of(home + "kind = \"firewall\"\npcp = true\n"), "IPv6 only"));
  BOOST_TEST(says(error_of(home + "kind = \"moderate\"\nproxy = \"http\"\nipv6 = \"only\"\n"),
                  "does not go with 'ipv6'"));
  BOOST_TEST(says(error_of(home + "kind = \"moderate\"\nmapping = \"60s\"\n"),
                  "is a string, must be a number"));
  BOOST_TEST(says(error_of(home + "kind = \"moderate\"\nmtu_black_hole = 100\n"),
                  "100 is out of range: 1280 to 1499"));
  BOOST_TEST(says(error_of("[[timeline]]\nkind = \"router_restart\"\nat = 1\npeers = \"all\"\n"),
                  "for: is missing"));
  BOOST_TEST(
      says(error_of("[[timeline]]\nkind = \"mapping_lost\"\nat = 1\npeers = \"all\"\nfor = 1\n"),
           "'mapping_lost' has no such key"));
}

BOOST_AUTO_TEST_CASE(expected_paths_are_pairs_each_once) {
  BOOST_TEST(says(error_of("[expect]\npaths_within_s = 5\n"), "goes with 'direct' and 'circuit'"));
  BOOST_TEST(says(error_of("[expect]\ndirect = [[0, 1]]\n"), "goes with 'direct' and 'circuit'"));
  BOOST_TEST(says(error_of("[expect]\npaths_within_s = 5\ndirect = [[0, 0]]\n"), "pairs of peers"));
  BOOST_TEST(says(error_of("[expect]\npaths_within_s = 5\ndirect = [[0, 1]]\ncircuit = [[1, 0]]\n"),
                  "expect.circuit: [0, 1] is given twice"));
}

BOOST_AUTO_TEST_CASE(what_a_kind_needs_is_asked_for) {
  BOOST_TEST(says(error_of("[[timeline]]\nkind = \"kill\"\nat = 1\n"), "peers: is missing"));
  BOOST_TEST(says(error_of("[[timeline]]\nkind = \"stop\"\nat = 1\npeers = \"first\"\n"),
                  "for: is missing"));
  BOOST_TEST(
      says(error_of("[[timeline]]\nkind = \"kill\"\npeers = \"first\"\n"), "at: is missing"));
  BOOST_TEST(says(error_of("[[timeline]]\nkind = \"partition\"\nshape = \"groups\"\nat = 1\n"),
                  "groups: is missing"));
  BOOST_TEST(says(error_of("[[timeline]]\nkind = \"degrade\"\nat = 1\npeers = \"first\"\n"),
                  "say at least one condition"));
  BOOST_TEST(says(error_of("[run]\nset = [\"a.b=1\"]\n[sim]\nproblem = \"model\"\n"),
                  "run.file: is missing"));
}

BOOST_AUTO_TEST_CASE(what_a_restart_finds_goes_with_a_restart) {
  const std::string kill = "[[timeline]]\nkind = \"kill\"\nat = 1\npeers = \"first\"\n";
  BOOST_TEST(says(error_of(kill + "address = \"new\"\n"), "address: goes with 'for'"));
  BOOST_TEST(says(error_of(kill + "disk = \"lost\"\n"), "disk: goes with 'for'"));
  BOOST_TEST(says(error_of(kill + "for = 1\naddress = \"other\"\n"), "'other' is not known"));
}

BOOST_AUTO_TEST_CASE(selectors_that_are_none_are_refused) {
  for (const char* peers : {"\"some\"", "\"random 0\"", "\"random 101%\"", "\"first x\"",
                            "\"all 3\"", "\"region\"", "[]", "[-1]", "[5000]", "3"}) {
    BOOST_TEST_CONTEXT(peers) {
      const std::string entry = "[[timeline]]\nkind = \"kill\"\nat = 1\npeers = ";
      BOOST_TEST(says(error_of(entry + peers + "\n"), "timeline 1.peers: must"));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_run_file_is_found_beside_where_the_scenario_is_written) {
  for (const std::string run_file : {"../runs/x.toml", "/runs/x.toml", "x.toml"}) {
    const auto first = parse_scenario(kHead + "[run]\nfile = \"" + run_file + "\"\n", "a/f/t.toml");
    BOOST_REQUIRE(first);
    for (const std::string folder : {"b", "a/f", ".", "../c", "/tmp/d", "./b/"}) {
      const auto second = parse_scenario(to_toml(*first, folder), folder + "/t.toml");
      BOOST_REQUIRE(second);
      namespace fs = std::filesystem;
      BOOST_TEST(fs::absolute(second->run_file).lexically_normal() ==
                     fs::absolute(first->run_file).lexically_normal(),
                 folder << ": " << second->run_file);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_written_reads_back_as_the_same) {
  const std::string text =
      kHead +
      "regions = [\"eu\", \"us\"]\nspeeds = [1, 0.5]\nvia = \"random 2\"\n"
      "[network]\nlatency_ms = 5\n[[network.pair]]\n"
      "between = [\"eu\", \"us\"]\nlatency_ms = 40\nloss = 0.01\n"
      "[[network.line]]\nregion = \"us\"\nrate_mbit = 0.5\n"
      "[[network.nat]]\nregion = \"us\"\nkind = \"strict\"\nmapping = 60\n"
      "pcp = true\nshared = true\nmtu_black_hole = 1300\nipv6 = \"both\"\n"
      "[[network.nat]]\npeers = [0, 2]\nkind = \"cgnat\"\nproxy = \"http\"\n"
      "[[timeline]]\nkind = \"router_restart\"\nat = 3\npeers = \"all\"\n"
      "for = 2\naddress = \"new\"\n"
      "[[timeline]]\nkind = \"address_change\"\nat = 3\npeers = [1]\n"
      "[[timeline]]\nkind = \"kill\"\nevery = 60\npeers = \"random 10%\"\n"
      "for = 30\ndisk = \"lost\"\naddress = \"new\"\n"
      "[[timeline]]\nkind = \"partition\"\nat = 3\nshape = \"groups\"\n"
      "groups = [[0, 1], [3]]\nfor = 3\n"
      "[[timeline]]\nkind = \"degrade\"\nat = 3\nbetween = [\"eu\", \"us\"]\n"
      "direction = \"out\"\nloss = 0.5\n"
      "[[timeline]]\nkind = \"join\"\nat = 3\ncount = 2\nspacing = 0.5\n"
      "[expect]\nfalse_deaths_max = 0\npaths_within_s = 9\n"
      "direct = [[0, 1], [1, 2]]\ncircuit = [[0, 3]]\n[sim]\nproblem = \"quadratic\"\n";
  const auto first = parse_scenario(text, "t.toml");
  BOOST_REQUIRE(first);
  const auto second = parse_scenario(to_toml(*first), "t.toml");
  BOOST_TEST_INFO(to_toml(*first));
  BOOST_REQUIRE(second);
  BOOST_TEST(to_toml(*first) == to_toml(*second));
  BOOST_TEST(second->timeline.size() == 6U);
  BOOST_TEST((second->timeline[0].address == Address::fresh));
  BOOST_TEST(second->timeline[2].peers->percent == 10.0);
  BOOST_TEST((second->timeline[2].disk == Disk::lost));
  BOOST_TEST((second->timeline[2].address == Address::fresh));
  BOOST_REQUIRE(second->nats.size() == 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST((second->nats[i].settings == first->nats[i].settings));
    BOOST_TEST(second->nats[i].region == first->nats[i].region);
    BOOST_TEST(second->nats[i].peers == first->nats[i].peers);
  }
  BOOST_TEST(second->paths.size() == 3U);
  BOOST_REQUIRE(second->lines.size() == 1U);
  BOOST_TEST(second->lines[0].region == "us");
  BOOST_TEST(second->lines[0].rate_mbit == 0.5);
}

BOOST_AUTO_TEST_CASE(every_attack_is_read_and_written_back) {
  std::string text = kHead;
  for (const hostile::AttackTraits& traits : hostile::kAttacks) {
    text += fmt::format("[[hostile]]\npeers = \"first\"\nattack = \"{}\"\n", traits.name);
    if (traits.has_factor()) text += "factor = 0.5\n";
    if (hostile::can_begin_later(traits.kind)) text += "from = 2.5\n";
  }
  text += "[[hostile]]\npeers = [1]\nattack = \"never_commits\"\nfrom = \"settling\"\n";
  const auto first = parse_scenario(text, "t.toml");
  BOOST_REQUIRE_MESSAGE(first, (first ? "" : first.error().text));
  const auto second = parse_scenario(to_toml(*first), "t.toml");
  BOOST_REQUIRE_MESSAGE(second, (second ? "" : second.error().text));
  BOOST_REQUIRE(second->hostiles.size() == hostile::kAttacks.size() + 1);
  for (std::size_t i = 0; i < second->hostiles.size(); ++i) {
    const hostile::Attack& attack = second->hostiles[i].attack;
    BOOST_TEST((attack.kind == first->hostiles[i].attack.kind));
    if (hostile::traits_of(attack.kind).has_factor()) BOOST_TEST(attack.factor == 0.5);
  }
  BOOST_TEST(second->hostiles.front().attack.from == 2.5);
  BOOST_TEST(second->hostiles.back().attack.from_settling);
}

BOOST_AUTO_TEST_CASE(an_attack_that_makes_no_sense_is_refused) {
  const auto entry = [](const std::string& keys) {
    return error_of("[[hostile]]\npeers = \"first\"\n" + keys);
  };
  BOOST_TEST(says(entry("attack = \"sign_flop\"\n"), "did you mean 'sign_flip'?"));
  BOOST_TEST(says(entry(""), "hostile.attack: is missing"));
  BOOST_TEST(says(entry("attack = \"zeros\"\nfactor = 2\n"), "does not go with 'zeros'"));
  BOOST_TEST(says(entry("attack = \"scale\"\nfactor = -2\n"), "out of range"));
  BOOST_TEST(says(entry("attack = \"label_flip\"\nfrom = 2\n"), "lasts from the peer's start"));
  BOOST_TEST(says(entry("attack = \"label_flip\"\n[sim]\nproblem = \"quadratic\"\n"), "labels"));
  BOOST_TEST(says(error_of("[[hostile]]\nattack = \"zeros\"\n"), "hostile.peers: is missing"));
  BOOST_TEST(says(error_of("[[hostile]]\npeers = \"next\"\nattack = \"zeros\"\n"), "must be"));
  BOOST_TEST(says(error_of("[hostile]\nattack = \"zeros\"\n"), "[[hostile]] tables"));
}

BOOST_AUTO_TEST_CASE(each_measurement_can_be_expected_and_is_written_back) {
  std::string text = kHead + "[expect]\n";
  for (const ExpectationKey& key : kExpectationKeys) {
    text += fmt::format("{} = {}\n", key.name, key.max);
  }
  text += "direct = [[0, 1]]\n";
  const auto first = parse_scenario(text, "t.toml");
  BOOST_REQUIRE_MESSAGE(first, (first ? "" : first.error().text));
  const auto second = parse_scenario(to_toml(*first), "t.toml");
  BOOST_REQUIRE_MESSAGE(second, (second ? "" : second.error().text));
  BOOST_REQUIRE(second->expect.size() == kExpectationKeys.size());
  for (std::size_t i = 0; i < kExpectationKeys.size(); ++i) {
    BOOST_TEST((second->expect[i].measure == kExpectationKeys[i].measure),
               kExpectationKeys[i].name);
    BOOST_TEST(second->expect[i].limit == kExpectationKeys[i].max, kExpectationKeys[i].name);
    BOOST_TEST(expects(*second, kExpectationKeys[i].measure), kExpectationKeys[i].name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
