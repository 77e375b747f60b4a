#include "io/circuits.hpp"

#include <cstring>

#include <boost/test/unit_test.hpp>

#include "harness.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

/// Two members that are linked with a third one, and not with each other.
struct Three {
  explicit Three(std::uint64_t limit = 10'000'000) : relay(loop, limited(limit)) {
    for (Endpoint* end : {&a, &b}) {
      BOOST_REQUIRE(link_up(loop, *end, relay));
      end->transport->accept(end->ups[0].link);
      relay.transport->accept(relay.ups.back().link);
    }
  }
  static TransportConfig limited(std::uint64_t limit) {
    TransportConfig config;
    config.relay_limit = limit;
    return config;
  }
  /// As reach has them do it.
  void open(std::uint32_t number_a = 5, std::uint32_t number_b = 9) {
    relay.transport->relay(relay.ups[0].link, number_a, relay.ups[1].link, number_b);
    b.transport->open_circuit(b.ups[0].link, number_b, a.identity.id(), false);
    a.transport->open_circuit(a.ups[0].link, number_a, b.identity.id(), true);
  }
  [[nodiscard]] bool linked() {
    return run_until(loop, [&] { return a.ups.size() == 2 && b.ups.size() == 2; });
  }

  Loop loop = make_loop();
  Endpoint a{loop};
  Endpoint b{loop};
  Endpoint relay;
};

