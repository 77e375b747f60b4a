#include "io/tcp.hpp"

#include <csignal>

#include <boost/test/unit_test.hpp>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "harness.hpp"
#include "io/address.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

/// A child of fork(), which has all of this process' sockets open for as long as this lives.
class Child {
 public:
  Child() : pid_(::fork()) {
    while (pid_ == 0) ::pause();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

base::IpPort at(const std::string& address) { return base::parse_ip_port(address).value(); }

/// Whether the listener accepts a dial to `to`, and the dialer's address as it sees it.
std::optional<base::IpPort> seen_by(TcpListener& listener, Loop& loop, const std::string& to) {
  const auto dialer = TcpStream::connect(loop, at(to));
  if (!dialer) return std::nullopt;
  std::vector<std::unique_ptr<TcpStream>> taken;
  const bool met = run_until(loop, [&] {
    if (taken.empty()) taken = listener.take();
    return (*dialer)->ended() || (!taken.empty() && (*dialer)->connected());
  });
  if (!met || taken.empty()) return std::nullopt;
  BOOST_TEST((taken[0]->local_address() == (*dialer)->remote_address()));
  BOOST_TEST((taken[0]->remote_address() == (*dialer)->local_address()));
  return taken[0]->remote_address();
}

std::string port_of(const TcpListener& listener) {
  return listener.address().substr(listener.address().rfind(':'));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tcp)

BOOST_AUTO_TEST_CASE(what_is_closed_is_closed_for_children_too) {
  Loop loop = make_loop();
  auto listener = TcpListener::create(loop, at("127.0.0.1:0")).value();
  const std::string address = listener->address();
  const auto dialer = TcpStream::connect(loop, at(address)).value();
  std::vector<std::unique_ptr<TcpStream>> taken;
  BOOST_REQUIRE(run_until(loop, [&] {
    if (taken.empty()) taken = listener->take();
    return !taken.empty() && dialer->connected();
  }));
  const Child child;
  taken.clear();
  BOOST_TEST(run_until(loop, [&] {
    static_cast<void>(dialer->take());
    return dialer->ended();
  }));
  listener.reset();
  loop.run_once();
  const auto again = TcpListener::create(loop, at(address));
  BOOST_TEST(again.has_value(), (again ? "" : again.error().text));
}

BOOST_AUTO_TEST_CASE(one_port_serves_both_families) {
  Loop loop = make_loop();
  const auto listener = TcpListener::create(loop, at("[::]:0")).value();
  BOOST_TEST(listener->address() == "[::]" + port_of(*listener));
  const auto v4 = seen_by(*listener, loop, "127.0.0.1" + port_of(*listener));
  BOOST_REQUIRE(v4);
  BOOST_TEST(v4->ip.text() == "127.0.0.1");  // and not ::ffff:127.0.0.1
  const auto v6 = seen_by(*listener, loop, "[::1]" + port_of(*listener));
  BOOST_REQUIRE(v6);
  BOOST_TEST(v6->ip.text() == "::1");
  // Nobody else gets half of it.
  BOOST_TEST(!TcpListener::create(loop, at("0.0.0.0" + port_of(*listener))));
}

BOOST_AUTO_TEST_CASE(ipv4_alone_stays_so) {
  Loop loop = make_loop();
  const auto listener = TcpListener::create(loop, at("0.0.0.0:0")).value();
  BOOST_TEST(listener->address() == "0.0.0.0" + port_of(*listener));
  BOOST_TEST(seen_by(*listener, loop, "127.0.0.1" + port_of(*listener)).has_value());
  BOOST_TEST(!seen_by(*listener, loop, "[::1]" + port_of(*listener)));
}

BOOST_AUTO_TEST_SUITE_END()
