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

sockaddr_in at(const std::string& address) {
  const HostPort target = parse_address(address).value();
  sockaddr_in made{};
  BOOST_REQUIRE(uv_ip4_addr(target.host.c_str(), target.port, &made) == 0);
  return made;
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

BOOST_AUTO_TEST_SUITE_END()