base::Bytes payload_of(std::uint32_t number, std::size_t size) {
  base::Bytes payload(kCircuitHeaderSize + size);
  std::memcpy(payload.data(), &number, sizeof number);
  return payload;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(circuits)

BOOST_AUTO_TEST_CASE(two_that_cannot_reach_each_other_link_through_a_third_one) {
  Three three;
  three.open();
  BOOST_REQUIRE(three.linked());
  BOOST_TEST(three.a.ups[1].peer.hex() == three.b.identity.id().hex());
  BOOST_TEST(three.b.ups[1].peer.hex() == three.a.identity.id().hex());
  BOOST_TEST((three.a.ups[1].via == three.a.ups[0].link));
  BOOST_TEST(three.relay.frames == 0U);
  BOOST_TEST(three.relay.ups.size() == 2U);
  three.b.transport->accept(three.b.ups[1].link);
  constexpr std::size_t kFrames = 30;
  for (std::size_t i = 0; i < kFrames; ++i) {
    BOOST_REQUIRE(
        three.a.transport->send(three.a.ups[1].link, frame_of(50'000), wire::Purpose::delta));
  }
  BOOST_TEST(run_until(three.loop, [&] { return three.b.frames == kFrames; }));
  BOOST_TEST(to_string(three.a.transport->carrier(three.a.ups[1].link).kind) == "circuit");
  // The link counts its bytes by purpose; the frames around them are in no total.
  const auto relayed = static_cast<std::size_t>(wire::Purpose::relayed);
  const LinkTraffic outer = three.a.transport->traffic(three.a.ups[0].link);
  const LinkTraffic inner = three.a.transport->traffic(three.a.ups[1].link);
  BOOST_TEST(outer.sent[relayed] > inner.sent_total());
  BOOST_TEST(outer.sent_total() < 20'000U);
  three.a.transport->close(three.a.ups[1].link);
  BOOST_TEST(run_until(three.loop, [&] {
    return three.a.circuits_ended.size() == 1 && three.b.circuits_ended.size() == 1 &&
           three.relay.circuits_ended.size() == 1;
  }));
  BOOST_TEST((three.b.downs.at(0).end == LinkEnd::closed));
  BOOST_TEST(three.relay.circuits_ended[0].bytes > kFrames * 50'000);
}

BOOST_AUTO_TEST_CASE(the_relays_end_breaks_the_link_and_says_so) {
  Three three;
  three.open();
  BOOST_REQUIRE(three.linked());
  three.relay.transport->abort(three.relay.ups[1].link);
  BOOST_TEST(run_until(three.loop, [&] {
    return three.a.downs.size() == 1 && three.b.downs.size() == 2 &&
           three.a.circuits_ended.size() == 1 && three.b.circuits_ended.size() == 1 &&
           three.relay.circuits_ended.size() == 1;
  }));
  BOOST_TEST((three.a.downs[0].link == three.a.ups[1].link));
  BOOST_TEST((three.a.downs[0].end == LinkEnd::reset));
}

BOOST_AUTO_TEST_CASE(another_peer_at_the_other_end_is_refused) {
  Three three;
  Endpoint other(three.loop);
  three.relay.transport->relay(three.relay.ups[0].link, 1, three.relay.ups[1].link, 2);
  three.b.transport->open_circuit(three.b.ups[0].link, 2, three.a.identity.id(), false);
  three.a.transport->open_circuit(three.a.ups[0].link, 1, other.identity.id(), true);
  BOOST_TEST(run_until(three.loop, [&] { return three.a.circuits_ended.size() == 1; }));
  BOOST_TEST(three.a.ups.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_circuit_over_a_link_that_is_gone_has_ended) {
  Three three;
  three.a.transport->open_circuit(base::LinkId{77, 1}, 3, three.b.identity.id(), true);
  three.relay.transport->relay(three.relay.ups[0].link, 1, base::LinkId{77, 1}, 2);
  BOOST_TEST(run_until(three.loop, [&] {
    return three.a.circuits_ended.size() == 1 && three.relay.circuits_ended.size() == 1;
  }));
  BOOST_TEST(three.a.circuits_ended[0].number == 3U);
}

BOOST_AUTO_TEST_CASE(a_relay_passes_on_no_more_than_its_limit) {
  constexpr std::uint64_t kLimit = 200'000;
  Three three(kLimit);
  three.open();
  BOOST_REQUIRE(three.linked());
  const base::Time began = Loop::now();
  const std::uint64_t before = three.a.transport->traffic(three.a.ups[1].link).sent_total();
  three.b.transport->accept(three.b.ups[1].link);
  for (int i = 0; i < 6; ++i) {
    BOOST_REQUIRE(
        three.a.transport->send(three.a.ups[1].link, frame_of(50'000), wire::Purpose::delta));
  }
  BOOST_TEST(run_until(three.loop, [&] { return three.b.frames == 6; }));
  const auto bytes =
      static_cast<double>(three.a.transport->traffic(three.a.ups[1].link).sent_total() - before);
  const double burst = 64 * 1024;
  BOOST_TEST(base::seconds(Loop::now() - began) > (bytes - burst) / kLimit * 0.9);
}

BOOST_AUTO_TEST_CASE(frames_that_make_no_sense_end_the_link_they_came_on) {
  for (const std::size_t size : {std::size_t{3}, kCircuitHeaderSize + kCircuitPieceMax + 1}) {
    Three three;
    const base::Bytes payload(size);
    BOOST_REQUIRE(three.a.transport->send(three.a.ups[0].link,
                                          wire::make_frame(wire::FrameType::circuit, {}, payload),
                                          wire::Purpose::other));
    BOOST_TEST(run_until(three.loop, [&] { return three.relay.downs.size() == 1; }));
    BOOST_TEST((three.relay.downs[0].end == LinkEnd::protocol_error));
  }
}

BOOST_AUTO_TEST_CASE(an_end_that_sends_more_than_it_may_loses_the_circuit_alone) {
  Three three(1000);
  three.open();
  BOOST_REQUIRE(three.linked());
  for (int i = 0; i < 60; ++i) {
    const base::Bytes frame =
        wire::make_frame(wire::FrameType::circuit, {}, payload_of(5, kCircuitPieceMax));
    BOOST_REQUIRE(three.a.transport->send(three.a.ups[0].link, frame, wire::Purpose::other));
  }
  BOOST_TEST(run_until(three.loop, [&] { return three.relay.circuits_ended.size() == 1; }));
  BOOST_TEST(three.relay.downs.empty());
}

BOOST_AUTO_TEST_CASE(a_circuit_of_which_nothing_is_heard_ends) {
  struct Links final : CircuitLinks {
    bool send_circuit_frame(base::LinkId, base::Bytes) override { return ++frames > 0; }
    std::optional<std::size_t> waiting_on(base::LinkId) const override { return 0; }
    int frames = 0;
  } links;
  Circuits circuits(links, 1000);
  const base::Time start{std::chrono::hours(1)};
  circuits.relay({1, 1}, 1, {2, 1}, 2, start);
  static_cast<void>(circuits.pump(start));
  BOOST_TEST((circuits.deadline() == start + kCircuitIdle));
  static_cast<void>(circuits.pump(start + kCircuitIdle / 2));
  BOOST_TEST(circuits.relayed() == 1U);
  static_cast<void>(circuits.pump(start + kCircuitIdle));
  BOOST_TEST(circuits.relayed() == 0U);
  BOOST_TEST(links.frames == 2);
  BOOST_TEST(circuits.take_ended().size() == 1U);
}

BOOST_AUTO_TEST_CASE(what_one_circuit_sends_leaves_the_others_their_share) {
  struct Links final : CircuitLinks {
    bool send_circuit_frame(base::LinkId link, base::Bytes frame) override {
      passed[link.slot] += frame.size();
      return true;
    }
    std::optional<std::size_t> waiting_on(base::LinkId) const override { return 0; }
    std::map<std::uint32_t, std::size_t> passed;
  } links;
  Circuits circuits(links, 100'000);
  const base::Time start{std::chrono::hours(1)};
  circuits.relay({1, 1}, 1, {11, 1}, 1, start);
  circuits.relay({2, 1}, 1, {12, 1}, 1, start);
  for (int i = 0; i < 15; ++i) {
    BOOST_REQUIRE(circuits.on_frame({1, 1}, payload_of(1, kCircuitPieceMax), start));
  }
  for (int i = 0; i < 2; ++i) {
    BOOST_REQUIRE(circuits.on_frame({2, 1}, payload_of(1, kCircuitPieceMax), start));
  }
  for (int second = 0; second <= 1; ++second) {
    static_cast<void>(circuits.pump(start + std::chrono::seconds(second)));
  }
  BOOST_TEST(links.passed[12] >= 2 * kCircuitPieceMax);
  BOOST_TEST(links.passed[11] < 15 * kCircuitPieceMax);
}

BOOST_AUTO_TEST_SUITE_END()
