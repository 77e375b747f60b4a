// How a link comes about. Internal.
//
//  1. TCP from the dialer to the listener's port.
//  2. The session's handshake over it: both ends know whom they talk to. Strangers end here: UCX,
//     which was made for trusted networks, never hears of them.
//  3. Secured by the session, the listener sends a frame: at which port it takes UCX connections,
//     and a token. Payload, little-endian:
//
//       offset  size  field
//       0       8     token
//       8       2     port, at the address that was dialed
//
//  4. The dialer connects by UCX and sends the token, which the listener sends back.
//
// The session's bytes go on in the UCX stream. The TCP connection stays open as long as the link,
// with nothing in it: its end tells at once that the other process died or cut the link.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "io/address.hpp"
#include "io/session.hpp"
#include "io/tcp.hpp"
#include "io/ucx_stream.hpp"
#include "wire/frame.hpp"

namespace starling::io {

/// Not thread-safe; reports nothing by callback: pump() in the owner's turn does all work.
class Bootstrap {
 public:
  enum class State : std::uint8_t {
    working,
    done,    ///< take the session, the connection and the stream
    failed,  ///< failure() says why; the other end is being told
    over,    ///< failed, and nothing is left to tell
  };
  static constexpr std::size_t kTokenSize = sizeof(std::uint64_t);

  /// As the dialer of `target`. `resolver` and `streams` must outlive it.
  Bootstrap(Resolver& resolver, UcxStreams& streams, std::unique_ptr<Session> session,
            const HostPort& target);
  /// As the listener, which takes UCX connections at `ucx_port`.
  Bootstrap(std::unique_ptr<Session> session, std::unique_ptr<TcpStream> tcp,
            std::uint16_t ucx_port);
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  State pump();
  /// Gives up and tells the other end so.
  void cancel(std::string reason) { fail(std::move(reason)); }

  /// Of a listener that has sent one: the token with which its UCX stream will come.
  [[nodiscard]] std::optional<std::uint64_t> awaited() const noexcept;
  /// The stream whose first message was the awaited token.
  void attach(std::unique_ptr<UcxStream> stream);

  /// Code secret: the ends have not the same.
  [[nodiscard]] const base::Error& failure() const noexcept { return failure_; }
  /// What a deadline that passes now has waited for.
  [[nodiscard]] const char* waiting_for() const noexcept;

  [[nodiscard]] std::unique_ptr<Session> take_session() { return std::move(session_); }
  [[nodiscard]] std::unique_ptr<TcpStream> take_connection() { return std::move(tcp_); }
  /// After done, or to be aborted; may be none then.
  [[nodiscard]] std::unique_ptr<UcxStream> take_stream() { return std::move(stream_); }
  /// Bytes over TCP, and of tokens, since the last call.
  [[nodiscard]] std::uint64_t take_sent() noexcept { return std::exchange(sent_, 0); }
  [[nodiscard]] std::uint64_t take_received() noexcept { return std::exchange(received_, 0); }

 private:
  void connect(const SocketAddress& to);
  void fail(base::Error error);
  void fail(std::string text) { fail({base::ErrorCode::network, std::move(text)}); }
  void flush();
  void receive();
  [[nodiscard]] base::Status read(base::ByteView bytes);
  [[nodiscard]] base::Status grant();
  [[nodiscard]] base::Status take_grant(const wire::Frame& frame);
  void exchange_tokens();
  void check();
  void linger();

  Loop* loop_ = nullptr;           ///< of a dialer
  UcxStreams* streams_ = nullptr;  ///< of a dialer
  std::uint16_t ucx_port_ = 0;     ///< of a listener
  std::unique_ptr<Session> session_;
  std::unique_ptr<Lookup> lookup_;
  std::unique_ptr<TcpStream> tcp_;
  std::unique_ptr<UcxStream> stream_;
  wire::FrameReader reader_;
  std::optional<std::uint64_t> token_;
  bool token_sent_ = false;
  State state_ = State::working;
  base::Error failure_;
  std::size_t received_total_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace starling::io
