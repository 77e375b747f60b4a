// The core of port mapping against a router that is a few lines here.
#include <string>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "io/router/mapper.hpp"

using namespace starling;
using namespace starling::io::router;
using namespace std::chrono_literals;

namespace {

constexpr base::Time kStart{1000s};

Mapper::Config config(const char* own = "192.168.1.2") {
  return {.own = base::Ip::parse(own).value(), .port = 7000, .nonce = {9, 8, 7, 6, 5, 4, 3, 2, 1}};
}

void put(base::Bytes& bytes, std::uint64_t value, int size) {
  while (size-- > 0) bytes.push_back(static_cast<std::byte>(value >> (8 * size) & 0xffU));
}

/// A router's answer to a PCP request.
base::Bytes pcp_answer(const base::Bytes& request, int result, std::uint32_t lifetime,
                       const char* outer, std::uint16_t port) {
  base::Bytes bytes;
  put(bytes, 0x0281, 2);
  put(bytes, static_cast<std::uint64_t>(result), 2);
  put(bytes, lifetime, 4);
  bytes.resize(24);
  bytes.insert(bytes.end(), request.begin() + 24, request.begin() + 42);
  put(bytes, port, 2);
  const base::Ip address = base::Ip::parse(outer).value();
  for (const auto byte : address.mapped()) put(bytes, byte, 1);
  return bytes;
}

base::Bytes nat_pmp_address(const char* outer) {
  base::Bytes bytes;
  put(bytes, 0x00800000, 4);
  put(bytes, 16, 4);
  const base::Ip address = base::Ip::parse(outer).value();
  for (const auto byte : address.bytes()) put(bytes, byte, 1);
  return bytes;
}

base::Bytes nat_pmp_port(std::uint16_t outer_port, std::uint32_t lifetime, int result = 0) {
  base::Bytes bytes;
  put(bytes, 0x0082, 2);
  put(bytes, static_cast<std::uint64_t>(result), 2);
  put(bytes, 16, 4);
  put(bytes, 7000, 2);
  put(bytes, outer_port, 2);
  put(bytes, lifetime, 4);
  return bytes;
}

struct World {
  explicit World(Mapper::Config made = config()) : mapper(made) { mapper.start(now, out); }

  /// Goes on to the mapper's next deadline.
  void wait() {
    BOOST_REQUIRE(mapper.next_deadline().has_value());
    BOOST_TEST((*mapper.next_deadline() >= now));
    now = *mapper.next_deadline();
    mapper.expire(now, out);
  }
  void hear(const base::Bytes& datagram) { mapper.receive(datagram, now, out); }

  /// The datagrams sent since the last call.
  std::vector<base::Bytes> sent() { return take<Mapper::Send, base::Bytes>(); }
  std::vector<Mapper::AskUpnp> asked_upnp() { return take<Mapper::AskUpnp, Mapper::AskUpnp>(); }
  /// The reports since the last call, one per line.
  std::string said() {
    std::string text;
    for (const Line& line : take<Line, Line>()) text += write_line(line) + "\n";
    return text;
  }

  /// Gets the requested mapping by PCP.
  void map_by_pcp(std::uint32_t lifetime = 1200) {
    const auto asked = sent();
    BOOST_REQUIRE(asked.size() == 1U);
    hear(pcp_answer(asked[0], 0, lifetime, "203.0.113.5", 7001));
  }
  /// Nobody answers until UPnP is asked.
  void reach_upnp() {
    for (int i = 0; i < 2 * kTries; ++i) wait();
  }

  base::Time now = kStart;
  Mapper::Outbox out;
  Mapper mapper;

