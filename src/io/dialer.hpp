// A transport's own dials: over TCP, also at the same moment as the other end. Internal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ip.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "io/address.hpp"
#include "io/link_table.hpp"
#include "io/loop.hpp"
#include "io/session.hpp"
#include "io/tcp.hpp"
#include "io/transport.hpp"

namespace starling::io {

class Dialer {
 public:
  using MakeSession = std::function<base::Result<std::unique_ptr<Session>>(Role)>;
  struct Failed {
    std::uint64_t dial;
    std::string text;
  };

  /// All but `make_session` outlive this.
  Dialer(Loop& loop, const TransportConfig& config, const base::PeerId& self, LinkTable& links,
         MakeSession make_session)
      : loop_(loop),
        config_(config),
        self_(self),
        links_(links),
        make_session_(std::move(make_session)),
        resolver_(loop) {}

  /// As Transport's; `own`: the address on which it listens.
  [[nodiscard]] std::uint64_t dial(const std::string& address, const base::IpPort& own);
  [[nodiscard]] std::uint64_t punch(const std::string& address, const base::PeerId& peer,
                                    const base::IpPort& own);
  /// True: this connection came in from an address that is being dialed at this moment, and takes
  /// the place of that dial.
  [[nodiscard]] bool take_for_punch(std::unique_ptr<TcpStream>& tcp);
  /// Those that failed at once, since the last call.
  [[nodiscard]] std::vector<Failed> take_failed() { return std::exchange(failed_, {}); }
  [[nodiscard]] bool any_failed() const noexcept { return !failed_.empty(); }
  /// Further dials fail: this peer is shutting down.
  void stop() noexcept { stopped_ = true; }

 private:
  struct Prepared {
    std::uint32_t place;
    HostPort target;
    std::unique_ptr<Session> session;
  };
  [[nodiscard]] base::Result<Prepared> prepare(const std::string& address, Role role);
  [[nodiscard]] std::uint64_t fail(std::string text);
  [[nodiscard]] Role role_toward(const base::PeerId& peer) const {
    return self_ < peer ? Role::dialer : Role::listener;
  }

  Loop& loop_;
  const TransportConfig& config_;
  const base::PeerId& self_;
  LinkTable& links_;
  MakeSession make_session_;
  Resolver resolver_;
  std::vector<Failed> failed_;
  std::uint64_t dials_ = 0;
  bool stopped_ = false;
};

}  // namespace starling::io
