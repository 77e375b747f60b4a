#include "io/ucx/fabric.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>
#include <unistd.h>

#include "harness.hpp"
#include "io/raw_address.hpp"
#include "io/ucx/loader.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::ucx;
using namespace starling::io::ucx::test;

namespace {

Loop make_loop() { return std::move(Loop::create().value()); }

// Of a SYN that is dropped nothing comes back: this long nothing is taken for nothing.
constexpr int kDroppedMs = 100;

/// Bytes that UCX takes for an order to write 16 bytes to any address of the process: after the
/// number that begins a connection, a message of kind "put" (uct_tcp_ep_put_req_hdr_t).
base::Bytes put_packet(const void* target) {
  struct __attribute__((packed)) {
    std::uint64_t magic = 0xCAFEBABE12345678;
    std::uint8_t kind = 33;
    std::uint32_t length = 20;
    std::uint64_t address = 0;
    std::uint64_t size = 16;
    std::uint32_t number = 1;
    std::array<char, 16> data{"WRITTEN-BY-OTHE"};
  } packet;
  packet.address = reinterpret_cast<std::uintptr_t>(target);
  base::Bytes bytes(sizeof packet);
  std::memcpy(bytes.data(), &packet, sizeof packet);
  return bytes;
}

std::string error_of(Loop& loop, const FabricConfig& config) {
  const auto started = Fabric::start(loop, config);
  return started ? "" : started.error().text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fabric)

BOOST_AUTO_TEST_CASE(bytes_come_in_order_and_the_end_after_them) {
  constexpr std::size_t kTotal = 8UL << 20;
  Pair pair;
  Carrier& from = *pair.client.carrier;
  Carrier& to = *pair.server.carrier;
  std::size_t sent = 0;
  std::size_t received = 0;
  bool in_order = true;
  std::uint64_t overhead = 0;
  BOOST_TEST(pair.run_until([&] {
    while (sent < kTotal && from.writable() > 0) {
      base::Bytes data(std::min({from.writable(), kTotal - sent, 1 + sent % 70'001}));
      for (std::byte& byte : data) byte = static_cast<std::byte>(sent++ % 251);
      from.send(std::move(data));
    }
    if (sent == kTotal && !from.end_sent()) static_cast<void>(from.send_end());
    while (to.readable()) {
      BOOST_REQUIRE(!to.ended());
      const base::Bytes data = to.take();
      BOOST_REQUIRE(data.size() <= kMessageMax);
      for (const std::byte byte : data) {
        in_order = in_order && byte == static_cast<std::byte>(received++ % 251);
      }
    }
    to.send_credit();
    overhead += from.take_overhead_sent();
    return to.ended();
  }));
  BOOST_TEST(in_order);
  BOOST_TEST(received == kTotal);
  // Every message's header counts, the end's, too.
  BOOST_TEST(overhead > 0U);
  BOOST_TEST(overhead == to.take_overhead_received());
  BOOST_TEST(from.writable() == 0U);
}

BOOST_AUTO_TEST_CASE(a_sender_stops_until_the_reader_takes) {
  Pair pair;
  Carrier& from = *pair.client.carrier;
  std::size_t sent = 0;
  BOOST_TEST(pair.run_until([&] {
    for (std::size_t room = 0; (room = from.writable()) > 0; sent += room) {
      from.send(base::Bytes(room));
    }
    return from.unconsumed() > (1U << 20) - 1000;
  }));
  BOOST_TEST(sent <= 1U << 20);
  BOOST_TEST(pair.run_until([&] {
    while (pair.server.carrier->readable()) static_cast<void>(pair.server.carrier->take());
    pair.server.carrier->send_credit();
    return from.writable() > 0;
  }));
}

BOOST_AUTO_TEST_CASE(an_aborted_carrier_fails_at_the_other_end) {
  Pair pair;
  pair.client.carrier->abort();
  BOOST_TEST(pair.run_until([&] {
    return pair.client.carrier->closed() &&
           pair.server.carrier->failure() == Carrier::Failure::network;
  }));
  BOOST_TEST(!pair.server.carrier->failure_text().empty());
}

BOOST_AUTO_TEST_CASE(a_loop_that_waits_is_woken_by_what_comes) {
  Pair pair;
  while (pair.client.fabric->progress() || pair.server.fabric->progress()) continue;
  BOOST_REQUIRE(pair.run_until([&] { return pair.server.fabric->arm(); }));
  pair.client.carrier->send(base::Bytes(10));
  bool late = false;
  Timer guard(pair.loop, [&] { late = true; });
  guard.start(kPatience);
  while (!pair.server.carrier->readable() && !late) {
    while (pair.client.fabric->progress()) continue;
    pair.loop.run_once();
  }
  BOOST_TEST(!late);
}

BOOST_AUTO_TEST_CASE(nobody_reaches_a_port_before_being_allowed) {
  Loop loop = make_loop();
  const base::PortRange range = free_ports(16);
  Side side(loop, range);
  const std::vector<std::uint16_t> ports = listening_ports();
  BOOST_REQUIRE(ports.size() == 2U);
  for (const std::uint16_t port : ports) {
    BOOST_TEST(range.has(port));
    BOOST_TEST(!connect_from(kLoopback, port, kDroppedMs).valid());
  }
  side.allow({kLoopback});
  for (const std::uint16_t port : ports) {
    BOOST_TEST(connect_from(kLoopback, port, 5'000).valid());
    BOOST_TEST(!connect_from(kStranger, port, kDroppedMs).valid());
  }
  side.allow({});
  for (const std::uint16_t port : ports) {
    BOOST_TEST(!connect_from(kLoopback, port, kDroppedMs).valid());
  }
}

BOOST_AUTO_TEST_CASE(a_stranger_writes_nothing_into_the_process) {
  Pair pair;
  std::array<char, 16> target{"untouched"};
  for (const std::uint16_t port : listening_ports()) {
    const base::Descriptor stranger = connect_from(kStranger, port, kDroppedMs);
    BOOST_TEST(!stranger.valid());
    const base::Bytes packet = put_packet(target.data());
    if (stranger.valid()) {
      BOOST_TEST(write(stranger.get(), packet.data(), packet.size()) > 0);
    }
  }
  int turns = 0;
  BOOST_TEST(pair.run_until([&] { return ++turns > 100; }));
  BOOST_TEST(target.data() == "untouched");
  // And a member's link still works.
  pair.client.carrier->send(base::Bytes(10));
  BOOST_TEST(pair.run_until([&] { return pair.server.carrier->readable(); }));
}

// Between the moment in which a port takes connections and the filter there must be none.
BOOST_AUTO_TEST_CASE(a_scanner_that_races_the_start_is_never_connected) {
  constexpr int kStarts = 10;
  const base::PortRange ports = free_ports(16);
  // One of these accepts everybody: so the scanner does find open ports.
  const base::Descriptor open(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const RawAddress address({kLoopback, ports.last});
  BOOST_REQUIRE(bind(open.get(), address.get(), address.size()) == 0);
  BOOST_REQUIRE(listen(open.get(), 4096) == 0);
  std::atomic<int> rounds = 0;
  std::atomic<int> found_open = 0;
  std::atomic<int> found_ucx = 0;
  std::jthread scanner([&](const std::stop_token& over) {
    while (!over.stop_requested()) {
      for (unsigned port = ports.first; port <= ports.last; ++port) {
        const bool ours = port < ports.first + 4U || port == ports.last;
        if (!ours || !connect_from(kStranger, static_cast<std::uint16_t>(port), 1).valid())
          continue;
        ++(port == ports.last ? found_open : found_ucx);
      }
      ++rounds;
    }
  });
  {
    Loop loop = make_loop();
    for (int i = 0; i < kStarts; ++i) {
      const Side side(loop, ports);
      const int begun = rounds;
      while (rounds < begun + 2) std::this_thread::yield();
    }
  }
  scanner.request_stop();
  scanner.join();
  BOOST_TEST(found_open > kStarts);
  BOOST_TEST(found_ucx == 0);
}

BOOST_AUTO_TEST_CASE(who_leaves_is_cut) {
  Pair pair;
  pair.server.allow({});
  pair.server.fabric->shut(kStranger);
  pair.client.carrier->send(base::Bytes(10));
  BOOST_REQUIRE(pair.run_until([&] { return pair.server.carrier->readable(); }));
  pair.client.allow({});
  pair.server.fabric->shut(kLoopback);
  pair.client.fabric->shut(kLoopback);
  BOOST_TEST(pair.run_until([&] {
    return pair.server.carrier->failure() == Carrier::Failure::network &&
           pair.client.carrier->failure() == Carrier::Failure::network;
  }));
}

// While UCX's own thread takes a connection, UCX must not go.
BOOST_AUTO_TEST_CASE(one_that_lets_somebody_in_lasts_until_it_is_quiet) {
  Loop loop = make_loop();
  auto side = std::make_unique<Side>(loop);
  side->allow({kLoopback});
  const base::Descriptor comes = connect_from(kLoopback, side->fabric->port(), 5'000);
  BOOST_REQUIRE(comes.valid());
  const base::Time before = Loop::now();
  side.reset();
  BOOST_TEST((Loop::now() >= before + kQuiet));
}

BOOST_AUTO_TEST_CASE(more_members_than_fit_are_an_error) {
  Loop loop = make_loop();
  Side side(loop);
  side.allow({kLoopback});
  BOOST_TEST(
      says(side.fabric->allow(std::vector<base::Ip>(1000)).error().text, "at most 256 members"));
  BOOST_TEST(connect_from(kLoopback, side.fabric->port(), 5'000).valid());
}

BOOST_AUTO_TEST_CASE(ports_come_from_the_range_and_may_run_out) {
  const base::PortRange four = free_ports(4);
  Loop loop = make_loop();
  {
    Side first(loop, four);
    Side second(loop, four);
    BOOST_TEST(four.has(first.fabric->port()));
    BOOST_TEST(four.has(second.fabric->port()));
    BOOST_TEST(says(error_of(loop, {"lo", kLoopback, four}),
                    fmt::format("no port from {} to {} is free", four.first, four.last)));
  }
  BOOST_TEST(error_of(loop, {"lo", kLoopback, four}) == "");
}

BOOST_AUTO_TEST_CASE(what_is_no_interface_is_an_error) {
  Loop loop = make_loop();
  BOOST_TEST(says(error_of(loop, {"starling9", kLoopback, {}}), "network interface starling9"));
  BOOST_TEST(says(error_of(loop, {"lo", kStranger, {}}), "listens on 127.0.0.1, port "));
  BOOST_TEST(listening_ports().empty());
}

BOOST_AUTO_TEST_CASE(ipv6_is_refused_where_ucx_is_not_to_be_trusted_with_it) {
  Loop loop = make_loop();
  const base::Ip loopback = ip("::1");
  const FabricConfig config{"lo", loopback, {}};
  if (!takes_ipv6(ucx_module().value()->version)) {
    BOOST_TEST(says(error_of(loop, config), "is not used with IPv6"));
    return;
  }
  Pair pair(loopback);
  for (const std::uint16_t port : listening_ports()) {
    BOOST_TEST(connect_from(loopback, port, 5'000).valid());
  }
  pair.server.allow({ip("::2"), kLoopback});
  for (const std::uint16_t port : {pair.server.fabric->port()}) {
    BOOST_TEST(!connect_from(loopback, port, kDroppedMs).valid());
  }
}

BOOST_AUTO_TEST_SUITE_END()
