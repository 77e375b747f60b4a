#include "io/transport.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "harness.hpp"
#include "io/secret.hpp"
#include "peer/events.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

TransportConfig secured(bool tls) {
  TransportConfig config;
  config.tls = tls;
  return config;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(transport)

BOOST_DATA_TEST_CASE(linked_ends_know_each_other_by_their_keys,
                     boost::unit_test::data::make({true, false}), tls) {
  Loop loop = make_loop();
  Endpoint a(loop, secured(tls));
  Endpoint b(loop, secured(tls));
  const std::uint64_t dial = a.transport->dial(b.transport->address());
  BOOST_TEST(a.ups.empty());
  BOOST_REQUIRE(run_until(loop, [&] { return !a.ups.empty() && !b.ups.empty(); }));
  BOOST_TEST(a.ups[0].peer.hex() == b.identity.id().hex());
  BOOST_TEST(b.ups[0].peer.hex() == a.identity.id().hex());
  BOOST_TEST(a.ups[0].dial == dial);
  BOOST_TEST(a.ups[0].address == b.transport->address());
  BOOST_TEST(b.ups[0].dial == 0U);
}

BOOST_AUTO_TEST_CASE(an_end_can_dial_itself) {
  Loop loop = make_loop();
  Endpoint a(loop);
  static_cast<void>(a.transport->dial(a.transport->address()));
  BOOST_REQUIRE(run_until(loop, [&] { return a.ups.size() == 2; }));
  BOOST_TEST(a.ups[0].peer.hex() == a.identity.id().hex());
  BOOST_TEST(a.ups[1].peer.hex() == a.identity.id().hex());
}

BOOST_DATA_TEST_CASE(twenty_megabytes_each_way_arrive_in_order,
                     boost::unit_test::data::make({true, false}), tls) {
  constexpr std::size_t kFrames = 300;
  constexpr std::size_t kSize = 70'000;  // more than a message holds
  Loop loop = make_loop();
  TransportConfig config = secured(tls);
  config.link_memory = 2UL << 20;
  Endpoint a(loop, config);
  Endpoint b(loop, config);
  BOOST_REQUIRE(link_up(loop, a, b));
  struct Direction {
    Endpoint* from;
    std::size_t sent = 0;
    std::size_t received = 0;
    bool refused = false;
  };
  Direction there{&a};
  Direction back{&b};
  const auto pump = [&](Direction& direction) {
    while (direction.sent < kFrames) {
      const auto fill = static_cast<std::uint8_t>(direction.sent % 251);
      if (!direction.from->transport->send(direction.from->ups[0].link, frame_of(kSize, fill),
                                           wire::Purpose::delta)) {
        direction.refused = true;
        return;
      }
      ++direction.sent;
    }
  };
  const auto check = [&](Direction& direction, const wire::Frame& frame) {
    BOOST_REQUIRE(frame.payload().size() == kSize);
    const auto fill = std::byte{static_cast<std::uint8_t>(direction.received % 251)};
    BOOST_REQUIRE((frame.payload().front() == fill && frame.payload().back() == fill));
    ++direction.received;
  };
  a.transport->accept(a.ups[0].link);
  b.transport->accept(b.ups[0].link);
  a.when_frame = [&](base::LinkId, wire::Frame&& frame) { check(back, frame); };
  b.when_frame = [&](base::LinkId, wire::Frame&& frame) { check(there, frame); };
  BOOST_TEST(run_until(loop, [&] {
    pump(there);
    pump(back);
    return there.received == kFrames && back.received == kFrames;
  }));
  BOOST_TEST(there.refused);  // the bound was reached: memory stayed below it
  BOOST_TEST(back.refused);
  const LinkTraffic traffic = a.transport->traffic(a.ups[0].link);
  BOOST_TEST(traffic.sent[static_cast<std::size_t>(wire::Purpose::delta)] > kFrames * kSize);
  BOOST_TEST(traffic.sent_total() < kFrames * kSize * 101 / 100);
}

BOOST_AUTO_TEST_CASE(a_frame_that_comes_in_one_piece_takes_no_time) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  BOOST_TEST(a.transport->send(a.ups[0].link, frame_of(1000), wire::Purpose::delta));
  BOOST_REQUIRE(run_until(loop, [&] { return b.frames == 1; }));
  BOOST_TEST(b.took_most.count() == 0);
}

