// Links to other peers: the public interface of this folder's network code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "base/peer_id.hpp"
#include "base/port_range.hpp"
#include "base/result.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "io/carrier.hpp"
#include "io/identity.hpp"
#include "io/loop.hpp"
#include "io/proxy.hpp"
#include "io/secret.hpp"
#include "io/traffic.hpp"
#include "wire/frame.hpp"
#include "wire/messages.hpp"

namespace starling::io {

struct TransportConfig {
  /// "host:port" to listen on; port 0: any. A certain address also pins its network interface.
  std::string listen = "[::]:0";
  /// Dials leave from the listening port, if possible: so the dialed peers show how a router
  /// translates one port.
  bool one_port = false;
  /// False: no encryption, and no proof of the other end's identity. Must be equal at both ends.
  bool tls = true;
  /// With `tls`: an end with another secret, or without one, gets no link.
  std::optional<Secret> secret;
  /// links.fabric of a run file: "auto", "none", or a fabric's name.
  std::string fabric = "auto";
  /// The ports on which UCX may listen.
  base::PortRange fabric_ports{};
  /// The proxy through which peers are dialed, if it serves them.
  std::optional<ProxyConfig> proxy{};
  /// Bytes that may wait to be sent on one link; at least kLinkMemoryMin.
  std::size_t link_memory = 16UL << 20;
  /// Largest payload of a received frame once the link is accepted.
  std::size_t payload_max = 8UL << 20;
  /// From dialing, or from being dialed, to a secured link.
  base::Duration handshake_timeout = std::chrono::seconds(5);
  /// Links at a time, those not yet up or not yet gone included.
  std::size_t links_max = 256;
  /// Bytes a second that this peer passes on for others, over all circuits.
  std::uint64_t relay_limit = 125'000;
};

/// The current carrier of a link's bytes.
struct LinkCarrier {
  CarrierKind kind = CarrierKind::tcp;
  std::string why;  ///< why it is not UCX; empty if it is, or if there is nothing to say
};

inline constexpr std::size_t kLinkMemoryMin = 2UL << 20;
/// The most incoming links at a time that are not accepted yet; further ones are refused: in a
/// swarm without a secret, anybody's link comes up. Closing links count, too: they may take their
/// time.
inline constexpr std::size_t kStrangersMax = 64;
/// Of these, the most from one host before they have shown their identity, so that others find a
/// place.
inline constexpr std::size_t kStrangersPerHostMax = 48;
/// A graceful close sends queued frames for at most this long.
inline constexpr base::Duration kCloseTimeout = std::chrono::seconds(2);

/// Why a link went down.
enum class LinkEnd : std::uint8_t {
  closed,  ///< by close(), abort() or the other end's close()
  /// The connection broke: the other end crashed, or the network failed. Or bytes below the session
  /// are wrong, which anybody in between can cause.
  reset,
  protocol_error,  ///< the other end broke the protocol inside the session
  turned_away,     ///< an end does not have the other's secret
  no_route,        ///< of a dial: this machine has no route to any of the addresses
};

[[nodiscard]] const char* to_string(LinkEnd end) noexcept;

/// The facts about a link when it comes up.
struct LinkUp {
  base::PeerId peer;
  std::uint64_t dial = 0;  ///< the result of dial(); 0 if the other end dialed
  std::string address;     ///< the dialed address, or `observed`
  /// The ip:port of both ends of the connection as this machine sees them; empty: the link goes
  /// over a circuit or through a proxy.
  std::string observed;
  std::string local;
  base::LinkId via{};   ///< over a circuit: the link with the relay
  bool opened = false;  ///< over a circuit: this end was told to begin
};

/// The end of a circuit that this peer is an end of or passes on.
struct CircuitEnd {
  base::LinkId link;  ///< of a circuit that is passed on, either link
  std::uint32_t number = 0;
  std::uint64_t bytes = 0;  ///< passed on by this peer
};

/// A transport's reports; called on the loop thread, never from inside a Transport method. Every
/// Transport method except the destructor may be called from here.
class TransportHandler {
 public:
  TransportHandler() = default;
  TransportHandler(const TransportHandler&) = delete;
  TransportHandler& operator=(const TransportHandler&) = delete;
  virtual ~TransportHandler() = default;

