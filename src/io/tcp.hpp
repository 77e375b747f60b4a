// TCP sockets of the loop.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <uv.h>

#include "base/bytes.hpp"
#include "base/ip.hpp"
#include "base/result.hpp"
#include "io/loop.hpp"

namespace starling::io {

/// Ends a socket that is closed next, also for children of fork() that have it open: otherwise the
/// port would stay taken as long as they live.
void end_for_all(const uv_tcp_t& socket) noexcept;

/// Binds a listening socket to its address. If all addresses of both families are wanted and the
/// machine has no IPv6, it binds the IPv4 ones. Returns libuv's status; a taken address shows only
/// when it listens.
[[nodiscard]] int bind_to(uv_tcp_t& socket, const base::IpPort& at) noexcept;

/// The result of uv_tcp_getsockname or uv_tcp_getpeername; nothing for a broken connection.
using AskName = int (*)(const uv_tcp_t*, sockaddr*, int*);
[[nodiscard]] std::optional<base::IpPort> name_of(const uv_tcp_t& socket, AskName ask) noexcept;

/// One connection. Not thread-safe, and without callbacks: the owner polls it in its turn.
/// Destroying it closes the socket at once; unsent bytes are lost.
class TcpStream {
 public:
  /// At most this much received data waits to be taken; then TCP holds the other end back.
  static constexpr std::size_t kInboxMax = 256UL * 1024;

  /// Starts to connect; the outcome shows later. Errors: unreachable (this machine has no route
  /// there), network.
  [[nodiscard]] static base::Result<std::unique_ptr<TcpStream>> connect(Loop& loop,
                                                                        const base::IpPort& to);
  /// The same from `own`, at which this process listens, or for the other family from its port. If
  /// both ends do so at the same moment, toward each other, their routers let the packets in, and
  /// they get one connection (RFC 9293, 3.5: simultaneous open). Errors as above; also network: the
  /// port cannot be used in this way.
  [[nodiscard]] static base::Result<std::unique_ptr<TcpStream>> connect_from(
      Loop& loop, const base::IpPort& own, const base::IpPort& to);
  /// Takes the next connection of a listening socket; null if it is gone already.
  [[nodiscard]] static std::unique_ptr<TcpStream> accept(uv_stream_t* listening);
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;
  ~TcpStream();

  [[nodiscard]] bool connected() const noexcept;
  /// Queues bytes; needs connected(). The owner bounds how much it sends.
  void send(base::Bytes bytes);
  /// The sent bytes that the system has not taken.
  [[nodiscard]] std::size_t unsent() const noexcept;
  /// Tells the other end that nothing more follows.
  void end();
  /// Whether data has come in since the last take().
  [[nodiscard]] bool readable() const noexcept;
  /// The data that has come in since the last call.
  [[nodiscard]] base::Bytes take();
  /// Gives back the end of the data taken last: the next take() begins with it.
  void put_back(base::Bytes bytes);
  /// The other end sends nothing more, or the connection broke; take() may still have bytes.
  [[nodiscard]] bool ended() const noexcept;
  /// Why the connection broke; empty if it did not.
  [[nodiscard]] const std::string& error() const noexcept;

  /// The other end's address, and this end's; 0.0.0.0:0 for a broken connection.
  [[nodiscard]] base::IpPort remote_address() const;
  [[nodiscard]] base::IpPort local_address() const;

 private:
  struct Socket;
  explicit TcpStream(Socket* socket) noexcept : socket_(socket) {}

  Socket* socket_;  ///< frees itself when libuv has released it
};

/// A listening socket; connections are kept until the owner's turn.
class TcpListener {
 public:
  /// At most this many wait to be taken; more are closed.
  static constexpr std::size_t kWaitingMax = 64;

  /// For all addresses of both families, one socket serves both, with the same port in both. Error
  /// (network) names the address and says whether it is occupied.
  [[nodiscard]] static base::Result<std::unique_ptr<TcpListener>> create(Loop& loop,
                                                                         const base::IpPort& at);
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;
  ~TcpListener();

  /// Where it listens: "ip:port", "[::]:port" for both families.
  [[nodiscard]] std::string address() const { return to_string(bound_); }
  [[nodiscard]] const base::IpPort& bound() const noexcept { return bound_; }
  /// The connections since the last call.
  [[nodiscard]] std::vector<std::unique_ptr<TcpStream>> take() {
    return std::exchange(waiting_, {});
  }

 private:
  explicit TcpListener(Loop& loop);
  void on_connection();

  Handle<uv_tcp_t> handle_;
  base::IpPort bound_;
  std::vector<std::unique_ptr<TcpStream>> waiting_;
};

}  // namespace starling::io
