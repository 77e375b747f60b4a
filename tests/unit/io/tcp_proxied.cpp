// TcpDial through a proxy, with real sockets.
#include <memory>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "harness.hpp"
#include "io/tcp_dial.hpp"
#include "names.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

base::Bytes bytes_of(const std::string& text) {
  const auto view = base::bytes_of(text.data(), text.size());
  return {view.begin(), view.end()};
}

std::string text_of(const base::Bytes& bytes) { return std::string(base::text_of(bytes)); }

/// A small proxy that says `answers` in turn, one for each thing that it hears, and is then a pipe
/// to wherever it was made to lead: a listener of the test.
class SmallProxy {
 public:
  SmallProxy(Loop& loop, std::vector<std::string> answers, HostPort leads_to)
      : loop_(loop),
        answers_(std::move(answers)),
        leads_to_(std::move(leads_to)),
        listener_(TcpListener::create(loop, numeric_address({"127.0.0.1", 0}).value()).value()) {}

  [[nodiscard]] std::string address() const { return listener_->address(); }

  void pump() {
    for (auto& stream : listener_->take()) client_ = std::move(stream);
    if (!client_) return;
    if (target_) {
      if (!target_->connected()) return;
      if (auto up = client_->take(); !up.empty()) target_->send(std::move(up));
      if (auto down = target_->take(); !down.empty()) client_->send(std::move(down));
      return;
    }
    const base::Bytes bytes = client_->take();
    if (bytes.empty()) return;
    heard += text_of(bytes);
    if (answers_.empty()) {
      client_.reset();  // hangs up
      return;
    }
    client_->send(bytes_of(answers_.front()));
    answers_.erase(answers_.begin());
    if (answers_.empty() && !leads_to_.host.empty()) {
      target_ = TcpStream::connect(loop_, numeric_address(leads_to_).value()).value();
    }
  }

  std::string heard;

 private:
  Loop& loop_;
  std::vector<std::string> answers_;
  HostPort leads_to_;
  std::unique_ptr<TcpListener> listener_;
  std::unique_ptr<TcpStream> client_;
  std::unique_ptr<TcpStream> target_;
};

struct Proxied {
  ~Proxied() { fake_names.clear(); }

  std::optional<ProxyConfig> proxy(const std::string& scheme, const SmallProxy& at) {
    return parse_proxy(scheme + "://" + at.address()).value();
  }

  TcpDial::State end_of(TcpDial& dial, SmallProxy& through) {
    BOOST_TEST(run_until(loop, [&] {
      through.pump();
      return dial.pump() != TcpDial::State::working;
    }));
    return dial.pump();
  }

  Loop loop = make_loop();
  Resolver resolver{loop};
  std::unique_ptr<TcpListener> target =
      TcpListener::create(loop, numeric_address({"127.0.0.1", 0}).value()).value();
  HostPort place = parse_target(target->address()).value();
};

using namespace std::string_literals;

const std::string kMethod = "\x05\x00"s;
const std::string kGranted = "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"s;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tcp_proxied, Proxied)

BOOST_AUTO_TEST_CASE(bytes_pass_both_ways_and_the_name_is_for_the_proxy_to_look_up) {
  // "peer.invalid" is known to no name server here.
  struct Case {
    const char* scheme;
    std::vector<std::string> answers;
    std::string name_said;
  };
  for (const Case& one :
       {Case{"socks5h", {kMethod, kGranted}, "\x0cpeer.invalid"s},
        Case{"http", {"HTTP/1.1 200 OK\r\n\r\n"}, "CONNECT peer.invalid:7000 HTTP/1.1\r\n"}}) {
    SmallProxy small(loop, one.answers, place);
    TcpDial dial(resolver, {"peer.invalid", 7000}, proxy(one.scheme, small));
    BOOST_REQUIRE((end_of(dial, small) == TcpDial::State::connected));
    BOOST_TEST(small.heard.find(one.name_said) != std::string::npos);
    const auto connection = dial.take_connection();
    connection->send(bytes_of("question"));
    std::unique_ptr<TcpStream> accepted;
    std::string up;
    std::string down;
    BOOST_TEST(run_until(loop, [&] {
      small.pump();
      for (auto& stream : target->take()) accepted = std::move(stream);
      if (accepted) {
        const std::string heard = text_of(accepted->take());
        if (!heard.empty()) accepted->send(bytes_of("answer to " + heard));
        up += heard;
      }
      down += text_of(connection->take());
      return down == "answer to question";
    }));
    BOOST_TEST(up == "question");
  }
}

