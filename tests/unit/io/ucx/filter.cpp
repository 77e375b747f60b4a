#include "io/ucx/filter.hpp"

#include <algorithm>
#include <span>
#include <string>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

#include "harness.hpp"

using namespace starling;
using namespace starling::io::ucx;
using starling::io::ucx::test::ip;

namespace {

using Packet = std::vector<std::uint8_t>;

Packet packet_from(const std::string& source) {
  const base::Ip ip = base::Ip::parse(source).value();
  Packet packet(60);
  packet[0] = ip.is_v6() ? 0x60 : 0x45;
  std::ranges::copy(ip.bytes(), packet.begin() + (ip.is_v6() ? 8 : 12));
  return packet;
}

// As the kernel runs a filter, for the instructions that are in use: bytes that pass.
std::uint32_t run(const std::vector<sock_filter>& program, const Packet& packet) {
  std::uint32_t accumulator = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const sock_filter& one = program[at];
    const std::uint32_t offset = one.k - static_cast<std::uint32_t>(SKF_NET_OFF);
    switch (one.code) {
      case BPF_LD | BPF_B | BPF_ABS:
        accumulator = packet.at(offset);
        break;
      case BPF_LD | BPF_W | BPF_ABS:
        accumulator = 0;
        for (std::size_t i = 0; i < 4; ++i) {
          accumulator = (accumulator << 8) | packet.at(offset + i);
        }
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= one.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += accumulator == one.k ? one.jt : one.jf;
        break;
      case BPF_RET | BPF_K:
        return one.k;
      default:
        BOOST_FAIL("an instruction that this does not know");
    }
  }
  BOOST_FAIL("a filter without an end");
  return 0;
}

bool passes(bool v6, const std::vector<base::Ip>& allowed, const std::string& source) {
  return run(filter_for(v6, allowed), packet_from(source)) != 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(filter)

BOOST_AUTO_TEST_CASE(members_pass_and_nobody_else) {
  const std::vector<base::Ip> members{ip("10.1.2.3"), ip("2001:db8::1"), ip("10.1.2.4"),
                                      ip("2001:db8:0:1::2")};
  for (const char* source : {"10.1.2.3", "10.1.2.4"}) BOOST_TEST(passes(false, members, source));
  for (const char* source : {"10.1.2.5", "3.2.1.10", "127.0.0.1", "0.0.0.0"}) {
    BOOST_TEST(!passes(false, members, source));
  }
  for (const char* source : {"2001:db8::1", "2001:db8:0:1::2"}) {
    BOOST_TEST(passes(true, members, source));
  }
  // Each differs from a member in one word of four, or mixes two.
  for (const char* source : {"2001:db9::1", "2001:db8:0:2::2", "2001:db8:0:1:1::2", "2001:db8::2",
                             "2001:db8:0:1::1", "::1", "::"}) {
    BOOST_TEST(!passes(true, members, source));
  }
}

BOOST_AUTO_TEST_CASE(without_members_nothing_passes) {
  BOOST_TEST(!passes(false, {}, "127.0.0.1"));
  BOOST_TEST(!passes(true, {}, "::1"));
  BOOST_TEST(!passes(false, {ip("::1")}, "0.0.0.1"));
}

BOOST_AUTO_TEST_CASE(a_packet_of_the_other_family_never_passes) {
  // IPv4 on an IPv6 socket: the source would be read at the wrong place.
  Packet packet = packet_from("10.0.0.1");
  const base::Ip lookalike = base::Ip::of_bytes(std::span(packet).subspan(8, 16)).value();
  const std::vector<base::Ip> members{lookalike, ip("0.0.0.0")};
  BOOST_TEST(run(filter_for(true, members), packet) == 0U);
  BOOST_TEST(run(filter_for(false, members), packet_from("::1")) == 0U);
}

BOOST_AUTO_TEST_CASE(as_many_as_are_allowed_fit) {
  for (const bool v6 : {false, true}) {
    std::vector<base::Ip> members;
    for (std::size_t i = 0; i < kAllowedMax; ++i) {
      members.push_back(
          ip(v6 ? fmt::format("2001:db8::{:x}", i + 1) : fmt::format("10.0.1.{}", i)));
    }
    const auto program = filter_for(v6, members);
    BOOST_TEST(program.size() <= static_cast<std::size_t>(BPF_MAXINSNS));
    for (const base::Ip& member : members)
      BOOST_TEST(run(program, packet_from(member.text())) != 0U);
    BOOST_TEST(run(program, packet_from(v6 ? "2001:db8::1:1" : "10.0.2.1")) == 0U);
  }
}

BOOST_AUTO_TEST_SUITE_END()
