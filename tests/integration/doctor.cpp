// What `starling doctor` finds.
#include <string>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "harness.hpp"

namespace starling::integration {
namespace {

using Json = nlohmann::json;

struct Doctor {
  /// Its findings; the exit code must be `code`.
  Json findings(int code, Arguments arguments) {
    arguments.insert(arguments.begin(), "doctor");
    arguments.insert(arguments.end(), {"--json"});
    const Ended ended = run(folder, arguments);
    BOOST_TEST_REQUIRE(ended.code.value_or(-1) == code, ended.out + ended.err);
    return Json::parse(ended.out);
  }

  testing::TemporaryFolder folder;
};

/// The texts of what was found of a kind, each with its verdict before it.
std::string found(const Json& findings, const std::string& what) {
  std::string text;
  for (const Json& finding : findings) {
    if (finding.at("what") != what) continue;
    text += finding.at("verdict").get<std::string>() + ": " +
            finding.at("text").get<std::string>() + "\n";
  }
  return text;
}

BOOST_FIXTURE_TEST_SUITE(doctor, Doctor)

BOOST_AUTO_TEST_CASE(a_machine_that_has_what_a_peer_needs_is_well) {
  const Json all = findings(0, {"--listen", "127.0.0.1:0"});
  BOOST_TEST(found(all, "links").starts_with("ok: to itself at 127.0.0.1:"), found(all, "links"));
  BOOST_TEST(has(found(all, "data"), "ok: fashion-mnist: 60,000 samples\n"), found(all, "data"));
  BOOST_TEST(has(found(all, "memory"), "to spare"), found(all, "memory"));
}

BOOST_AUTO_TEST_CASE(peers_are_called_on_with_the_secret_or_without) {
  const std::string secret = folder / "secret";
  BOOST_TEST(run(folder, {"keygen", secret}).code.value_or(-1) == 0);
  Swarm swarm{1, {"run.samples=1000000000", "security.secret=" + secret}};
  const std::string address = swarm[0].address();
  const Arguments call{"--listen", "127.0.0.1:0", "--join", address};
  BOOST_TEST(
      has(found(findings(3, call), "peer"), "WRONG: " + address + ": the other end lets in"));

  Arguments with_secret = call;
  with_secret.insert(with_secret.end(), {"--secret", secret});
  const std::string peer = found(findings(0, with_secret), "peer");
  BOOST_TEST(peer.starts_with("ok: " + address + " is peer-1 ("), peer);
  BOOST_TEST(has(peer, ", trains run "), peer);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_named) {
  const std::string links = found(findings(1, {"--listen", "192.0.2.99:0"}), "links");
  BOOST_TEST(has(links, "WRONG: cannot listen on 192.0.2.99:0"), links);
  const std::string peers =
      found(findings(4, {"--listen", "127.0.0.1:0", "--join", "127.0.0.1:1"}), "peer");
  BOOST_TEST(has(peers, "WRONG: 127.0.0.1:1: connection refused\n"), peers);
  for (const char* option : {"--listen", "--join"}) {
    const Ended usage = run(folder, {"doctor", option, "nonsense"});
    BOOST_TEST(usage.code.value_or(-1) == 2, usage.err);
    BOOST_TEST(has(usage.err, std::string(option) + ": \"nonsense\" is not an address"), usage.err);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace starling::integration
