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

/// Ends a socket that is closed next, for children of fork(), too, that have it open: a port would
/// stay taken for as long as they live.
void end_for_all(const uv_tcp_t& socket) noexcept;

/// Gives a socket that is to listen its address. Where all of both families are wanted and the
/// machine has no IPv6, these are the IPv4 ones. Returns libuv's status; that the address is taken
/// shows only when it listens.
[[nodiscard]] int bind_to(uv_tcp_t& socket, const base::IpPort& at) noexcept;

/// What uv_tcp_getsockname or uv_tcp_getpeername say; nothing of a connection that broke.
using AskName = int (*)(const uv_tcp_t*, sockaddr*, int*);
[[nodiscard]] std::optional<base::IpPort> name_of(const uv_tcp_t& socket, AskName ask) noexcept;

/// One connection. Not thread-safe; nothing is reported by callback: the owner looks at it in its
/// turn. Destroying it closes the socket at once; what was not sent is lost.
class TcpStream {
 public:
  /// At most this much received data waits to be taken; TCP holds the other end back then.
  static constexpr std::size_t kInboxMax = 256UL * 1024;

  /// Starts to connect; whether somebody answers shows later. Errors: unreachable: this machine has
  /// no way there; network.
  [[nodiscard]] static base::Result<std::unique_ptr<TcpStream>> connect(Loop& loop,
                                                                        const base::IpPort& to);
  /// The same from `own`, at which this process listens, or of the other family its port: where
  /// both ends do so at one moment, each toward the other, their routers let the packets in, and
  /// one connection comes of it (RFC 9293, 3.5: simultaneous open). Errors as above; network, too:
  /// the port cannot be used so.
  [[nodiscard]] static base::Result<std::unique_ptr<TcpStream>> connect_from(
      Loop& loop, const base::IpPort& own, const base::IpPort& to);
  /// Takes the next connection of a listening socket; nothing if it is gone already.
  [[nodiscard]] static std::unique_ptr<TcpStream> accept(uv_stream_t* listening);
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;
  ~TcpStream();

  [[nodiscard]] bool connected() const noexcept;
  /// Queues bytes; needs connected(). The owner bounds how much it sends.
  void send(base::Buffer bytes);
  /// Of what was sent, the bytes that the system has not taken.
  [[nodiscard]] std::size_t unsent() const noexcept;
  /// Tells the other end that nothing follows what was sent.
  void end();
  /// Whether something has come in since the last take().
  [[nodiscard]] bool readable() const noexcept;
  /// What has come in since the last call.
  [[nodiscard]] base::Buffer take();
  /// Gives back the end of what was taken last: the next take() begins with it.
  void put_back(base::Buffer bytes);
  /// The other end sends nothing more, or the connection broke; take() may still have bytes.
  [[nodiscard]] bool ended() const noexcept;
  /// Why the connection broke; empty if it did not.
  [[nodiscard]] const std::string& error() const noexcept;

  /// The other end's address, and this end's; 0.0.0.0:0 of a connection that broke.
  [[nodiscard]] base::IpPort remote_address() const;
  [[nodiscard]] base::IpPort local_address() const;

 private:
  struct Socket;
  explicit TcpStream(Socket* socket) noexcept : socket_(socket) {}

  Socket* socket_;  ///< frees itself when libuv has let go of it
};

/// A listening socket; who connects is kept until the owner's turn.
class TcpListener {
 public:
  /// At most this many wait to be taken; more are closed.
  static constexpr std::size_t kWaitingMax = 64;

  /// At all addresses of both families, one socket serves both, and its port is the same in both.
  /// Error (network) names the address and says whether it is occupied.
  [[nodiscard]] static base::Result<std::unique_ptr<TcpListener>> create(Loop& loop,
                                                                         const base::IpPort& at);
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;
  ~TcpListener();

  /// Where it listens: "ip:port", "[::]:port" for both families.
  [[nodiscard]] std::string address() const { return to_string(bound_); }
  [[nodiscard]] const base::IpPort& bound() const noexcept { return bound_; }
  /// Those who connected since the last call.
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
