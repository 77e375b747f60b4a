// The findings of `starling doctor`.
#include <string>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "answers.hpp"
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

/// The texts of the findings of a kind, each with its verdict before it.
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

BOOST_AUTO_TEST_CASE(several_peers_are_called_on_at_a_time_each_with_its_answer) {
  Swarm swarm{2, {"run.samples=1000000000", "limits.steps_per_second=1"}};
  const std::string one = swarm[0].address();
  const std::string two = swarm[1].address();
  const Json all = findings(4, {"--listen", "127.0.0.1:0", "--join", two, "--join", "127.0.0.1:1",
                                "--join", one, "--join", one});
  const std::string peers = found(all, "peer");
  const auto at = [&](const std::string& text) { return peers.find(text); };
  BOOST_TEST(at("ok: " + two + " is peer-2 (") == 0U, peers);
  BOOST_TEST(at("WRONG: 127.0.0.1:1: connection refused\n") != std::string::npos, peers);
  BOOST_TEST(at(one + " is peer-1 (") > at("refused"), peers);
  BOOST_TEST(at(one) != peers.rfind(one), peers);
  BOOST_TEST(found(all, "address") ==
             "none: not known: only peers of this machine answered, --join one of another\n");
  BOOST_TEST(found(all, "NAT").empty());
}

BOOST_AUTO_TEST_CASE(a_running_peer_is_asked_whether_it_can_be_dialed) {
  const Arguments listen{"--listen", "127.0.0.1:0"};
  BOOST_TEST(found(findings(0, listen), "reach").empty());
  Swarm swarm{2, {"run.samples=1000000000", "limits.steps_per_second=1"}};
  BOOST_TEST_REQUIRE(!swarm[0].address().empty());
  const auto asked = [&](int code, const std::string& peer) {
    Arguments arguments = listen;
    arguments.insert(arguments.end(), {"--peer", peer});
    return findings(code, arguments);
  };
  const std::string reachable = " is reachable: another member dialed it at " + swarm[0].address();
  Json all;
  BOOST_TEST(eventually([&] {
               all = asked(0, swarm[0].dir());
               return has(found(all, "reach"), reachable);
             }),
             found(all, "reach"));
  BOOST_TEST(found(all, "reach").starts_with("ok: peer-1 ("), found(all, "reach"));
  BOOST_TEST(found(all, "relays") == "none: no link of this peer goes through another peer\n");
  BOOST_TEST(found(all, "mapping").empty());  // none is wanted on a loopback address

  swarm.kill(0);
  BOOST_TEST(has(found(asked(4, swarm[0].dir()), "reach"), "WRONG: the peer of "));
  BOOST_TEST(has(found(asked(4, "127.0.0.1:1"), "reach"), "WRONG: no peer answers at 127.0.0.1:1"));
  const Ended usage = run(folder, {"doctor", "--peer", "nonsense"});
  BOOST_TEST(usage.code.value_or(-1) == 2, usage.err);
  BOOST_TEST(has(usage.err, "--peer: 'nonsense': there is no such folder"), usage.err);
}

BOOST_AUTO_TEST_CASE(relays_and_the_mapping_of_a_running_peer_are_named) {
  Json status{{"name", "home\n"},
              {"id", "0123456789abcdef"},
              {"address", "192.168.1.2:7000"},
              {"reach", "dials only"},
              {"outer_address", "203.0.113.5:7000"},
              {"port_mapping", {{"addresses", Json::array()}, {"text", "no router maps it"}}},
              {"circuits_relayed", 1},
              {"links", 3}};
  const auto link = [](const char* name, const Json& via) {
    return Json{{"name", name}, {"via", via}};
  };
  const Json links{link("far", "hub"), link("near", nullptr), link("farther", "hub")};
  const auto asked = [&](int code) {
    const Answers peer{{"/status", status.dump()}, {"/links", links.dump()}};
    return findings(code, {"--listen", "127.0.0.1:0", "--peer", peer.address()});
  };
  Json all = asked(0);
  BOOST_TEST(
      found(all, "reach")
          .starts_with(
              "none: home? (01234567) dials only: no member could dial it at 203.0.113.5:7000. "
              "Let TCP port 7000 through the firewall, or forward it"),
      found(all, "reach"));
  BOOST_TEST(found(all, "mapping") == "none: no router maps it\n");
  BOOST_TEST(found(all, "relays") ==
             "ok: links with far, farther go through hub\nok: it relays 1 circuit for others\n");

  status["reach"] = "unknown";
  status["port_mapping"] = {{"addresses", Json::array({"203.0.113.5:7000"})},
                            {"text", "the router lets"}};
  all = asked(0);
  BOOST_TEST(found(all, "reach").starts_with("none: not known yet: home? (01234567) has 3 links"),
             found(all, "reach"));
  BOOST_TEST(found(all, "mapping") == "ok: the router lets\n");

  status.erase("reach");
  BOOST_TEST(has(found(asked(1), "reach"), "WRONG: the reply is not what a peer answers"));
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