  /// A secured link: frames may be sent. A peer may be linked more than once.
  virtual void on_link_up(base::LinkId link, const LinkUp& up) = 0;
  /// A frame with a correct checksum, of a known or unknown type. Payloads are bounded (see
  /// accept()). `took`: the time from its first byte to its last, if it came in parts; 0: all at
  /// once.
  virtual void on_frame(base::LinkId link, wire::Frame&& frame, base::Duration took) = 0;
  /// `bytes` of an incomplete frame of this type have come, as in peer::Arriving.
  virtual void on_part(base::LinkId link, std::uint8_t type, std::size_t bytes) = 0;
  /// Exactly once after on_link_up; afterwards the id is not valid (traffic() still works inside).
  virtual void on_link_down(base::LinkId link, LinkEnd end, const std::string& text) = 0;
  /// A dial that did not become a link: unknown host, nobody there, refused, failed handshake,
  /// time-out.
  virtual void on_dial_failed(std::uint64_t dial, LinkEnd end, const std::string& text) = 0;
  /// Once for each open_circuit() and each relay(); the end of a link over it comes first.
  virtual void on_circuit_ended(const CircuitEnd& ended) = 0;
};

/// Dials, listens, encrypts and moves frames in order. One thread: the loop's.
class Transport {
 public:
  /// Listens when it returns. Errors (network) name the address: occupied, not ours, malformed.
  /// `loop` and `handler` must outlive the transport; `identity` is copied from.
  [[nodiscard]] static base::Result<std::unique_ptr<Transport>> create(
      Loop& loop, const TransportConfig& config, const Identity& identity,
      TransportHandler& handler);
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  /// Cuts the remaining links, without a report. Not from inside a handler.
  virtual ~Transport() = default;

  /// The ip:port on which it listens.
  [[nodiscard]] virtual const std::string& address() const noexcept = 0;
  [[nodiscard]] virtual const base::IpPort& bound() const noexcept = 0;

  /// Starts a link to "host:port". The number returned, above 0, comes back in on_link_up or
  /// on_dial_failed, one of which follows within handshake_timeout.
  [[nodiscard]] virtual std::uint64_t dial(const std::string& address) = 0;
  /// The same from the listening port, to a peer that does so toward this one at the same moment.
  /// `address` is numeric. In TLS, the peer with the smaller id is the client. A connection that
  /// comes in from there meanwhile counts as this one.
  [[nodiscard]] virtual std::uint64_t punch(const std::string& address,
                                            const base::PeerId& peer) = 0;

  /// A link with `peer` inside those frames on the link with a relay that have `number`. One end,
  /// `opens`, begins. Comes up within handshake_timeout, or ends (CircuitEnd).
  virtual void open_circuit(base::LinkId link, std::uint32_t number, const base::PeerId& peer,
                            bool opens) = 0;
  /// Passes on the frames for `number_a` on link `a` as `number_b` on link `b`, and back, within
  /// relay_limit.
  virtual void relay(base::LinkId a, std::uint32_t number_a, base::LinkId b,
                     std::uint32_t number_b) = 0;
  /// Ends a circuit that this peer passes on, named by either leg, or is an end of.
  virtual void end_circuit(base::LinkId link, std::uint32_t number) = 0;

  /// Queues a frame made by wire::encode or wire::make_frame. False, and nothing is queued, if
  /// there is no such link, it is being closed, or it would hold more than link_memory.
  [[nodiscard]] virtual bool send(base::LinkId link, base::Bytes frame, wire::Purpose purpose) = 0;

  /// Raises the bound of received payloads from wire::kPayloadMaxBeforeHello to payload_max.
  virtual void accept(base::LinkId link) = 0;

  /// Sends queued frames (for at most kCloseTimeout), then closes. No more frames are reported;
  /// on_link_down follows.
  virtual void close(base::LinkId link) = 0;
  /// Cuts a link at once; on_link_down follows.
  virtual void abort(base::LinkId link) = 0;

  [[nodiscard]] virtual LinkCarrier carrier(base::LinkId link) const = 0;
  /// All zero for a link that is gone.
  [[nodiscard]] virtual LinkTraffic traffic(base::LinkId link) const = 0;
  /// Of all links since the start.
  [[nodiscard]] virtual LinkTraffic traffic() const = 0;

  /// Stops listening, fails dials, closes all links; calls `done` once nothing is left. The
  /// transport must not be destroyed inside `done`.
  virtual void shutdown(std::function<void()> done) = 0;
};

}  // namespace starling::io
