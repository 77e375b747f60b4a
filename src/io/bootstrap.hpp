// How a channel is set up. Internal.
//
//  1. A carrier: TCP from the dialer to the listener's port, or one that is there already.
//  2. The session's handshake over it: both ends know each other's identity.
//  3. Preambles, one from each end (cells.hpp): version, and the purpose of the session. Each end
//     sends its own as soon as its session is established.
//
// The session continues from there, with the cells of a link.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "io/address.hpp"
#include "io/carrier.hpp"
#include "io/cells.hpp"
#include "io/channel.hpp"
#include "io/session.hpp"
#include "io/tcp_dial.hpp"
#include "io/traffic.hpp"

namespace starling::io {

/// The two ends of a TCP connection.
struct Route {
  base::IpPort local;
  base::IpPort remote;
};

/// Not thread-safe; reports nothing by callback: pump() in the owner's turn does all work.
class Bootstrap {
 public:
  enum class State : std::uint8_t {
    working,
    done,    ///< take the channel
    failed,  ///< failure() says why; the other end is being told
    over,    ///< failed, and the other end has been told: see closed()
  };

  /// Over the connection that is dialed.
  Bootstrap(std::unique_ptr<TcpDial> dial, std::unique_ptr<Session> session);
  /// Over a connection that exists, or is being made.
  Bootstrap(std::unique_ptr<TcpStream> connection, std::unique_ptr<Session> session);
  /// Over a carrier that exists, or will. `own` is this end's preamble; only the end that opened
  /// the carrier has one.
  Bootstrap(CarrierKind kind, std::unique_ptr<Carrier> carrier, std::unique_ptr<Session> session,
            const Preamble& own = {});
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  State pump();
  /// Gives up and tells the other end.
  void cancel(std::string reason) { fail(std::move(reason)); }
  /// Cuts the carrier, without telling the other end.
  void abort();
  /// After abort(), or when over: may be destroyed.
  [[nodiscard]] bool closed() const noexcept { return !carrier_ || carrier_->closed(); }

  [[nodiscard]] CarrierKind kind() const noexcept { return kind_; }
  /// When done, if the carrier is a TCP connection with the other end itself.
  [[nodiscard]] const std::optional<Route>& route() const noexcept { return route_; }
  /// The cause of a time-out that happens now, in words.
  [[nodiscard]] std::string waiting_for() const;
  /// Code secret: the ends do not have the same secret.
  [[nodiscard]] const base::Error& failure() const noexcept { return failure_; }

  // --- when done ---

  [[nodiscard]] const Preamble& other() const noexcept { return *other_; }
  [[nodiscard]] std::unique_ptr<Channel> take_channel();

  /// Adds the carrier's bytes since the last call, all of the handshake.
  void count(LinkTraffic& traffic) noexcept {
    constexpr auto kOther = static_cast<std::size_t>(wire::Purpose::other);
    traffic.sent[kOther] += std::exchange(sent_, 0);
    traffic.received[kOther] += std::exchange(received_, 0);
  }

 private:
  void dial();
  void take_connection(std::unique_ptr<TcpStream> connection);
  void fail(base::Error error);
  void fail(std::string text) { fail({base::ErrorCode::network, std::move(text)}); }
  void flush();
  void receive();
  [[nodiscard]] base::Status advance();
  void check();
  void linger();

  CarrierKind kind_ = CarrierKind::tcp;
  std::unique_ptr<TcpDial> dial_;
  const TcpStream* tcp_ = nullptr;  ///< the carrier's, if it is TCP with the other end itself
  std::optional<Route> route_;
  std::unique_ptr<Carrier> carrier_;
  std::unique_ptr<Session> session_;
  base::Bytes own_;   ///< the preamble, until it is sent
  base::Bytes said_;  ///< received bytes of the other end's preamble
  std::optional<Preamble> other_;
  base::Bytes unsent_;
  State state_ = State::working;
  base::Error failure_;
  std::size_t received_total_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace starling::io
