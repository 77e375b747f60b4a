// Addresses as people write them, "host:port", and as sockets want them (IPv4).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <netinet/in.h>

#include "base/result.hpp"
#include "io/loop.hpp"

namespace starling::io {

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

/// Splits "host:port". Errors (network) say what is missing; IPv6 is refused (the README says why).
[[nodiscard]] base::Result<HostPort> parse_address(std::string_view address);

/// "a.b.c.d:port".
[[nodiscard]] std::string to_string(const sockaddr_in& address);

/// Finds a host's IPv4 address and waits for the answer: for start-up only.
[[nodiscard]] base::Result<sockaddr_in> resolve_now(Loop& loop, const HostPort& target);

/// The network interface with this IPv4 address; empty for 0.0.0.0 and addresses of no interface.
[[nodiscard]] std::string interface_of(const sockaddr_in& address);

/// Finds a host's IPv4 address without blocking the loop. Destroying it forgets the question.
class Lookup {
 public:
  using Done = std::function<void(base::Result<sockaddr_in>)>;

  /// `done` is called once, from the loop, never from here.
  Lookup(Loop& loop, const HostPort& target, Done done);
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;
  ~Lookup();

 private:
  struct Request;
  Request* request_;  ///< frees itself when libuv is done with it
};

}  // namespace starling::io
