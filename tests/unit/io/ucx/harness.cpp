#include "harness.hpp"

#include <filesystem>
#include <string>

#include <poll.h>

namespace starling::io::ucx::test {

std::vector<std::uint16_t> listening_ports() {
  std::vector<std::uint16_t> ports;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof listens;
    sockaddr_storage address{};
    socklen_t address_size = sizeof address;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
        getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &address_size) == 0) {
      ports.push_back(port_of(address));
    }
  }
  return ports;
}

base::Descriptor connect_from(const Ip& from, std::uint16_t port, int patience_ms) {
  base::Descriptor made(
      socket(from.is_v6() ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_storage address;
  socklen_t size = from.to_socket(0, address);
  if (bind(made.get(), reinterpret_cast<sockaddr*>(&address), size) != 0)
    return base::Descriptor(-1);
  size = (from.is_v6() ? ip("::1") : kLoopback).to_socket(port, address);
  static_cast<void>(connect(made.get(), reinterpret_cast<sockaddr*>(&address), size));
  pollfd wait{made.get(), POLLOUT, 0};
  int error = 0;
  size = sizeof error;
  const bool connected = poll(&wait, 1, patience_ms) == 1 &&
                         getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
                         error == 0;
  return connected ? std::move(made) : base::Descriptor(-1);
}

}  // namespace starling::io::ucx::test
