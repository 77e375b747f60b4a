#include "peer/served_run.hpp"

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::peer;

namespace {

constexpr base::Time kServedFrom{std::chrono::seconds(100)};

wire::Hello hello_of_run(std::uint8_t number) {
  wire::Hello hello;
  hello.run.bytes.fill(number);
  hello.parameters_hash = number;
  hello.heartbeat_ms = 250;
  return hello;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(served_run)

BOOST_AUTO_TEST_CASE(a_peer_with_a_replica_knows_its_run) {
  Config config;
  config.run = hello_of_run(1).run;
  config.parameters_hash = 1;
  const ServedRun run(config, false);
  BOOST_TEST(run.is_known());
  BOOST_TEST(run.is_of(hello_of_run(1)));
  BOOST_TEST(!run.is_of(hello_of_run(2)));
  BOOST_TEST(run.is_of(run.hello({})));
}

BOOST_AUTO_TEST_CASE(a_relay_takes_over_the_first_run_and_its_heartbeats) {
  ServedRun run(Config{}, true);
  BOOST_TEST(!run.is_known());
  BOOST_TEST(run.find(hello_of_run(2)));
  BOOST_TEST(run.is_known());
  BOOST_TEST(run.is_of(hello_of_run(2)));
  BOOST_TEST((run.heartbeat() == std::chrono::milliseconds(250)));
}

BOOST_AUTO_TEST_CASE(a_relay_with_a_named_run_takes_over_no_other) {
  Config config;
  config.run = hello_of_run(1).run;
  ServedRun run(config, true);
  BOOST_TEST(!run.find(hello_of_run(2)));
  BOOST_TEST(!run.is_known());
  BOOST_TEST(run.find(hello_of_run(1)));
}

BOOST_AUTO_TEST_CASE(a_relay_of_a_run_ends_a_while_after_its_last_link) {
  ServedRun run(Config{}, true);
  run.note_links(false, kServedFrom);
  BOOST_TEST(!run.alone_until());  // it may wait for its first peer for ever
  BOOST_TEST(run.find(hello_of_run(2)));
  run.note_links(false, kServedFrom);
  BOOST_TEST((run.alone_until() == kServedFrom + kRelayAlone));
  run.note_links(false, kServedFrom + kRelayAlone / 2);
  BOOST_TEST((run.alone_until() == kServedFrom + kRelayAlone));
  run.note_links(true, kServedFrom + kRelayAlone / 2);
  BOOST_TEST(!run.alone_until());
}

BOOST_AUTO_TEST_SUITE_END()