BOOST_AUTO_TEST_CASE(a_frame_that_takes_long_is_heard_before_it_is_complete) {
  constexpr std::size_t kSize = 256UL << 20;  // more than comes within kArrivingEvery
  Loop loop = make_loop();
  TransportConfig config;
  config.link_memory = config.payload_max = 2 * kSize;
  Endpoint a(loop, config);
  Endpoint b(loop, config);
  BOOST_REQUIRE(link_up(loop, a, b));
  b.transport->accept(b.ups[0].link);
  std::size_t sent = 0;
  BOOST_REQUIRE(run_until(loop, [&] {
    if (b.frames < sent) return !b.parts.empty();
    ++sent;
    return !a.transport->send(a.ups[0].link, frame_of(kSize), wire::Purpose::delta);
  }));
  BOOST_REQUIRE(!b.parts.empty());
  BOOST_TEST(b.parts[0].first == static_cast<std::uint8_t>(wire::FrameType::delta));
  BOOST_TEST(b.parts[0].second >= peer::kArrivingMin);
  BOOST_TEST(b.parts[0].second < kSize);
}

BOOST_AUTO_TEST_CASE(traffic_counts_the_same_bytes_at_both_ends) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  for (int i = 0; i < 20; ++i) {
    BOOST_TEST(a.transport->send(a.ups[0].link, frame_of(1000), wire::Purpose::delta));
  }
  BOOST_REQUIRE(run_until(loop, [&] { return b.frames == 20; }));
  const LinkTraffic sent = a.transport->traffic(a.ups[0].link);
  const LinkTraffic received = b.transport->traffic(b.ups[0].link);
  BOOST_TEST(sent.sent_total() == received.received_total());
  BOOST_TEST(sent.sent == received.received, boost::test_tools::per_element());
  BOOST_TEST(b.transport->traffic().received_total() == received.received_total());
}

