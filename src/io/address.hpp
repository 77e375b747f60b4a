// Addresses as people write them, "host:port", and as sockets want them (IPv4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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

/// The same of an address to dial, where a port of 0 is an error, too.
[[nodiscard]] base::Result<HostPort> parse_target(std::string_view address);

/// "a.b.c.d:port".
[[nodiscard]] std::string to_string(const sockaddr_in& address);

/// The address if the host is written in numbers, as a.b.c.d; nothing else needs a lookup.
[[nodiscard]] std::optional<sockaddr_in> numeric_address(const HostPort& target);

/// Whether a client is on this machine, by its address and the one that it reached: it comes from a
/// loopback address, or from the very address that it leads to.
[[nodiscard]] bool is_own_client(const sockaddr_in& client, const sockaddr_in& reached);

/// Finds a host's IPv4 address and waits for the answer: for start-up only.
[[nodiscard]] base::Result<sockaddr_in> resolve_now(Loop& loop, const HostPort& target);

/// The network interface with this IPv4 address; empty for 0.0.0.0 and addresses of no interface.
[[nodiscard]] std::string interface_of(const sockaddr_in& address);

class Lookup;

/// Asks for the addresses of host names, each once at a time: a question that nobody waits for any
/// more can only be taken back until one of libuv's few threads has begun with it, and names that
/// no server answers for would take them all.
class Resolver {
 public:
  /// `loop` must outlive it.
  explicit Resolver(Loop& loop) : loop_(loop) {}
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  /// Its lookups must be gone.
  ~Resolver();

  [[nodiscard]] Loop& loop() noexcept { return loop_; }
  /// Names that are being asked for.
  [[nodiscard]] std::size_t asking() const noexcept { return requests_.size(); }

 private:
  friend class Lookup;
  struct Request;

  Loop& loop_;
  std::map<std::string, Request*> requests_;  ///< by host; each frees itself when libuv is done
};

/// Finds the IPv4 address of a host name without blocking the loop. Destroying it forgets the
/// question.
class Lookup {
 public:
  using Done = std::function<void(base::Result<sockaddr_in>)>;

  /// `done` is called once, from the loop, never from here; it may destroy this. `resolver` must
  /// outlive it.
  Lookup(Resolver& resolver, HostPort target, Done done);
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;
  ~Lookup();

 private:
  friend class Resolver;

  HostPort target_;
  Done done_;
  Resolver::Request* request_;  ///< none once it is answered
};

}  // namespace starling::io
