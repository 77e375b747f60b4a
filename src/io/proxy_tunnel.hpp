// The messages to a proxy before a connection leads on to its target: SOCKS 5 (RFC 1928, login by
// RFC 1929) and HTTP CONNECT (RFC 9110, login "Basic"). Bytes in, bytes out; no socket. A proxy is
// a stranger: all its answers are bounded and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "io/proxy.hpp"

namespace starling::io {

/// The most bytes of an HTTP answer's header.
inline constexpr std::size_t kProxyAnswerMax = 8UL * 1024;

/// One connection's path through a proxy. Not usable after an error.
class ProxyTunnel {
 public:
  /// `target`: a name, or an IPv4 or IPv6 address (without brackets), and a port.
  ProxyTunnel(const ProxyConfig& proxy, const HostPort& target);

  /// Appends the bytes to send to the proxy now; call it first once connected.
  void output(base::Bytes& bytes);
  /// Takes bytes from the proxy. Errors (network) name the proxy, its answer, and what to do.
  [[nodiscard]] base::Status receive(base::ByteView bytes);
  /// From now on, the connection leads to the target.
  [[nodiscard]] bool established() const noexcept { return state_ == State::established; }
  /// The bytes that the target itself has sent by then; once.
  [[nodiscard]] base::Bytes take_rest() { return std::move(inbox_); }
  /// The error if the connection ends before the tunnel is established; `why`: the system's, or
  /// empty.
  [[nodiscard]] base::Error ended(const std::string& why) const;

 private:
  enum class State : std::uint8_t { method, login, reply, http, established };

  [[nodiscard]] base::Error error(const std::string& text) const;
  [[nodiscard]] base::Result<bool> step();
  [[nodiscard]] base::Result<bool> read_method();
  [[nodiscard]] base::Result<bool> read_login();
  [[nodiscard]] base::Result<bool> read_reply();
  [[nodiscard]] base::Result<bool> read_http();
  void say_methods();
  void say_login();
  void say_request();
  void say_connect();

  ProxyConfig proxy_;
  HostPort target_;
  State state_;
  base::Bytes inbox_;   ///< not understood yet
  base::Bytes outbox_;  ///< not taken yet
};

}  // namespace starling::io
