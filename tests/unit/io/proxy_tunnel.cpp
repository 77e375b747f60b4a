#include "io/proxy_tunnel.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using io::HostPort;
using io::parse_proxy;
using io::ProxyConfig;
using io::ProxyTunnel;

namespace {

using namespace std::string_literals;

const HostPort kTarget{"peer.example", 7000};

base::ByteView view(std::string_view text) { return base::bytes_of(text.data(), text.size()); }

std::string said(ProxyTunnel& tunnel) {
  base::Bytes bytes;
  tunnel.output(bytes);
  return std::string(base::text_of(bytes));
}

ProxyTunnel through(const char* proxy, const HostPort& target = kTarget) {
  return {parse_proxy(proxy).value(), target};
}

/// The error text of this answer; fails the test if it is not an error.
std::string refusal(ProxyTunnel tunnel, const std::string& answer) {
  const auto status = tunnel.receive(view(answer));
  BOOST_REQUIRE_MESSAGE(!status.has_value(), "taken: " << answer);
  BOOST_TEST(status.error().text.starts_with("the proxy "), status.error().text);
  BOOST_TEST((status.error().code == base::ErrorCode::network));
  return status.error().text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A conversation: the expected bytes before each answer of the proxy.
struct Talk {
  std::vector<std::pair<std::string, std::string>> turns;
  std::string rest;  ///< of the target, in the last answer
};

/// All that the proxy says in pieces: its bytes are cut before `first` and before `second`.
void check_talk(ProxyTunnel tunnel, const Talk& talk, std::size_t first, std::size_t second) {
  std::size_t at = 0;
  for (const auto& [wanted, answer] : talk.turns) {
    BOOST_REQUIRE(said(tunnel) == wanted);
    BOOST_REQUIRE(!tunnel.established());
    std::size_t begin = 0;
    const auto piece = [&](std::size_t end) {
      if (end <= begin || end > answer.size()) return;
      const auto status = tunnel.receive(view(answer).subspan(begin, end - begin));
      BOOST_REQUIRE_MESSAGE(status.has_value(), (status ? "" : status.error().text));
      begin = end;
    };
    if (first > at) piece(first - at);
    if (second > at) piece(second - at);
    piece(answer.size());
    at += answer.size();
  }
  BOOST_REQUIRE(tunnel.established());
  BOOST_TEST(said(tunnel) == "");
  BOOST_TEST(std::string(base::text_of(tunnel.take_rest())) == talk.rest);
}

/// Every way to cut it into at most three pieces. The target's own bytes are in the last answer,
/// and never come alone: once established, the connection is not the tunnel's any more.
void check_every_split(const ProxyTunnel& tunnel, const Talk& talk) {
  std::size_t size = 0;
  for (const auto& [wanted, answer] : talk.turns) size += answer.size();
  size -= talk.rest.size();
  for (std::size_t first = 0; first < size; ++first) {
    for (std::size_t second = first; second < size; ++second) {
      check_talk(tunnel, talk, first, second);
    }
  }
}

const std::string kGranted = "\x05\x00\x00\x01\x7f\x00\x00\x01\x1f\x90"s;

}  // namespace

BOOST_AUTO_TEST_SUITE(proxy_tunnel)

BOOST_AUTO_TEST_CASE(socks_takes_names_and_both_kinds_of_addresses) {
  const std::string request = "\x05\x01\x00"s;
  const auto check = [&](const HostPort& target, const std::string& coded) {
    check_every_split(
        through("socks5://proxy", target),
        {{{"\x05\x01\x00"s, "\x05\x00"s}, {request + coded, kGranted + "hello"}}, "hello"});
  };
  check(kTarget, "\x03\x0cpeer.example\x1b\x58"s);
  check({"192.0.2.1", 443}, "\x01\xc0\x00\x02\x01\x01\xbb"s);
  check({"2001:db8::1", 1},
        "\x04\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01"s);
}

BOOST_AUTO_TEST_CASE(socks_answers_with_any_kind_of_address_are_read_to_their_end) {
  for (const std::string& granted :
       {"\x05\x00\x00\x04"s + std::string(16, 'a') + "\x00\x01"s,
        "\x05\x00\x00\x03\x04"s + "host" + "\x00\x01"s, "\x05\x00\x00\x03\x00\x00\x01"s}) {
    check_every_split(through("socks5://proxy", {"192.0.2.1", 443}),
                      {{{"\x05\x01\x00"s, "\x05\x00"s},
                        {"\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb"s, granted + "x"}},
                       "x"});
  }
}

BOOST_AUTO_TEST_CASE(socks_login_is_made_where_it_is_asked_for) {
  const std::string offer = "\x05\x02\x00\x02"s;
  const std::string request = "\x05\x01\x00\x03\x0cpeer.example\x1b\x58"s;
  check_every_split(
      through("socks5://me:word@proxy"),
      {{{offer, "\x05\x02"s}, {"\x01\x02me\x04word"s, "\x01\x00"s}, {request, kGranted}}, ""});
  check_every_split(through("socks5://me:word@proxy"),
                    {{{offer, "\x05\x00"s}, {request, kGranted}}, ""});
}

BOOST_AUTO_TEST_CASE(connect_says_the_target_and_the_login) {
  const std::string connect = "CONNECT peer.example:7000 HTTP/1.1\r\nHost: peer.example:7000\r\n";
  const std::string granted = "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
  check_every_split(through("http://proxy:3128"),
                    {{{connect + "\r\n", granted + "hello"}}, "hello"});
  check_every_split(
      through("http://user:pass@proxy:3128"),
      {{{connect + "Proxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n"}},
       ""});
  ProxyTunnel numeric = through("http://a:b@proxy:3128", {"2001:db8::1", 7000});
  BOOST_TEST(said(numeric) ==
             "CONNECT [2001:db8::1]:7000 HTTP/1.1\r\nHost: [2001:db8::1]:7000\r\n"
             "Proxy-Authorization: Basic YTpi\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(a_socks_refusal_says_why_and_what_to_do) {
  BOOST_TEST(has(refusal(through("socks5://proxy"), "\x05\xff"s), "wants a login; give it a user"));
  BOOST_TEST(has(refusal(through("socks5://a:b@proxy"), "\x05\xff"s), "takes no login by user"));
  BOOST_TEST(has(refusal(through("socks5://a:b@proxy"), "\x05\x02\x01\x01"s), "are they right?"));
  BOOST_TEST(has(refusal(through("socks5://proxy"), "\x05\x00\x05\x02"s), "rules do not allow"));
  BOOST_TEST(has(refusal(through("socks5://proxy"), "\x05\x00\x05\x05\x00\x01"s), "refused there"));
  BOOST_TEST(has(refusal(through("socks5://proxy"), "\x05\x00\x05\x63"s), "error 99"));
}

BOOST_AUTO_TEST_CASE(socks_garbage_is_refused) {
  BOOST_TEST(has(refusal(through("socks5://proxy"), "HTTP/1.1 400"), "write http:// before"));
  BOOST_TEST(has(refusal(through("socks5://proxy"), "\x04\x00"s), "does not speak SOCKS 5"));
  BOOST_TEST(has(refusal(through("socks5://proxy"), "\x05\x02"s), "was not offered (2)"));
  BOOST_TEST(has(refusal(through("socks5://a:b@proxy"), "\x05\x01"s), "was not offered (1)"));
  BOOST_TEST(has(refusal(through("socks5://proxy"), "\x05\x00\x00"s), "not one of SOCKS 5"));
  BOOST_TEST(has(refusal(through("socks5://proxy"), "\x05\x00\x05\x00\x00\x02\x00"s), "of a kind"));
}

BOOST_AUTO_TEST_CASE(an_http_refusal_says_why_and_what_to_do) {
  const std::string denied = "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
  const std::string asked = refusal(through("http://proxy"), denied);
  BOOST_TEST(has(asked, "wants a login: \"HTTP/1.1 407 Proxy Auth"), asked);
  BOOST_TEST(has(asked, "http://USER:PASSWORD@HOST:PORT"), asked);
  const std::string wrong = refusal(through("http://me:secret@proxy"), denied);
  BOOST_TEST(has(wrong, "refuses this user and password"), wrong);
  BOOST_TEST(!has(wrong, "secret"), wrong);
  const std::string forbidden =
      refusal(through("http://proxy"), "HTTP/1.1 403 \x1b[31mForbidden\r\n\r\n");
  BOOST_TEST(has(forbidden, "\"HTTP/1.1 403 ?[31mForbidden\"; does it allow CONNECT to port 7000?"),
             forbidden);
}

BOOST_AUTO_TEST_CASE(http_garbage_is_refused) {
  for (const char* answer : {"SSH-2.0-OpenSSH", "HTTP/2 200\r\n\r\n", "\x05", "\r\n\r\n"}) {
    BOOST_TEST(has(refusal(through("http://proxy"), answer), "does not speak HTTP"), answer);
  }
  for (const char* answer : {"HTTP/1.1\r\n\r\n", "HTTP/1.1 OK\r\n\r\n", "HTTP/1.1 20\r\n\r\n",
                             "HTTP/1.1 -20 x\r\n\r\n", "HTTP/1.1x200 OK\r\n\r\n"}) {
    const auto text = refusal(through("http://proxy"), answer);
    BOOST_TEST((has(text, "not one of HTTP") || has(text, "refuses: ")), text);
  }
}

BOOST_AUTO_TEST_CASE(a_header_without_an_end_is_given_up) {
  ProxyTunnel tunnel = through("http://proxy");
  BOOST_REQUIRE(tunnel.receive(view("HTTP/1.1 200 OK\r\n")).has_value());
  std::size_t taken = 0;
  while (tunnel.receive(view("X-More: header\r\n")).has_value()) taken += 16;
  BOOST_TEST(taken < io::kProxyAnswerMax);
  // Its end beyond the bound does not help.
  const std::string late = "HTTP/1.1 200 OK\r\nX: " + std::string(io::kProxyAnswerMax, 'x');
  BOOST_TEST(has(refusal(through("http://proxy"), late + "\r\n\r\n"), "longer than 8192 bytes"));
  // The target's bytes after the header do not belong to the header.
  ProxyTunnel busy = through("http://proxy");
  const std::string much(4 * io::kProxyAnswerMax, 'y');
  BOOST_REQUIRE(busy.receive(view("HTTP/1.1 200 OK\r\n\r\n" + much)).has_value());
  BOOST_TEST(busy.take_rest().size() == much.size());
}

BOOST_AUTO_TEST_CASE(an_early_end_names_the_proxy) {
  const ProxyTunnel tunnel = through("socks5://me:secret@proxy:9");
  BOOST_TEST(has(tunnel.ended("").text,
                 "the proxy socks5://proxy:9, on the way to "
                 "peer.example:7000: it ended the connection"));
  BOOST_TEST(has(tunnel.ended("connection refused").text, "connection refused"));
}

BOOST_AUTO_TEST_SUITE_END()