BOOST_AUTO_TEST_CASE(what_the_target_says_at_once_is_not_lost) {
  SmallProxy small(loop, {"HTTP/1.1 200 OK\r\n\r\nwelcome"}, {});
  TcpDial dial(resolver, {"peer.invalid", 7000}, proxy("http", small));
  BOOST_REQUIRE((end_of(dial, small) == TcpDial::State::connected));
  BOOST_TEST(text_of(dial.take_connection()->take()) == "welcome");
}

BOOST_AUTO_TEST_CASE(this_machine_and_what_no_proxy_names_are_dialed_directly) {
  ProxyConfig nowhere = parse_proxy("socks5://127.0.0.1:1").value();
  nowhere.no_proxy = {"invalid"};
  fake_names["direct.invalid"] = {"127.0.0.1"};
  for (const std::string host : {"127.0.0.1", "direct.invalid"}) {
    TcpDial dial(resolver, {host, place.port}, nowhere);
    BOOST_REQUIRE(run_until(loop, [&] { return dial.pump() != TcpDial::State::working; }));
    BOOST_TEST((dial.pump() == TcpDial::State::connected), dial.failure().text);
  }
}

BOOST_AUTO_TEST_CASE(a_failure_names_the_proxy) {
  const auto check = [&](const std::string& scheme, std::vector<std::string> answers,
                         const std::string& text) {
    SmallProxy small(loop, std::move(answers), {});
    TcpDial dial(resolver, {"peer.invalid", 7000}, proxy(scheme, small));
    BOOST_REQUIRE((end_of(dial, small) == TcpDial::State::failed));
    BOOST_TEST(dial.failure().text == "the proxy " + scheme + "://" + small.address() +
                                          ", on the way to peer.invalid:7000: " + text);
    BOOST_TEST(!dial.take_connection());
  };
  check("socks5", {kMethod, "\x05\x05"s}, "connection refused there");
  check("socks5", {"SSH-2.0"}, "it does not speak SOCKS 5; is that its port?");
  check("http", {"HTTP/1.1 503 No\r\n\r\n"},
        "it refuses: \"HTTP/1.1 503 No\"; does it allow CONNECT to port 7000?");
  const std::string hung_up =
      "it ended the connection without an answer; is that its port, and the scheme the right one?";
  check("socks5", {}, hung_up);
  check("socks5", {kMethod}, hung_up);

  TcpDial nobody(resolver, {"peer.invalid", 7000}, parse_proxy("socks5://127.0.0.1:1").value());
  BOOST_REQUIRE(run_until(loop, [&] { return nobody.pump() != TcpDial::State::working; }));
  BOOST_TEST(nobody.failure().text ==
             "the proxy socks5://127.0.0.1:1, on the way to peer.invalid:7000: connection refused");
  fake_names["proxy.invalid"] = {};
  TcpDial unknown(resolver, {"peer.invalid", 7000}, parse_proxy("socks5://proxy.invalid").value());
  BOOST_REQUIRE(run_until(loop, [&] { return unknown.pump() != TcpDial::State::working; }));
  BOOST_TEST(unknown.failure().text.find("proxy.invalid: this host name cannot be resolved") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_proxy_that_says_nothing_is_what_a_deadline_has_waited_for) {
  const auto silent = TcpListener::create(loop, numeric_address({"127.0.0.1", 0}).value()).value();
  TcpDial dial(resolver, {"peer.invalid", 7000},
               parse_proxy("http://" + silent->address()).value());
  BOOST_TEST(dial.waiting_for().find("nobody answered in time") != std::string::npos);
  BOOST_TEST(run_until(loop, [&] {
    static_cast<void>(dial.pump());
    return dial.waiting_for().find("it has not answered in time") != std::string::npos;
  }));
  BOOST_TEST((dial.pump() == TcpDial::State::working));
}

BOOST_AUTO_TEST_SUITE_END()
