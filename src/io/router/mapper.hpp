// Keeps one port mapped for one family of addresses: asks the router by PCP, then by NAT-PMP, then
// by UPnP, renews at half of the lifetime, begins anew when the mapping is lost, and removes it at
// the end. A core: datagrams and time in, datagrams and lines out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "io/router/line.hpp"
#include "io/router/messages.hpp"

namespace starling::io::router {

/// The requested lifetime. A router that was restarted has forgotten the mapping, and few say so:
/// then the port stays closed until the renewal.
inline constexpr base::Duration kLifetimeWanted = std::chrono::minutes(20);
/// The first wait for an answer; each further one is twice as long, kTries in all.
inline constexpr base::Duration kFirstWait = std::chrono::milliseconds(250);
inline constexpr int kTries = 3;
/// A renewal without an answer is tried again after half of the time that is left, but not sooner
/// than this.
inline constexpr base::Duration kRenewPause = std::chrono::seconds(4);
/// The first pause after a round in which no protocol maps the port; each further one is twice as
/// long.
inline constexpr base::Duration kRestFirst = std::chrono::minutes(1);
inline constexpr base::Duration kRestMax = std::chrono::hours(1);
/// A router's announcement of a restart counts at most once in this time.
inline constexpr base::Duration kRestartedPause = std::chrono::seconds(10);

class Mapper {
 public:
  struct Config {
    base::Ip own;            ///< this machine's address
    std::uint16_t port = 0;  ///< the peer's listening port
    Nonce nonce{};
  };

  /// To be sent to the router.
  struct Send {
    base::Bytes datagram;
  };
  /// To be asked by UPnP; the answer goes to upnp_mapped() or upnp_removed().
  struct AskUpnp {
    bool remove = false;
    std::uint16_t outer_port = 0;
    base::Duration lifetime{};
  };
  using Action = std::variant<Send, AskUpnp, Line>;
  using Outbox = std::vector<Action>;

  explicit Mapper(const Config& config) : config_(config) {}

  /// Commands.
  void start(base::Time now, Outbox& out);
  /// Removes the mapping; ended() is true once that is done, within two seconds.
  void end(base::Time now, Outbox& out);

  /// Events: a datagram of the router; its port is closed; it says that it was restarted.
  void receive(base::ByteView datagram, base::Time now, Outbox& out);
  void unreachable(base::Time now, Outbox& out);
  void restarted(base::Time now, Outbox& out);
  void upnp_mapped(const base::Result<Mapping>& mapping, base::Time now, Outbox& out);
  void upnp_removed(Outbox& out);

  [[nodiscard]] std::optional<base::Time> next_deadline() const noexcept { return deadline_; }
  void expire(base::Time now, Outbox& out);
  [[nodiscard]] bool ended() const noexcept { return state_ == State::ended; }

 private:
  enum class State : std::uint8_t {
    idle,
    asking,  ///< asking for a first mapping
    held,    ///< a mapping is held until its renewal
    renewing,
    resting,  ///< no protocol maps the port
    removing,
    ended,
  };

  [[nodiscard]] bool awaits_answer() const noexcept {
    return state_ == State::asking || state_ == State::renewing || state_ == State::removing;
  }
  [[nodiscard]] bool v4() const noexcept { return config_.own.is_v4(); }
  [[nodiscard]] PortRequest request() const;
  void begin(base::Time now, Outbox& out);
  void ask(base::Time now, Outbox& out);
  void on_answer(const PortAnswer& answer, base::Time now, Outbox& out);
  void on_nat_pmp(base::ByteView datagram, base::Time now, Outbox& out);
  void took(const Mapping& mapping, base::Time now, Outbox& out);
  void refused(const std::string& why, base::Time now, Outbox& out);
  void next_protocol(const std::string& why, base::Time now, Outbox& out);
  void lose(const std::string& why, base::Time now, Outbox& out);
  void unanswered(base::Time now, Outbox& out);

  Config config_;
  State state_ = State::idle;
  Protocol protocol_ = Protocol::pcp;
  int tries_ = 0;
  std::optional<base::Time> deadline_;
  std::optional<Mapping> held_;
  base::Time expires_{};           ///< of the held mapping
  base::Time asked_{};             ///< last, after a router's restart
  bool maybe_made_ = false;        ///< a mapping whose answer was lost may exist
  std::optional<base::Ip> outer_;  ///< NAT-PMP's two answers, as they come
  std::optional<PortAnswer> nat_pmp_port_;
  std::string failures_;  ///< of the protocols, in this round
  base::Duration rest_ = kRestFirst;
};

}  // namespace starling::io::router