 private:
  template <class Kind, class Result>
  std::vector<Result> take() {
    std::vector<Result> taken;
    Mapper::Outbox others;
    for (Mapper::Action& action : out) {
      if (auto* one = std::get_if<Kind>(&action)) {
        if constexpr (std::is_same_v<Kind, Mapper::Send>) {
          taken.push_back(std::move(one->datagram));
        } else {
          taken.push_back(std::move(*one));
        }
      } else {
        others.push_back(std::move(action));
      }
    }
    out = std::move(others);
    return taken;
  }
};

Mapping upnp_mapping() {
  return {Protocol::upnp, {base::Ip::parse("203.0.113.5").value(), 7002}, kLifetimeWanted};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(router_mapper)

BOOST_AUTO_TEST_CASE(what_pcp_maps_is_said_and_renewed_at_half_its_lifetime) {
  World world;
  world.map_by_pcp();
  BOOST_TEST(world.said() == "mapped pcp 203.0.113.5:7001 1200\n");
  BOOST_TEST((*world.mapper.next_deadline() == kStart + 600s));
  world.wait();
  const auto renewal = world.sent();
  BOOST_REQUIRE(renewal.size() == 1U);
  // The same outer address and port are requested.
  BOOST_TEST((std::to_integer<int>(renewal[0][42]) << 8 | std::to_integer<int>(renewal[0][43])) ==
             7001);
  BOOST_TEST(std::to_integer<int>(renewal[0][59]) == 5);
  world.hear(pcp_answer(renewal[0], 0, 1200, "203.0.113.6", 7001));
  BOOST_TEST(world.said() == "mapped pcp 203.0.113.6:7001 1200\n");
}

BOOST_AUTO_TEST_CASE(an_answer_counts_once_and_only_when_it_is_waited_for) {
  World world;
  const auto asked = world.sent();
  const base::Bytes answer = pcp_answer(asked[0], 0, 1200, "203.0.113.5", 7001);
  world.hear(answer);
  const auto deadline = world.mapper.next_deadline();
  BOOST_TEST(!world.said().empty());
  world.now += 5s;
  world.hear(answer);
  world.hear(pcp_answer(asked[0], 2, 0, "203.0.113.5", 7001));
  world.hear(pcp_answer(asked[0], 0, 1200, "198.51.100.1", 9));
  world.hear(nat_pmp_port(9, 1200));
  BOOST_TEST(world.said() == "");
  BOOST_TEST((world.mapper.next_deadline() == deadline));
  BOOST_TEST(world.sent().empty());
}

BOOST_AUTO_TEST_CASE(garbage_changes_nothing) {
  World world;
  const auto asked = world.sent();
  const auto deadline = world.mapper.next_deadline();
  base::Bytes wrong_nonce = pcp_answer(asked[0], 0, 1200, "203.0.113.5", 7001);
  wrong_nonce[30] ^= std::byte{1};
  for (const base::Bytes& bytes :
       {base::Bytes{}, base::Bytes(3), base::Bytes(60, std::byte{2}), wrong_nonce, asked[0]}) {
    world.hear(bytes);
  }
  BOOST_TEST((world.mapper.next_deadline() == deadline));
  BOOST_TEST(world.said() == "");
  BOOST_TEST(world.sent().empty());
}

BOOST_AUTO_TEST_CASE(a_request_is_sent_again_and_then_the_next_protocol_is_asked) {
  World world;
  for (int i = 0; i < kTries - 1; ++i) world.wait();
  const auto pcp_asked = world.sent();
  BOOST_TEST(pcp_asked.size() == static_cast<std::size_t>(kTries));
  BOOST_TEST((world.now - kStart == kFirstWait * 3));
  world.wait();
  auto asked = world.sent();
  BOOST_REQUIRE(asked.size() == 2U);
  BOOST_TEST(asked[0].size() == 2U);
  BOOST_TEST(asked[1].size() == 12U);
  // The missing one of the two answers is requested again.
  world.hear(nat_pmp_address("203.0.113.5"));
  BOOST_TEST(world.said() == "");
  world.wait();
  asked = world.sent();
  BOOST_REQUIRE(asked.size() == 1U);
  world.hear(nat_pmp_port(7003, 1200));
  BOOST_TEST(world.said() == "mapped nat-pmp 203.0.113.5:7003 1200\n");
}

BOOST_AUTO_TEST_CASE(another_version_a_refusal_and_no_listener_lead_on_at_once) {
  base::Bytes other_version;
  put(other_version, 0x0081000100000010, 8);
  for (const int how : {0, 1, 2}) {
    World world;
    const auto asked = world.sent();
    if (how == 0) world.hear(other_version);
    if (how == 1) world.hear(pcp_answer(asked[0], 2, 30, "203.0.113.5", 7001));
    if (how == 2) world.mapper.unreachable(world.now, world.out);
    BOOST_TEST(world.sent().size() == 2U);
    world.hear(nat_pmp_port(0, 0, 2));
    const auto upnp = world.asked_upnp();
    BOOST_REQUIRE(upnp.size() == 1U);
    BOOST_TEST(!upnp[0].remove);
    BOOST_TEST((world.now == kStart));
    world.mapper.upnp_mapped(upnp_mapping(), world.now, world.out);
    BOOST_TEST(world.said() == "mapped upnp 203.0.113.5:7002 1200\n");
  }
}

BOOST_AUTO_TEST_CASE(where_nothing_maps_it_is_said_why_and_tried_again_later_and_later) {
  World world;
  world.reach_upnp();
  world.mapper.upnp_mapped(base::fail(base::ErrorCode::network, "no device"), world.now, world.out);
  BOOST_TEST(world.said() == "none ipv4 PCP: no answer; NAT-PMP: no answer; UPnP: no device\n");
  base::Duration pause = *world.mapper.next_deadline() - world.now;
  BOOST_TEST((pause == kRestFirst));
  for (int round = 0; round < 10; ++round) {
    world.sent();
    world.wait();
    BOOST_TEST(world.sent().size() == 1U);
    world.reach_upnp();
    world.mapper.upnp_mapped(base::fail(base::ErrorCode::network, "no device"), world.now,
                             world.out);
    pause = std::min<base::Duration>(2 * pause, kRestMax);
    BOOST_TEST((*world.mapper.next_deadline() - world.now == pause));
  }
  BOOST_TEST((pause == kRestMax));
}

BOOST_AUTO_TEST_CASE(lies_are_refused) {
  struct Lie {
    std::uint32_t lifetime;
    const char* outer;
    std::uint16_t port;
  };
  for (const Lie& lie :
       {Lie{0, "203.0.113.5", 7001}, Lie{29, "203.0.113.5", 7001}, Lie{1200, "0.0.0.0", 7001},
        Lie{1200, "2001:db8::1", 7001}, Lie{1200, "203.0.113.5", 0}}) {
    World world;
    const auto asked = world.sent();
    world.hear(pcp_answer(asked[0], 0, lie.lifetime, lie.outer, lie.port));
    BOOST_TEST(world.said() == "");
    BOOST_TEST(world.sent().size() == 2U);  // NAT-PMP
  }
  // A lifetime of 136 years is one of a week.
  World world;
  const auto asked = world.sent();
  world.hear(pcp_answer(asked[0], 0, 0xffffffff, "203.0.113.5", 7001));
  BOOST_TEST(world.said() == "mapped pcp 203.0.113.5:7001 604800\n");
}

BOOST_AUTO_TEST_CASE(a_renewal_without_an_answer_is_tried_until_the_end_and_then_begun_anew) {
  World world;
  world.map_by_pcp(120);
  world.said();
  int renewals = 0;
  while (world.said().empty()) {
    world.wait();
    renewals += static_cast<int>(world.sent().size());
    BOOST_REQUIRE(world.now <= kStart + 200s);
  }
  BOOST_TEST((world.now >= kStart + 120s));
  BOOST_TEST(renewals > 2 * kTries);
  BOOST_TEST(renewals < 40);
  // Asked anew, by PCP first: that was the last thing sent.
  world.wait();
  const auto asked = world.sent();
  BOOST_REQUIRE(asked.size() == 1U);
  BOOST_TEST(asked[0].size() == pcp::kSize);
}

BOOST_AUTO_TEST_CASE(a_refused_renewal_is_said_at_once) {
  World world;
  world.map_by_pcp();
  world.said();
  world.wait();
  const auto asked = world.sent();
  world.hear(pcp_answer(asked[0], 8, 30, "203.0.113.5", 7001));
  BOOST_TEST(world.said() == "none ipv4 PCP: it has no room for one more mapping\n");
  BOOST_TEST(world.sent().size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_router_that_was_started_anew_is_asked_at_once_but_not_by_everybody) {
  World world;
  world.map_by_pcp();
  world.said();
  world.now += 50s;
  for (int i = 0; i < 100; ++i) {
    world.mapper.restarted(world.now, world.out);
    world.now += 10ms;
  }
  auto asked = world.sent();
  BOOST_REQUIRE(asked.size() == 1U);
  world.hear(pcp_answer(asked[0], 0, 1200, "203.0.113.5", 7001));
  world.mapper.restarted(world.now, world.out);
  BOOST_TEST(world.sent().empty());
  world.now += kRestartedPause;
  world.mapper.restarted(world.now, world.out);
  BOOST_TEST(world.sent().size() == 1U);
}

BOOST_AUTO_TEST_CASE(the_mapping_is_removed_at_the_end) {
  World world;
  world.map_by_pcp();
  world.mapper.end(world.now, world.out);
  BOOST_TEST(!world.mapper.ended());
  const auto removal = world.sent();
  BOOST_REQUIRE(removal.size() == 1U);
  BOOST_TEST(std::to_integer<int>(removal[0][6]) + std::to_integer<int>(removal[0][7]) == 0);
  // An answer to a former request does not end it.
  world.hear(pcp_answer(removal[0], 0, 1200, "203.0.113.5", 7001));
  BOOST_TEST(!world.mapper.ended());
  world.hear(pcp_answer(removal[0], 0, 0, "203.0.113.5", 0));
  BOOST_TEST(world.mapper.ended());
  BOOST_TEST(!world.mapper.next_deadline().has_value());
}

BOOST_AUTO_TEST_CASE(a_router_that_is_silent_does_not_hold_up_the_end) {
  World world;
  world.map_by_pcp();
  const base::Time begun = world.now;
  world.mapper.end(world.now, world.out);
  while (!world.mapper.ended()) world.wait();
  BOOST_TEST((world.now - begun <= 2s));
  BOOST_TEST(world.sent().size() == static_cast<std::size_t>(kTries));
}

BOOST_AUTO_TEST_CASE(what_may_have_been_mapped_without_a_word_is_removed_too) {
  World world;
  world.sent();
  world.mapper.end(world.now, world.out);
  BOOST_TEST(world.sent().size() == 1U);
  BOOST_TEST(!world.mapper.ended());
  // Where there is nothing, nothing is said.
  World resting;
  resting.reach_upnp();
  resting.mapper.upnp_mapped(base::fail(base::ErrorCode::network, "none"), resting.now,
                             resting.out);
  resting.sent();
  resting.mapper.end(resting.now, resting.out);
  BOOST_TEST(resting.mapper.ended());
  BOOST_TEST(resting.sent().empty());
}

BOOST_AUTO_TEST_CASE(what_nat_pmp_and_upnp_map_is_removed_by_them) {
  World nat_pmp;
  for (int i = 0; i < kTries; ++i) nat_pmp.wait();
  nat_pmp.hear(nat_pmp_address("203.0.113.5"));
  nat_pmp.hear(nat_pmp_port(7003, 1200));
  nat_pmp.sent();
  nat_pmp.mapper.end(nat_pmp.now, nat_pmp.out);
  const auto removal = nat_pmp.sent();
  BOOST_REQUIRE(removal.size() == 1U);
  BOOST_TEST(removal[0].size() == 12U);
  nat_pmp.hear(nat_pmp_port(0, 0));
  BOOST_TEST(nat_pmp.mapper.ended());

  World upnp;
  upnp.reach_upnp();
  upnp.asked_upnp();
  upnp.mapper.upnp_mapped(upnp_mapping(), upnp.now, upnp.out);
  upnp.mapper.end(upnp.now, upnp.out);
  const auto asked = upnp.asked_upnp();
  BOOST_REQUIRE(asked.size() == 1U);
  BOOST_TEST(asked[0].remove);
  BOOST_TEST(asked[0].outer_port == 7002);
  upnp.mapper.upnp_removed(upnp.out);
  BOOST_TEST(upnp.mapper.ended());
}

BOOST_AUTO_TEST_CASE(ipv6_is_asked_for_by_pcp_alone) {
  World world(config("2001:db8::2"));
  const auto asked = world.sent();
  world.hear(pcp_answer(asked[0], 0, 1200, "2001:db8::2", 7000));
  BOOST_TEST(world.said() == "mapped pcp [2001:db8::2]:7000 1200\n");
  World silent(config("2001:db8::2"));
  for (int i = 0; i < kTries; ++i) silent.wait();
  BOOST_TEST(silent.said() == "none ipv6 PCP: no answer\n");
}

BOOST_AUTO_TEST_SUITE_END()
