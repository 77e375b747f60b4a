#include <string>
#include <string_view>

#include <boost/test/unit_test.hpp>

#include "io/router/messages.hpp"

using namespace starling;
using namespace starling::io::router;

namespace {

const Nonce kNonce{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

PortRequest request(const char* own = "192.168.1.2") {
  return {.own = base::Ip::parse(own).value(),
          .port = 7000,
          .outer = {},
          .outer_port = 7000,
          .lifetime = 1200};
}

std::string hex(const base::Bytes& bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

base::Bytes bytes_of(std::string_view hex_text) {
  base::Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex_text.size(); i += 2) {
    bytes.push_back(
        static_cast<std::byte>(std::stoi(std::string(hex_text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

/// A PCP answer: version, operation, result, lifetime 1200, epoch, 203.0.113.5:7001.
base::Bytes pcp_answer(std::string_view head = "02810000") {
  return bytes_of(std::string(head) + "000004b0" + "00000010" + std::string(24, '0') +
                  "0102030405060708090a0b0c" + "06000000" + "1b58" + "1b59" +
                  "00000000000000000000ffffcb007105");
}

template <class Kind>
bool is(const PortReply& reply) {
  return std::holds_alternative<Kind>(reply);
}

std::string refusal(const PortReply& reply) {
  BOOST_REQUIRE(is<RouterRefusal>(reply));
  return std::get<RouterRefusal>(reply).text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(router_messages)

// RFC 6887, sections 7.1 and 11.1.
BOOST_AUTO_TEST_CASE(pcp_requests_are_as_the_rfc_has_them) {
  BOOST_TEST(hex(pcp::pack(request(), kNonce)) ==
             "02010000000004b000000000000000000000ffffc0a80102"
             "0102030405060708090a0b0c06000000"
             "1b581b5800000000000000000000ffff00000000");
  PortRequest again = request();
  again.outer = base::Ip::parse("203.0.113.5").value();
  again.outer_port = 7001;
  again.lifetime = 0;
  BOOST_TEST(hex(pcp::pack(again, kNonce)) ==
             "020100000000000000000000000000000000ffffc0a80102"
             "0102030405060708090a0b0c06000000"
             "1b581b5900000000000000000000ffffcb007105");
  BOOST_TEST(hex(pcp::pack(request("2001:db8::1"), kNonce)).substr(80) ==
             "1b581b5800000000000000000000000000000000");
}

BOOST_AUTO_TEST_CASE(a_pcp_answer_says_the_outer_address_and_the_lifetime) {
  const PortReply reply = pcp::unpack(pcp_answer(), request(), kNonce);
  BOOST_REQUIRE(is<PortAnswer>(reply));
  const auto& answer = std::get<PortAnswer>(reply);
  BOOST_TEST(to_string(base::IpPort{answer.outer, answer.outer_port}) == "203.0.113.5:7001");
  BOOST_TEST(answer.lifetime == 1200U);
  // Options may follow.
  base::Bytes longer = pcp_answer();
  longer.resize(100);
  BOOST_TEST(is<PortAnswer>(pcp::unpack(longer, request(), kNonce)));
}

BOOST_AUTO_TEST_CASE(a_pcp_refusal_is_told_from_another_version) {
  BOOST_TEST(refusal(pcp::unpack(pcp_answer("02810002"), request(), kNonce))
                 .starts_with("not authorized"));
  BOOST_TEST(refusal(pcp::unpack(pcp_answer("028100ff"), request(), kNonce)) == "error 255");
  base::Bytes brief = pcp_answer("02810003");
  brief.resize(24);
  BOOST_TEST(refusal(pcp::unpack(brief, request(), kNonce)) == "malformed request");
  BOOST_TEST(is<OtherVersion>(pcp::unpack(pcp_answer("02810001"), request(), kNonce)));
  // The answer of a router that knows only NAT-PMP (RFC 6886, section 3.5).
  BOOST_TEST(is<OtherVersion>(pcp::unpack(bytes_of("0081000100000010"), request(), kNonce)));
}

BOOST_AUTO_TEST_CASE(what_is_no_pcp_answer_to_this_request_is_passed_over) {
  const base::Bytes good = pcp_answer();
  for (std::size_t size = 0; size < good.size(); ++size) {
    BOOST_TEST(is<Foreign>(pcp::unpack(base::ByteView(good).first(size), request(), kNonce)), size);
  }
  base::Bytes odd = good;
  odd.resize(good.size() + 1);
  BOOST_TEST(is<Foreign>(pcp::unpack(odd, request(), kNonce)));
  odd.resize(kAnswerMax + 2);
  BOOST_TEST(is<Foreign>(pcp::unpack(odd, request(), kNonce)));
  // Operation, nonce, protocol, port: one bit of each.
  for (const std::size_t at : {1UL, 24UL, 35UL, 36UL, 40UL, 41UL}) {
    base::Bytes wrong = good;
    wrong[at] ^= std::byte{1};
    BOOST_TEST(is<Foreign>(pcp::unpack(wrong, request(), kNonce)), at);
    // Nobody else's refusal counts, either.
    wrong[3] = std::byte{2};
    BOOST_TEST(is<Foreign>(pcp::unpack(wrong, request(), kNonce)), at);
  }
  // A request that comes back.
  BOOST_TEST(is<Foreign>(pcp::unpack(pcp::pack(request(), kNonce), request(), kNonce)));
}

// RFC 6886, sections 3.2 and 3.3.
BOOST_AUTO_TEST_CASE(nat_pmp_asks_and_reads_both_answers) {
  BOOST_TEST(hex(nat_pmp::pack_address_request()) == "0000");
  BOOST_TEST(hex(nat_pmp::pack(request())) == "000200001b581b58000004b0");
  PortRequest removal = request();
  removal.lifetime = 0;
  BOOST_TEST(hex(nat_pmp::pack(removal)) == "000200001b58000000000000");

  const PortReply address = nat_pmp::unpack_address(bytes_of("0080000000000010cb007105"));
  BOOST_REQUIRE(is<PortAnswer>(address));
  BOOST_TEST(std::get<PortAnswer>(address).outer.text() == "203.0.113.5");
  const PortReply port = nat_pmp::unpack(bytes_of("00820000000000101b581b59000004b0"), request());
  BOOST_REQUIRE(is<PortAnswer>(port));
  BOOST_TEST(std::get<PortAnswer>(port).outer_port == 7001);
  BOOST_TEST(std::get<PortAnswer>(port).lifetime == 1200U);
}

BOOST_AUTO_TEST_CASE(nat_pmp_refusals_and_garbage) {
  BOOST_TEST(refusal(nat_pmp::unpack(bytes_of("0082000300000010"), request())) ==
             "its own line has no connection");
  BOOST_TEST(refusal(nat_pmp::unpack_address(bytes_of("0080000900000010"))) == "error 9");
  BOOST_TEST(is<OtherVersion>(nat_pmp::unpack(bytes_of("0082000100000010"), request())));
  const base::Bytes good = bytes_of("00820000000000101b581b59000004b0");
  for (std::size_t size = 0; size < good.size(); ++size) {
    BOOST_TEST(is<Foreign>(nat_pmp::unpack(base::ByteView(good).first(size), request())), size);
    BOOST_TEST(is<Foreign>(nat_pmp::unpack_address(base::ByteView(good).first(size))), size);
  }
  for (const std::size_t at : {0UL, 1UL, 8UL, 9UL}) {
    base::Bytes wrong = good;
    wrong[at] ^= std::byte{1};
    BOOST_TEST(is<Foreign>(nat_pmp::unpack(wrong, request())), at);
  }
  base::Bytes longer = good;
  longer.resize(good.size() + 4);
  BOOST_TEST(is<Foreign>(nat_pmp::unpack(longer, request())));
}

BOOST_AUTO_TEST_SUITE_END()
