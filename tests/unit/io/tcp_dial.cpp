#include "io/tcp_dial.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.hpp"
#include "io/raw_address.hpp"
#include "names.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;
using namespace std::chrono_literals;

namespace {

constexpr base::Duration kNever = 10h;  ///< longer than any test waits

base::IpPort at(const std::string& host, std::uint16_t port) {
  return numeric_address({host, port}).value();
}

std::vector<base::IpPort> all_of(const std::vector<std::string>& hosts) {
  std::vector<base::IpPort> made;
  for (const std::string& host : hosts) made.push_back(at(host, 1));
  return made;
}

std::string hosts_of(const std::vector<base::IpPort>& addresses) {
  std::string text;
  for (const base::IpPort& address : addresses) text += address.ip.text() + " ";
  return text;
}

/// Takes no more connections: dials are not answered, as by a firewall that drops packets.
class BlackHole {
 public:
  explicit BlackHole(const std::string& host) {
    add_socket(AF_INET);
    const RawAddress any(at(host, 0));
    BOOST_REQUIRE(::bind(sockets_[0], any.get(), any.size()) == 0);
    BOOST_REQUIRE(::listen(sockets_[0], 0) == 0);
    const auto bound = ip_port_from(
        [&](sockaddr* name, socklen_t* size) { return ::getsockname(sockets_[0], name, size); });
    port = bound.value().port;
    const RawAddress here(*bound);
    for (int i = 0; i < 4; ++i) {
      add_socket(AF_INET);
      static_cast<void>(::connect(sockets_.back(), here.get(), here.size()));
    }
  }
  BlackHole(const BlackHole&) = delete;
  BlackHole& operator=(const BlackHole&) = delete;
  ~BlackHole() {
    for (const int socket : sockets_) ::close(socket);
  }

  std::uint16_t port = 0;

 private:
  void add_socket(int family) {
    sockets_.push_back(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }

  std::vector<int> sockets_;
};

struct Dials {
  ~Dials() { fake_names.clear(); }

  /// The outcome of a dial.
  TcpDial::State end_of(TcpDial& dial) {
    BOOST_TEST(run_until(loop, [&] { return dial.pump() != TcpDial::State::working; }));
    return dial.pump();
  }

  Loop loop = make_loop();
  Resolver resolver{loop};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tcp_dial, Dials)

BOOST_AUTO_TEST_CASE(families_take_turns_and_the_first_one_begins) {
  BOOST_TEST(hosts_of(by_turns(all_of({"::1", "::2", "::3", "10.0.0.1"}))) ==
             "::1 10.0.0.1 ::2 ::3 ");
  BOOST_TEST(hosts_of(by_turns(all_of({"10.0.0.1", "10.0.0.2", "::1"}))) ==
             "10.0.0.1 ::1 10.0.0.2 ");
  std::vector<std::string> many;
  for (int i = 1; i <= 20; ++i) many.push_back("10.0.0." + std::to_string(i));
  BOOST_TEST(by_turns(all_of(many)).size() == TcpDial::kAttemptsMax);
}

BOOST_AUTO_TEST_CASE(a_number_is_dialed_and_a_failure_does_not_repeat_it) {
  auto listener = TcpListener::create(loop, at("::1", 0)).value();
  const HostPort target = parse_target(listener->address()).value();
  TcpDial dial(resolver, target);
  BOOST_TEST((end_of(dial) == TcpDial::State::connected));
  const auto connection = dial.take_connection();
  BOOST_TEST(to_string(connection->remote_address()) == listener->address());
  listener.reset();
  loop.run_once();
  TcpDial again(resolver, target);
  BOOST_TEST((end_of(again) == TcpDial::State::failed));
  BOOST_TEST(again.failure().text == "connection refused");
}

BOOST_AUTO_TEST_CASE(a_refused_address_makes_way_for_the_next_at_once) {
  const auto listener = TcpListener::create(loop, at("::1", 0)).value();
  const std::uint16_t port = parse_target(listener->address()).value().port;
  fake_names["two.invalid"] = {"127.0.0.1", "::1"};
  TcpDial dial(resolver, {"two.invalid", port}, kNever);
  BOOST_TEST((end_of(dial) == TcpDial::State::connected));
  BOOST_TEST(dial.take_connection()->remote_address().ip.text() == "::1");
}

BOOST_AUTO_TEST_CASE(an_address_that_swallows_everything_does_not_hold_up_the_others) {
  const BlackHole hole("127.0.0.1");
  const auto listener = TcpListener::create(loop, at("::1", hole.port)).value();
  fake_names["hole.invalid"] = {"127.0.0.1", "::1"};
  TcpDial dial(resolver, {"hole.invalid", hole.port}, 1ms);
  BOOST_TEST((end_of(dial) == TcpDial::State::connected));
  BOOST_TEST(dial.take_connection()->remote_address().ip.text() == "::1");
}

BOOST_AUTO_TEST_CASE(the_first_address_is_taken_where_it_answers) {
  const auto listener = TcpListener::create(loop, at("::", 0)).value();
  const std::uint16_t port = parse_address(listener->address()).value().port;
  for (const std::string first : {"127.0.0.1", "::1"}) {
    fake_names["both.invalid"] = {first, first == "::1" ? "127.0.0.1" : "::1"};
    TcpDial dial(resolver, {"both.invalid", port}, kNever);
    BOOST_TEST((end_of(dial) == TcpDial::State::connected));
    BOOST_TEST(dial.take_connection()->remote_address().ip.text() == first);
  }
}

BOOST_AUTO_TEST_CASE(what_was_tried_is_named) {
  auto listener = TcpListener::create(loop, at("::1", 0)).value();
  const std::uint16_t port = parse_target(listener->address()).value().port;
  listener.reset();
  loop.run_once();
  fake_names["none.invalid"] = {"::1", "127.0.0.1"};
  TcpDial dial(resolver, {"none.invalid", port}, kNever);
  BOOST_TEST((end_of(dial) == TcpDial::State::failed));
  BOOST_TEST(dial.failure().text == fmt::format("[::1]:{}: connection refused; 127.0.0.1:{}: "
                                                "connection refused",
                                                port, port));
}

BOOST_AUTO_TEST_CASE(who_gives_up_can_say_what_was_waited_for) {
  const BlackHole hole("127.0.0.1");
  fake_names["hole.invalid"] = {"127.0.0.1"};
  TcpDial dial(resolver, {"hole.invalid", hole.port});
  BOOST_TEST(dial.waiting_for() == "no name server has answered in time");
  BOOST_REQUIRE(run_until(loop, [&] {
    return dial.pump() == TcpDial::State::working &&
           dial.waiting_for() ==
               fmt::format("nobody answered in time (127.0.0.1:{}: no answer)", hole.port);
  }));
}

BOOST_AUTO_TEST_CASE(a_name_that_leads_nowhere_says_so) {
  fake_names["gone.invalid"] = {};
  TcpDial dial(resolver, {"gone.invalid", 1});
  BOOST_TEST((end_of(dial) == TcpDial::State::failed));
  BOOST_TEST(dial.failure().text.find("gone.invalid: this host name cannot be resolved") == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
