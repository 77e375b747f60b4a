// From a host's name to one connection, with any number of addresses: happy eyeballs (RFC 8305).
// Through a proxy, if there is one. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "io/address.hpp"
#include "io/loop.hpp"
#include "io/proxy.hpp"
#include "io/proxy_tunnel.hpp"
#include "io/tcp.hpp"

namespace starling::io {

/// Looks the host up, unless it is a number, and connects to its addresses: to the first at once,
/// to each further one when the one before has failed or has not answered for `stagger`. The first
/// that answers is taken, the others are closed. If a proxy serves the target, all this is done
/// with the proxy, which is then told the target: it looks up the target's name. There are no
/// callbacks: pump() in the owner's turn does all work, and the loop is woken if there is some.
class TcpDial {
 public:
  enum class State : std::uint8_t {
    working,
    connected,  ///< take the connection
    failed,     ///< failure() says why
  };
  /// The most addresses of one host that are tried.
  static constexpr std::size_t kAttemptsMax = 8;
  /// RFC 8305, section 5.
  static constexpr base::Duration kStagger = std::chrono::milliseconds(250);

  /// `resolver` must outlive it. `from`: where this process listens; connections without a proxy
  /// leave from there, unless another one to the same place uses it. Nothing: from any port.
  TcpDial(Resolver& resolver, const HostPort& target, base::Duration stagger = kStagger)
      : TcpDial(resolver, target, std::nullopt, stagger) {}
  TcpDial(Resolver& resolver, const HostPort& target, const std::optional<ProxyConfig>& proxy,
          base::Duration stagger = kStagger,
          const std::optional<base::IpPort>& from = std::nullopt);
  TcpDial(const TcpDial&) = delete;
  TcpDial& operator=(const TcpDial&) = delete;

  State pump();
  /// The connection is one with a proxy: its other address is not the target's.
  [[nodiscard]] bool proxied() const noexcept { return proxied_; }

  /// After connected, once.
  [[nodiscard]] std::unique_ptr<TcpStream> take_connection() { return std::move(connection_); }
  /// After failed: names the tried addresses, unless the target is one numeric address.
  [[nodiscard]] const base::Error& failure() const noexcept { return failure_; }
  /// The cause of a time-out that happens now, in words.
  [[nodiscard]] std::string waiting_for() const;

 private:
  struct Attempt {
    base::IpPort to;
    std::unique_ptr<TcpStream> stream;  ///< null once it has failed
    base::Error error;
  };

  void begin(const Lookup::Found& found);
  void fail(base::Error error);
  void look_at_attempts();
  /// Whether one more is under way.
  [[nodiscard]] bool start_next();
  [[nodiscard]] base::Result<std::unique_ptr<TcpStream>> connect(const base::IpPort& to);
  [[nodiscard]] bool any_under_way() const;
  [[nodiscard]] std::string tried() const;
  /// Talks with the connected proxy.
  void pass_tunnel();

  Loop& loop_;
  base::Duration stagger_;
  bool proxied_;
  std::optional<base::IpPort> from_;
  bool is_number_;
  std::unique_ptr<Lookup> lookup_;
  std::vector<base::IpPort> addresses_;  ///< in the order in which they are tried
  std::vector<Attempt> attempts_;        ///< of the first addresses
  Timer timer_;                          ///< until the next one
  bool next_due_ = false;
  std::unique_ptr<TcpStream> connection_;
  std::optional<ProxyTunnel> tunnel_;  ///< until it is established
  State state_ = State::working;
  base::Error failure_;
};

/// Alternates between the families, beginning with that of the first address, each in its order: if
/// one family does not work, the second attempt uses the other. At most kAttemptsMax.
[[nodiscard]] std::vector<base::IpPort> by_turns(const std::vector<base::IpPort>& found);

}  // namespace starling::io
