// The inside of a transport: its links, and the sources of their carriers. Internal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/circuits.hpp"
#include "io/fabrics.hpp"
#include "io/host_pace.hpp"
#include "io/link.hpp"
#include "io/tls.hpp"
#include "io/transport.hpp"
#include "io/turn.hpp"

namespace starling::io {

class Transport::Impl final : private CircuitLinks {
 public:
  Impl(Loop& loop, const TransportConfig& config, const Identity& identity,
       TransportHandler& handler)
      : loop_(loop),
        config_(config),
        self_(identity.id()),
        handler_(handler),
        resolver_(loop),
        timer_(loop, [] {}),
        fabrics_(loop, {config.fabric, config.fabric_ports}, config.tls, config.secret.has_value()),
        circuits_(*this, config.relay_limit) {
    // A timer only has to wake the loop: the turn before its next wait does the work.
  }
  ~Impl() override;

  [[nodiscard]] base::Status start(const Identity& identity);
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] const base::IpPort& bound() const noexcept { return bound_; }
  [[nodiscard]] std::uint64_t dial(const std::string& address);
  [[nodiscard]] std::uint64_t punch(const std::string& address, const base::PeerId& peer);
  void open_circuit(base::LinkId id, std::uint32_t number, const base::PeerId& peer, bool opens);
  void relay(base::LinkId a, std::uint32_t number_a, base::LinkId b, std::uint32_t number_b) {
    circuits_.relay(a, number_a, b, number_b, Loop::now());
  }
  void end_circuit(base::LinkId id, std::uint32_t number) { circuits_.end(id, number); }
  [[nodiscard]] Link* find(base::LinkId id) const;
  void accept(base::LinkId id);
  void close(base::LinkId id);
  void abort(base::LinkId id);
  [[nodiscard]] LinkTraffic total() const;
  [[nodiscard]] LinkCarrier carrier(base::LinkId id) const;
  void shutdown(std::function<void()> done);

 private:
  struct Slot {
    std::uint32_t generation = 0;
    std::unique_ptr<Link> link;
    /// Reported to the handler.
    bool up_reported = false;
    bool down_reported = false;
    bool accepted = false;  // by accept()
    Fabrics::Talk talk{};
    std::optional<base::Ip> came_from{};  ///< of a connection that came in
    /// The peer that must be at the other end; if absent, any peer.
    std::optional<base::PeerId> expected{};
    std::optional<base::IpPort> punches{};  ///< where the dial from the listening port goes
    base::LinkId via{};                     ///< over a circuit: the link with the relay
    bool opened = false;                    ///< over a circuit: by this end
  };
  struct FailedDial {
    std::uint64_t dial;
    std::string text;
  };

  bool send_circuit_frame(base::LinkId id, base::Bytes frame) override;
  [[nodiscard]] std::optional<std::size_t> waiting_on(base::LinkId id) const override;
  struct Prepared {
    std::uint32_t slot;
    HostPort target;
    std::unique_ptr<Session> session;
  };
  [[nodiscard]] base::Result<Prepared> prepare(const std::string& address, Role role);
  [[nodiscard]] std::uint64_t start_dial(std::uint32_t slot, const std::string& address,
                                         std::unique_ptr<Bootstrap> bootstrap);
  [[nodiscard]] std::uint64_t fail_dial(std::string text);
  [[nodiscard]] Role role_toward(const base::PeerId& peer) const {
    return self_ < peer ? Role::dialer : Role::listener;
  }
  [[nodiscard]] bool take_for_punch(std::unique_ptr<TcpStream>& tcp);
  void on_circuit_frame(base::LinkId id, Link& link, base::ByteView payload);
  [[nodiscard]] bool report_ended_circuits();
  void report_up(base::LinkId id, const Link& link);

  [[nodiscard]] bool turn();
  void answer(std::unique_ptr<TcpStream> tcp);
  [[nodiscard]] bool pump(std::uint32_t slot, base::Time now);
  void join(Link& carrier);
  void take_ucx_connections(base::Time now);
  [[nodiscard]] std::size_t awaited_carriers() const;
  void report_down(base::LinkId id, const Link& link);
  [[nodiscard]] bool report_failed_dials();
  void set_timer(base::Time now);
  void finish_shutdown();
  [[nodiscard]] std::optional<std::uint32_t> free_slot();
  [[nodiscard]] base::Result<std::unique_ptr<Session>> make_session(Role role) const;
  [[nodiscard]] std::size_t links() const;
  [[nodiscard]] std::size_t strangers() const;
  [[nodiscard]] bool may_come(const base::Ip& from) const;
  /// Begins a link; `dial`: its number, 0 if the other end has dialed.
  void put(std::uint32_t slot, std::uint64_t dial, std::string address,
           std::unique_ptr<Bootstrap> bootstrap);

  Loop& loop_;
  const TransportConfig config_;
  const base::PeerId self_;
  TransportHandler& handler_;
  std::optional<TlsContext> tls_;
  Resolver resolver_;
  Timer timer_;
  base::Time timer_at_ = base::Time::max();
  Fabrics fabrics_;
  base::Time fabrics_at_ = base::Time::max();  ///< when to check which of them are unused
  Circuits circuits_;
  bool stirred_ = false;                ///< a link that had its turn has something to send
  std::optional<base::Time> quiet_at_;  ///< shutting down: when fabrics may be released
  std::unique_ptr<Turn> turn_;
  std::unique_ptr<TcpListener> listener_;
  HostPace pace_;  ///< of incoming connections
  std::string address_;
  base::IpPort bound_;  ///< the same in numbers
  std::vector<Slot> slots_;
  std::vector<FailedDial> failed_dials_;
  std::uint64_t dials_ = 0;
  LinkTraffic past_;  ///< of links that are gone
  bool shutting_down_ = false;
  std::function<void()> done_;
};

}  // namespace starling::io