BOOST_AUTO_TEST_CASE(close_sends_what_is_queued_first) {
  constexpr std::size_t kFrames = 100;
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  for (std::size_t i = 0; i < kFrames; ++i) {
    BOOST_REQUIRE(a.transport->send(a.ups[0].link, frame_of(50'000), wire::Purpose::delta));
  }
  a.transport->close(a.ups[0].link);
  BOOST_TEST(a.downs.empty());
  BOOST_TEST(!a.transport->send(a.ups[0].link, frame_of(1), wire::Purpose::delta));
  BOOST_REQUIRE(run_until(loop, [&] { return !a.downs.empty() && !b.downs.empty(); }));
  BOOST_TEST(b.frames == kFrames);
  BOOST_TEST((a.downs[0].end == LinkEnd::closed));
  BOOST_TEST((b.downs[0].end == LinkEnd::closed));
}

BOOST_AUTO_TEST_CASE(both_ends_may_close_at_once) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  a.transport->close(a.ups[0].link);
  b.transport->close(b.ups[0].link);
  BOOST_REQUIRE(run_until(loop, [&] { return !a.downs.empty() && !b.downs.empty(); }));
  BOOST_TEST((a.downs[0].end == LinkEnd::closed));
  BOOST_TEST((b.downs[0].end == LinkEnd::closed));
}

BOOST_AUTO_TEST_CASE(an_abort_with_data_in_flight_is_reported_once_at_each_end) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  for (int i = 0; i < 50; ++i) {
    BOOST_REQUIRE(a.transport->send(a.ups[0].link, frame_of(60'000), wire::Purpose::delta));
    BOOST_REQUIRE(b.transport->send(b.ups[0].link, frame_of(60'000), wire::Purpose::delta));
  }
  BOOST_REQUIRE(run_until(loop, [&] { return b.frames > 0; }));
  a.transport->abort(a.ups[0].link);
  BOOST_REQUIRE(run_until(loop, [&] { return !a.downs.empty() && !b.downs.empty(); }));
  BOOST_TEST((a.downs[0].end == LinkEnd::closed));
  BOOST_TEST((b.downs[0].end == LinkEnd::reset));
  BOOST_REQUIRE(link_up(loop, b, a));  // and both go on
  BOOST_TEST(a.downs.size() == 1U);
  BOOST_TEST(b.downs.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_link_may_be_closed_and_another_dialed_from_inside_a_callback) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  b.when_frame = [&](base::LinkId link, wire::Frame&&) {
    b.transport->abort(link);
    for (int i = 0; i < 4; ++i) static_cast<void>(b.transport->dial(a.transport->address()));
  };
  for (int i = 0; i < 3; ++i) {
    BOOST_REQUIRE(a.transport->send(a.ups[0].link, frame_of(10), wire::Purpose::delta));
  }
  BOOST_REQUIRE(run_until(loop, [&] { return a.ups.size() == 5 && b.ups.size() == 5; }));
  BOOST_TEST(b.frames == 1U);
  BOOST_TEST(b.downs.size() == 1U);
}

BOOST_AUTO_TEST_CASE(an_old_id_never_names_a_new_link) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  a.transport->abort(a.ups[0].link);
  BOOST_REQUIRE(run_until(loop, [&] { return !a.downs.empty() && !b.downs.empty(); }));
  BOOST_REQUIRE(link_up(loop, a, b));
  BOOST_TEST((a.ups[0].link != a.ups[1].link));
  BOOST_TEST(!a.transport->send(a.ups[0].link, frame_of(1), wire::Purpose::other));
  BOOST_TEST(a.transport->send(a.ups[1].link, frame_of(1), wire::Purpose::other));
}

BOOST_AUTO_TEST_CASE(a_payload_before_accept_is_bounded) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  const base::Bytes large = frame_of(wire::kPayloadMaxBeforeHello + 1);
  BOOST_REQUIRE(a.transport->send(a.ups[0].link, large, wire::Purpose::delta));
  BOOST_REQUIRE(run_until(loop, [&] { return !b.downs.empty(); }));
  BOOST_TEST((b.downs[0].end == LinkEnd::protocol_error));
  BOOST_TEST(b.downs[0].text.find("payload") != std::string::npos);
  BOOST_TEST(b.frames == 0U);
}

BOOST_AUTO_TEST_CASE(a_dial_to_a_closed_port_fails_with_the_address) {
  Loop loop = make_loop();
  Endpoint a(loop);
  std::string address;
  { address = Endpoint(loop).transport->address(); }
  const std::uint64_t dial = a.transport->dial(address);
  BOOST_TEST(a.failed.empty());
  BOOST_REQUIRE(run_until(loop, [&] { return !a.failed.empty(); }));
  BOOST_TEST(a.failed[0].first == dial);
  BOOST_TEST(a.failed[0].second.find(address) != std::string::npos);
  BOOST_TEST(a.ups.empty());
}

BOOST_DATA_TEST_CASE(an_address_that_makes_no_sense_fails_later_not_at_once,
                     boost::unit_test::data::make({"", "nowhere", "host:", "host:70000", "[::1]:80",
                                                   "127.0.0.1:0", "no such host.invalid:80"}),
                     address) {
  Loop loop = make_loop();
  Endpoint a(loop);
  static_cast<void>(a.transport->dial(address));
  BOOST_TEST(a.failed.empty());
  BOOST_REQUIRE(run_until(loop, [&] { return !a.failed.empty(); }));
  BOOST_TEST(!a.failed[0].second.empty());
}

BOOST_DATA_TEST_CASE(dials_leave_from_the_port_that_is_listened_on_where_that_is_wanted,
                     boost::unit_test::data::make({true, false}), one_port) {
  Loop loop = make_loop();
  TransportConfig config;
  config.one_port = one_port;
  Endpoint a(loop, config);
  Endpoint b(loop);
  Endpoint c(loop);
  for (Endpoint* other : {&b, &c}) {
    BOOST_REQUIRE(link_up(loop, a, *other));
    BOOST_TEST((a.ups.back().local == a.transport->address()) == one_port);
    BOOST_TEST(other->ups[0].observed == a.ups.back().local);
    BOOST_TEST(other->ups[0].local == other->transport->address());
  }
  // One to the same place is there already: the port cannot be had for another one.
  BOOST_REQUIRE(link_up(loop, a, b));
  BOOST_TEST(a.ups.back().local != a.transport->address());
}

BOOST_AUTO_TEST_CASE(an_occupied_port_is_an_error_that_names_it) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint handler(loop);
  TransportConfig config;
  config.listen = a.transport->address();
  const auto second = Transport::create(loop, config, a.identity, handler);
  BOOST_REQUIRE(!second);
  BOOST_TEST((second.error().code == base::ErrorCode::network));
  BOOST_TEST(second.error().text.find(a.transport->address()) != std::string::npos);
  BOOST_TEST(second.error().text.find("another program") != std::string::npos);
}

BOOST_DATA_TEST_CASE(ends_that_disagree_on_security_never_link,
                     boost::unit_test::data::make({true, false}), tls) {
  Loop loop = make_loop();
  Endpoint a(loop, secured(tls));
  Endpoint b(loop, secured(!tls));
  static_cast<void>(a.transport->dial(b.transport->address()));
  BOOST_REQUIRE(run_until(loop, [&] { return !a.failed.empty(); }));
  BOOST_TEST(!a.failed[0].second.empty());
  BOOST_TEST(b.ups.empty());
}

BOOST_AUTO_TEST_CASE(a_dial_says_whether_it_could_leave_the_machine) {
  Loop loop = make_loop();
  Endpoint a(loop);
  static_cast<void>(a.transport->dial("224.0.0.1:7000"));  // no TCP to a group of machines
  BOOST_REQUIRE(run_until(loop, [&] { return a.failed.size() == 1; }));
  BOOST_TEST((a.failed_by == LinkEnd::no_route));
  static_cast<void>(a.transport->dial("127.0.0.1:1"));
  BOOST_REQUIRE(run_until(loop, [&] { return a.failed.size() == 2; }));
  BOOST_TEST((a.failed_by == LinkEnd::reset));
}

BOOST_AUTO_TEST_CASE(who_has_the_same_secret_is_let_in_and_nobody_else) {
  const testing::TemporaryFolder folder;
  std::vector<TransportConfig> configs(3);  // the first has none
  for (const std::size_t i : {1U, 2U}) {
    const std::string path = fmt::format("{}/secret-{}", folder.path(), i);
    BOOST_REQUIRE(Secret::create(path));
    configs[i].secret = *Secret::load(path);
  }
  Loop loop = make_loop();
  for (std::size_t i = 0; i < configs.size(); ++i) {
    for (std::size_t j = 0; j < configs.size(); ++j) {
      Endpoint dialer(loop, configs[i]);
      Endpoint listener(loop, configs[j]);
      static_cast<void>(dialer.transport->dial(listener.transport->address()));
      BOOST_REQUIRE(
          run_until(loop, [&] { return !(dialer.failed.empty() && dialer.ups.empty()); }));
      BOOST_TEST(dialer.failed.empty() == (i == j));
      if (i == j) continue;
      const std::string& told = dialer.failed[0].second;
      BOOST_TEST(told.find("security.secret") != std::string::npos);
      const bool has_one = configs[i].secret.has_value();  // and the wrong one
      BOOST_TEST((told.find("another one or none") != std::string::npos) == has_one);
      BOOST_TEST(listener.ups.empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(links_over_the_limit_are_refused) {
  Loop loop = make_loop();
  TransportConfig config;
  config.links_max = 1;
  Endpoint a(loop);
  Endpoint b(loop, config);
  BOOST_REQUIRE(link_up(loop, a, b));
  static_cast<void>(a.transport->dial(b.transport->address()));
  static_cast<void>(b.transport->dial(a.transport->address()));
  BOOST_REQUIRE(run_until(loop, [&] { return !a.failed.empty() && !b.failed.empty(); }));
  BOOST_TEST(b.failed[0].second.find("limit") != std::string::npos);
  BOOST_TEST(b.ups.size() == 1U);
}

BOOST_AUTO_TEST_CASE(shutdown_closes_links_and_then_calls_back) {
  Loop loop = make_loop();
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_REQUIRE(link_up(loop, a, b));
  const std::string address = a.transport->address();
  bool done = false;
  static_cast<void>(a.transport->dial(b.transport->address()));
  a.transport->shutdown([&] { done = true; });
  BOOST_TEST(!done);
  BOOST_REQUIRE(run_until(loop, [&] { return done; }));
  BOOST_TEST(a.downs.size() == 1U);
  BOOST_TEST(a.failed.size() == 1U);
  static_cast<void>(b.transport->dial(address));
  BOOST_TEST(run_until(loop, [&] { return !b.failed.empty(); }));
}

BOOST_AUTO_TEST_CASE(made_and_destroyed_fifty_times_while_linked) {
  for (int i = 0; i < 50; ++i) {
    Loop loop = make_loop();
    Endpoint a(loop, secured(i % 2 == 0));
    Endpoint b(loop, secured(i % 2 == 0));
    BOOST_REQUIRE(link_up(loop, a, b));
    BOOST_REQUIRE(a.transport->send(a.ups[0].link, frame_of(60'000), wire::Purpose::delta));
    static_cast<void>(b.transport->dial(a.transport->address()));
  }
}

BOOST_AUTO_TEST_SUITE_END()
