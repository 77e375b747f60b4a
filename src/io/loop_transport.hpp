// The transport on a loop: a listener, links, and the sources of their carriers. Internal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "io/circuits.hpp"
#include "io/dialer.hpp"
#include "io/fabrics.hpp"
#include "io/host_pace.hpp"
#include "io/link_table.hpp"
#include "io/tls.hpp"
#include "io/transport.hpp"
#include "io/turn.hpp"

namespace starling::io {

class LoopTransport final : public Transport, private CircuitLinks {
 public:
  LoopTransport(Loop& loop, const TransportConfig& config, const Identity& identity,
                TransportHandler& handler);
  ~LoopTransport() override;

  /// Listens.
  [[nodiscard]] base::Status start(Loop& loop, const Identity& identity);

  [[nodiscard]] const std::string& address() const noexcept override { return address_; }
  [[nodiscard]] const base::IpPort& bound() const noexcept override { return bound_; }
  [[nodiscard]] std::uint64_t dial(const std::string& address) override {
    return dialer_.dial(address, bound_);
  }
  [[nodiscard]] std::uint64_t punch(const std::string& address, const base::PeerId& peer) override {
    return dialer_.punch(address, peer, bound_);
  }
  void open_circuit(base::LinkId id, std::uint32_t number, const base::PeerId& peer,
                    bool opens) override;
  void relay(base::LinkId a, std::uint32_t number_a, base::LinkId b,
             std::uint32_t number_b) override {
    circuits_.relay(a, number_a, b, number_b, Loop::now());
  }
  void end_circuit(base::LinkId id, std::uint32_t number) override { circuits_.end(id, number); }
  [[nodiscard]] bool send(base::LinkId id, base::Bytes frame, wire::Purpose purpose) override;
  void accept(base::LinkId id) override;
  void close(base::LinkId id) override;
  void abort(base::LinkId id) override;
  [[nodiscard]] LinkCarrier carrier(base::LinkId id) const override;
  [[nodiscard]] LinkTraffic traffic(base::LinkId id) const override;
  [[nodiscard]] LinkTraffic traffic() const override { return links_.traffic(); }
  void shutdown(std::function<void()> done) override;

 private:
  using Slot = LinkTable::Slot;

  bool send_circuit_frame(base::LinkId id, base::Bytes frame) override;
  [[nodiscard]] std::optional<std::size_t> waiting_on(base::LinkId id) const override;

  [[nodiscard]] bool turn();
  void answer(std::unique_ptr<TcpStream> tcp);
  void take_ucx_connections(base::Time now);
  [[nodiscard]] bool pump(base::LinkId id, Slot& slot, base::Time now);
  void join(Link& carrier);
  void on_circuit_frame(base::LinkId id, Slot& slot, base::ByteView payload);
  void report_up(base::LinkId id, Slot& slot);
  void report_down(base::LinkId id, const Slot& slot);
  [[nodiscard]] bool report_failed_dials();
  [[nodiscard]] bool report_ended_circuits();
  void set_timer(base::Time now);
  void finish_shutdown();
  [[nodiscard]] base::Result<std::unique_ptr<Session>> make_session(Role role) const;

  const TransportConfig config_;
  const base::PeerId self_;
  TransportHandler& handler_;
  std::optional<TlsContext> tls_;
  LinkTable links_;
  Dialer dialer_;
  Timer timer_;
  base::Time timer_at_ = base::Time::max();
  Fabrics fabrics_;
  base::Time fabrics_at_ = base::Time::max();  ///< when to check which of them are unused
  Circuits circuits_;
  bool stirred_ = false;                ///< a link that had its turn has something to send
  std::optional<base::Time> quiet_at_;  ///< shutting down: when fabrics may be released
  std::unique_ptr<Turn> turn_;
  std::unique_ptr<TcpListener> listener_;  ///< null once it shuts down
  HostPace pace_;                          ///< of incoming connections
  std::string address_;
  base::IpPort bound_;  ///< the same in numbers
  std::function<void()> done_;
};

}  // namespace starling::io
