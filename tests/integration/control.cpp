// Questions and orders to a running peer.
#include <algorithm>
#include <string>
#include <thread>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>
#include <httplib.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "answers.hpp"
#include "control_client.hpp"
#include "harness.hpp"
#include "report/peer_file.hpp"

namespace starling::integration {
namespace {

using Json = nlohmann::json;

Json json_of(const testing::TemporaryFolder& folder, const std::string& command,
             const std::string& dir) {
  const Ended asked = run(folder, {command, "--peer", dir, "--json"});
  BOOST_TEST_REQUIRE(asked.code.value_or(-1) == 0, asked.err);
  Json json = Json::parse(asked.out, nullptr, false);
  BOOST_TEST_REQUIRE(!json.is_discarded(), asked.out);
  return json;
}

/// Two peers that train until they are told to end.
struct Pair {
  Swarm swarm{2, {"run.samples=1000000000"}};

  Pair() {
    BOOST_TEST_REQUIRE(eventually([&] {
                         const auto status = swarm[0].status();
                         return status && status->exchanges > 0;
                       }),
                       swarm[0].process().err());
  }
};

BOOST_FIXTURE_TEST_CASE(a_running_peer_answers_in_json_and_in_words, Pair) {
  const testing::TemporaryFolder& folder = swarm.folder();
  const std::string dir = swarm[0].dir();
  const Json status = json_of(folder, "status", dir);
  BOOST_TEST(status.at("name") == "peer-1");
  BOOST_TEST(status.at("phase") == "training");
  BOOST_TEST(status.at("address") == swarm[0].address());
  BOOST_TEST(status.at("steps").get<std::uint64_t>() > 0U);
  BOOST_TEST(status.at("bytes_sent").at("delta").get<std::uint64_t>() > 0U);

  const Json members = json_of(folder, "members", dir);
  BOOST_TEST_REQUIRE(members.size() == 2U);
  for (const Json& member : members) {
    BOOST_TEST(member.at("state") == "alive");
    BOOST_TEST(member.at("self").get<bool>() == (member.at("name") == "peer-1"));
  }

  const Json links = json_of(folder, "links", dir);
  BOOST_TEST_REQUIRE(links.size() == 1U);
  BOOST_TEST(links.front().at("name") == "peer-2");
  BOOST_TEST(links.front().at("state") == "open");
  BOOST_TEST(links.front().at("exchange").get<std::uint64_t>() > 0U);

  for (const char* command : {"status", "members", "links"}) {
    const Ended asked = run(folder, {command, "--peer", dir});
    BOOST_TEST(asked.code.value_or(-1) == 0, asked.err);
    BOOST_TEST(asked.out.find("peer-") != std::string::npos, asked.out);
  }
}

BOOST_AUTO_TEST_CASE(whether_a_peer_can_be_dialed_is_told_once_it_is_known) {
  Swarm swarm{1, {"run.samples=1000000000", "limits.steps_per_second=1"}};
  BOOST_TEST_REQUIRE(!swarm[0].address().empty());
  const auto told = [&](const std::string& command, const std::string& text) {
    return has(run(swarm.folder(), {command, "--peer", swarm[0].dir()}).out, text);
  };
  BOOST_TEST(eventually([&] { return told("status", "\nreach        not known yet\n"); }));
  BOOST_TEST(told("members", " self     unknown "));
  swarm.add("peer-2", swarm[0].address());
  const std::string reach = "\nreach        reachable at " + swarm[0].address() + "\n";
  BOOST_TEST(eventually([&] { return told("status", reach); }));
  BOOST_TEST(told("members", " self     reachable "));
  BOOST_TEST(!told("status", "\nrelays "));
}

BOOST_AUTO_TEST_CASE(circuits_that_a_peer_relays_are_counted_in_its_status) {
  const Json none{{"total", 0}};
  const Json status{{"name", "hub"},
                    {"id", "0123456789abcdef"},
                    {"address", "203.0.113.5:7000"},
                    {"reach", "dials only"},
                    {"outer_address", "203.0.113.5:7000"},
                    {"circuits_relayed", 2},
                    {"phase", "training"},
                    {"progress", 0.5},
                    {"swarm_samples", 1},
                    {"target_samples", 2},
                    {"steps", 1},
                    {"samples", 1},
                    {"samples_per_second", 1},
                    {"accuracy", nullptr},
                    {"loss", nullptr},
                    {"train_loss", nullptr},
                    {"bits_per_byte", nullptr},
                    {"drift", nullptr},
                    {"settled", nullptr},
                    {"left_out", Json::array()},
                    {"exchanges", 0},
                    {"links", 0},
                    {"bytes_sent", none},
                    {"bytes_received", none}};
  const Answers peer{{"/status", status.dump()}};
  const testing::TemporaryFolder folder;
  const Ended asked = run(folder, {"status", "--peer", peer.address()});
  BOOST_TEST(asked.code.value_or(-1) == 0, asked.err);
  BOOST_TEST(has(asked.out, "\nreach        dials only\nrelays       2 circuits for others\n"),
             asked.out);
}

BOOST_FIXTURE_TEST_CASE(a_running_peer_has_a_page_a_history_and_metrics, Pair) {
  const std::string& control = swarm[0].control();
  const auto page = peers::ask(control, "/");
  BOOST_TEST_REQUIRE(page.has_value());
  BOOST_TEST(page->find("<title>Starling</title>") != std::string::npos);
  const auto metrics = peers::ask(control, "/metrics");
  BOOST_TEST_REQUIRE(metrics.has_value());
  BOOST_TEST(metrics->find("\nstarling_members{state=\"alive\"} 2\n") != std::string::npos,
             *metrics);
  // The first row comes 2 s after the first step, whether it was evaluated or not.
  BOOST_TEST(eventually([&] {
    const auto history = peers::ask(control, "/history");
    return history && std::ranges::count(*history, '\n') > 1;
  }));
}

BOOST_FIXTURE_TEST_CASE(a_peer_that_is_told_to_leave_ends_and_the_other_goes_on, Pair) {
  Peer& leaver = swarm[0];
  const Ended told = run(swarm.folder(), {"leave", "--peer", leaver.dir()});
  BOOST_TEST(told.code.value_or(-1) == 0, told.err);
  BOOST_TEST(leaver.process().wait().value_or(-1) == 0);
  BOOST_TEST(leaver.summary().end == "left");

  BOOST_TEST(eventually([&] { return swarm[1].state_of(leaver.name()) == "left"; }));
  const auto before = swarm[1].status();
  BOOST_TEST_REQUIRE(before.has_value());
  BOOST_TEST(eventually([&] {
    const auto status = swarm[1].status();
    return status && status->steps > before->steps;
  }));

  const Ended asked = run(swarm.folder(), {"status", "--peer", leaver.dir()});
  BOOST_TEST(asked.code.value_or(-1) == 4);
  BOOST_TEST(asked.err.find("does not run any more") != std::string::npos, asked.err);
}

BOOST_AUTO_TEST_CASE(a_peer_that_waits_for_others_can_be_told_to_leave) {
  Swarm swarm{1, {"run.samples=1000000000", "swarm.wait_for=2"}};
  BOOST_TEST_REQUIRE(!swarm[0].address().empty());
  const Ended told = run(swarm.folder(), {"leave", "--peer", swarm[0].dir()});
  BOOST_TEST(told.code.value_or(-1) == 0, told.err);
  BOOST_TEST(swarm[0].process().wait().value_or(-1) == 0);
}

BOOST_AUTO_TEST_CASE(why_a_peer_refuses_is_told) {
  httplib::Server refusing;
  refusing.Post("/leave", [](const httplib::Request&, httplib::Response& reply) {
    reply.status = 403;
    reply.set_content(R"({"error":"only for programs\u001b on this machine"})", "application/json");
  });
  const int port = refusing.bind_to_any_port("127.0.0.1");
  const std::jthread server([&] { refusing.listen_after_bind(); });
  const testing::TemporaryFolder folder;
  const Ended asked = run(folder, {"leave", "--peer", fmt::format("127.0.0.1:{}", port)});
  refusing.stop();
  BOOST_TEST(asked.code.value_or(-1) == 4);
  BOOST_TEST(asked.err.ends_with("answered 403 to /leave: only for programs? on this machine\n"),
             asked.err);
}

BOOST_AUTO_TEST_CASE(a_killed_peer_whose_process_number_is_another_s_does_not_run) {
  Swarm swarm{1, {"run.samples=1000000000"}};
  BOOST_TEST_REQUIRE(!swarm[0].address().empty());
  auto file = report::read_peer_file(swarm[0].dir());
  BOOST_TEST_REQUIRE(file.has_value());
  swarm.kill(0);
  file->pid = getpid();
  BOOST_TEST_REQUIRE(report::write_peer_file(swarm[0].dir(), *file).has_value());
  const Ended asked = run(swarm.folder(), {"status", "--peer", swarm[0].dir()});
  BOOST_TEST(asked.code.value_or(-1) == 4);
  BOOST_TEST(has(asked.err, "does not run any more"), asked.err);
}

}  // namespace
}  // namespace starling::integration
