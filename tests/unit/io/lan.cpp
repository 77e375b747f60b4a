#include "io/lan.hpp"

#include <vector>

#include <boost/test/unit_test.hpp>

#include "harness.hpp"
#include "io/address.hpp"

using namespace std::chrono_literals;
using namespace starling;
using io::Announcement;
using io::Lan;
using io::Loop;

namespace {

Announcement announcement(std::uint8_t peer, std::uint8_t run = 1) {
  Announcement made{.port = static_cast<std::uint16_t>(1000 + peer)};
  made.id.bytes[0] = peer;
  made.run.bytes[0] = run;
  return made;
}

/// A UDP port that was free a moment ago.
std::uint16_t free_port() {
  const int probe = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  BOOST_REQUIRE(bind(probe, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
  socklen_t size = sizeof any;
  BOOST_REQUIRE(getsockname(probe, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  close(probe);
  return ntohs(any.sin_port);
}

struct Listener {
  Listener(Loop& loop, const Announcement& own, std::uint16_t port) {
    auto made = Lan::create(loop, own, base::Ip::any_v6(), port,
                            [this](const base::PeerId& peer, const std::string& at) {
                              peers.push_back(peer);
                              addresses.push_back(at);
                            });
    BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().text));
    lan = std::move(*made);
  }

  void hear(const Announcement& heard, const char* ip, base::Time now) {
    lan->receive(io::pack(heard), base::Ip::parse(ip).value(), now);
  }

  std::vector<base::PeerId> peers;
  std::vector<std::string> addresses;
  std::unique_ptr<Lan> lan;
};

constexpr base::Time kStart{std::chrono::seconds(100)};

}  // namespace

BOOST_AUTO_TEST_SUITE(lan)

BOOST_AUTO_TEST_CASE(an_announcement_comes_back_as_it_was_and_damaged_ones_do_not) {
  const auto bytes = io::pack(announcement(7));
  const auto back = io::unpack_announcement(bytes);
  BOOST_REQUIRE(back.has_value());
  BOOST_TEST((back->id == announcement(7).id));
  BOOST_TEST((back->run == announcement(7).run));
  BOOST_TEST(back->port == 1007);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    BOOST_TEST(!io::unpack_announcement(flipped).has_value(), "bit " << bit);
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    BOOST_TEST(!io::unpack_announcement(base::ByteView(bytes).first(size)).has_value());
  }
}

BOOST_AUTO_TEST_CASE(two_peers_of_a_run_on_one_machine_hear_each_other_and_not_themselves) {
  Loop loop = io::test::make_loop();
  const std::uint16_t port = free_port();
  Listener a(loop, announcement(1), port);
  Listener b(loop, announcement(2), port);
  Listener stranger(loop, announcement(3, 9), port);
  BOOST_TEST(io::test::run_until(loop, [&] {
    return a.lan->heard_any() && b.lan->heard_any() &&
           stranger.lan->diagnosis().find("other runs") != std::string::npos;
  }));
  for (const base::PeerId& peer : a.peers) BOOST_TEST((peer == announcement(2).id));
  for (const base::PeerId& peer : b.peers) BOOST_TEST((peer == announcement(1).id));
  BOOST_TEST(a.addresses.at(0).ends_with(":1002"));
  BOOST_TEST(stranger.peers.empty());
}

BOOST_AUTO_TEST_CASE(a_peer_is_told_once_in_a_while_and_a_flood_is_cut_off) {
  Loop loop = io::test::make_loop();
  Listener own(loop, announcement(1), free_port());
  own.hear(announcement(2), "10.0.0.2", kStart);
  own.hear(announcement(2), "10.0.0.2", kStart + 1s);
  BOOST_TEST(own.addresses == std::vector<std::string>{"10.0.0.2:1002"},
             boost::test_tools::per_element());
  own.hear(announcement(2), "10.0.0.2", kStart + io::kLanAgain);
  BOOST_TEST(own.addresses.size() == 2U);

  const base::Time later = kStart + 100s;
  for (int i = 0; i < 10 * io::kLanHeardPerSecond; ++i) {
    Announcement fake = announcement(3);
    fake.id.bytes[1] = static_cast<std::uint8_t>(i);
    fake.id.bytes[2] = static_cast<std::uint8_t>(i >> 8);
    own.hear(fake, "10.0.0.3", later);
  }
  BOOST_TEST(own.addresses.size() == 2U + static_cast<std::size_t>(io::kLanHeardPerSecond));
  for (int i = 0; i < 2 * static_cast<int>(io::kLanPeersMax); ++i) {
    Announcement fake = announcement(4);
    fake.id.bytes[1] = static_cast<std::uint8_t>(i);
    fake.id.bytes[2] = static_cast<std::uint8_t>(i >> 8);
    own.hear(fake, "10.0.0.4", later + 1s + i * 7ms / 2);
  }
  BOOST_TEST(own.addresses.size() > io::kLanPeersMax + 200U);
  BOOST_TEST(own.lan->remembered() <= io::kLanPeersMax);
}

// Six bursts, each at the limit of its second, within the time that senders are remembered for: the
// first one comes late in its second.
BOOST_AUTO_TEST_CASE(no_more_senders_are_remembered_than_it_says_however_they_come) {
  Loop loop = io::test::make_loop();
  Listener own(loop, announcement(1), free_port());
  for (int i = 0; i < 6 * io::kLanHeardPerSecond; ++i) {
    Announcement fake = announcement(3);
    fake.id.bytes[1] = static_cast<std::uint8_t>(i);
    fake.id.bytes[2] = static_cast<std::uint8_t>(i >> 8);
    const int burst = i / io::kLanHeardPerSecond;
    own.hear(fake, "10.0.0.3", kStart + burst * 1s + (burst == 0 && i > 0 ? 900ms : 0ms));
  }
  BOOST_TEST(own.lan->remembered() <= io::kLanPeersMax);
}

BOOST_AUTO_TEST_CASE(who_announces_the_id_of_another_does_not_hide_it) {
  Loop loop = io::test::make_loop();
  Listener own(loop, announcement(1), free_port());
  own.hear(announcement(2), "10.0.0.66", kStart);
  own.hear(announcement(2), "10.0.0.2", kStart);
  BOOST_REQUIRE(own.addresses.size() == 2U);
  BOOST_TEST(own.addresses[1] == "10.0.0.2:1002");
}

BOOST_AUTO_TEST_CASE(who_is_heard_by_ipv6_is_dialed_over_the_interface_it_was_heard_on) {
  Loop loop = io::test::make_loop();
  Listener own(loop, announcement(1), free_port());
  const auto from = io::numeric_address({"fe80::2%lo", 9}).value().ip;
  own.lan->receive(io::pack(announcement(2)), from, kStart);
  BOOST_REQUIRE(own.addresses.size() == 1U);
  BOOST_TEST(own.addresses[0] == "[fe80::2%lo]:1002");
  BOOST_TEST((io::parse_target(own.addresses[0]).value() == io::HostPort{"fe80::2%lo", 1002}));
}

BOOST_AUTO_TEST_CASE(both_families_share_the_bounds) {
  Loop loop = io::test::make_loop();
  Listener own(loop, announcement(1), free_port());
  for (int i = 0; i < 2 * io::kLanHeardPerSecond; ++i) {
    Announcement fake = announcement(3);
    fake.id.bytes[1] = static_cast<std::uint8_t>(i);
    fake.id.bytes[2] = static_cast<std::uint8_t>(i >> 8);
    const char* ip = i % 2 == 0 ? "10.0.0.3" : "2001:db8::3";
    own.lan->receive(io::pack(fake), base::Ip::parse(ip).value(), kStart);
  }
  BOOST_TEST(own.addresses.size() == static_cast<std::size_t>(io::kLanHeardPerSecond));
}

BOOST_AUTO_TEST_CASE(announcements_go_where_a_family_has_an_address) {
  for (const auto& interface : io::lan_interfaces()) {
    BOOST_TEST((interface.address.is_v4() || interface.address.is_link_local()));
    BOOST_TEST((interface.address.is_v4() || interface.address.interface() != 0));
    BOOST_TEST((interface.address.is_v4() || !interface.broadcast));
  }
}

BOOST_AUTO_TEST_CASE(it_says_why_it_heard_nobody) {
  Loop loop = io::test::make_loop();
  const std::uint16_t port = free_port();
  Listener own(loop, announcement(1), port);
  BOOST_TEST(own.lan->diagnosis().find("nobody") != std::string::npos);
  const std::string noise = "hello";
  own.lan->receive(base::bytes_of(noise.data(), noise.size()), base::Ip::parse("10.0.0.9").value(),
                   kStart);
  BOOST_TEST(own.lan->diagnosis().find("version 1") != std::string::npos);
  own.hear(announcement(2, 9), "10.0.0.2", kStart);
  BOOST_TEST(own.lan->diagnosis().find("10.0.0.2 (run 09") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_port_that_another_program_keeps_for_itself_is_named) {
  const int taken = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  BOOST_REQUIRE(bind(taken, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
  socklen_t size = sizeof any;
  BOOST_REQUIRE(getsockname(taken, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  Loop loop = io::test::make_loop();
  const auto made = Lan::create(loop, announcement(1), base::Ip(), ntohs(any.sin_port),
                                [](const auto&, const auto&) {});
  BOOST_REQUIRE(!made.has_value());
  BOOST_TEST(made.error().text.find("another program does not share it") != std::string::npos);
  close(taken);
}

BOOST_AUTO_TEST_SUITE_END()
