#include "harness.hpp"

#include <filesystem>
#include <random>
#include <string>

#include <poll.h>

#include "io/raw_address.hpp"

namespace starling::io::ucx::test {

base::PortRange free_ports(unsigned count) {
  constexpr unsigned kLowest = 10'000;
  constexpr unsigned kHighest = 32'000;
  std::random_device random;
  for (int tries = 0; tries < 1000; ++tries) {
    const auto first =
        static_cast<std::uint16_t>(kLowest + random() % (kHighest - kLowest - count));
    const auto last = static_cast<std::uint16_t>(first + count - 1);
    std::vector<base::Descriptor> taken;
    for (unsigned port = first; port <= last; ++port) {
      const RawAddress at({base::Ip(), static_cast<std::uint16_t>(port)});
      base::Descriptor one(socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (bind(one.get(), at.get(), at.size()) == 0) taken.push_back(std::move(one));
    }
    if (taken.size() == count) return {first, last};
  }
  BOOST_FAIL("no ports are free");
  return {};
}

std::vector<std::uint16_t> listening_ports() {
  std::vector<std::uint16_t> ports;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
      continue;
    }
    const auto name = ip_port_from(
        [&](sockaddr* to, socklen_t* room) { return getsockname(descriptor, to, room); });
    if (name) ports.push_back(name->port);
  }
  return ports;
}

base::Descriptor connect_from(const base::Ip& from, std::uint16_t port, int patience_ms) {
  const RawAddress here({from, 0});
  const RawAddress there({from.is_v6() ? ip("::1") : kLoopback, port});
  base::Descriptor made(socket(here.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (bind(made.get(), here.get(), here.size()) != 0) return base::Descriptor(-1);
  static_cast<void>(connect(made.get(), there.get(), there.size()));
  pollfd wait{made.get(), POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  const bool connected = poll(&wait, 1, patience_ms) == 1 &&
                         getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
                         error == 0;
  return connected ? std::move(made) : base::Descriptor(-1);
}

}  // namespace starling::io::ucx::test
