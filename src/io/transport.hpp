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
#include "base/result.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
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
  /// False: no encryption and nothing proves who the other end is. Must be equal at both ends.
  bool tls = true;
  /// With `tls`: who has another one, or has none, gets no link.
  std::optional<Secret> secret;
  /// Through which peers are dialed that it serves.
  std::optional<ProxyConfig> proxy{};
  /// Bytes that may wait on one link to be sent; at least kLinkMemoryMin.
  std::size_t link_memory = 16UL << 20;
  /// Largest payload of a received frame once the link is accepted.
  std::size_t payload_max = 8UL << 20;
  /// From dialing, or from being dialed, to a secured link.
  base::Duration handshake_timeout = std::chrono::seconds(5);
  /// Links at a time, those not yet up or not yet gone included.
  std::size_t links_max = 256;
};

inline constexpr std::size_t kLinkMemoryMin = 2UL << 20;
/// Being dialed by more at a time, before their links are accepted, is refused: in a swarm without
/// a secret anybody's link comes up. Links that close count, too: they may take their time.
inline constexpr std::size_t kStrangersMax = 64;
/// Of these from one host, before they have shown who they are: others find a place beside it.
inline constexpr std::size_t kStrangersPerHostMax = 48;
/// A graceful close sends what is queued for at most this long.
inline constexpr base::Duration kCloseTimeout = std::chrono::seconds(2);

/// Why a link went down.
enum class LinkEnd : std::uint8_t {
  closed,  ///< by close(), abort() or the other end's close()
  /// The connection broke: the other end crashed, or the network did. Or bytes below the session
  /// are not as they must be, which anybody in between can do.
  reset,
  protocol_error,  ///< the other end sent, inside the session, what it must not
  turned_away,     ///< one of the ends has not the other's secret
};

[[nodiscard]] const char* to_string(LinkEnd end) noexcept;

/// What a transport reports; called on the loop thread, never from inside a Transport method.
/// Every Transport method but the destructor may be called from here.
class TransportHandler {
 public:
  TransportHandler() = default;
  TransportHandler(const TransportHandler&) = delete;
  TransportHandler& operator=(const TransportHandler&) = delete;
  virtual ~TransportHandler() = default;

  /// A secured link: frames may be sent. `dial`: what dial() returned, 0 if the other end dialed.
  /// `address`: what was dialed, or the other end's ip:port. A peer may be linked more than once.
  virtual void on_link_up(base::LinkId link, const base::PeerId& peer, std::uint64_t dial,
                          const std::string& address) = 0;
  /// A frame with a right checksum, of a known type or not. Payloads are bounded (see accept()).
  /// `took`: from its first byte to its last, as far as its parts came one by one; 0: all at once.
  virtual void on_frame(base::LinkId link, wire::Frame&& frame, base::Duration took) = 0;
  /// Of a frame of this type, which is not complete, so many bytes came: as peer::Arriving has it.
  virtual void on_part(base::LinkId link, std::uint8_t type, std::size_t bytes) = 0;
  /// Exactly once after on_link_up; the id names nothing after it (traffic() still works inside).
  virtual void on_link_down(base::LinkId link, LinkEnd end, const std::string& text) = 0;
  /// A dial that became no link: unknown host, nobody there, refused, failed handshake, time-out.
  virtual void on_dial_failed(std::uint64_t dial, LinkEnd end, const std::string& text) = 0;
};

/// Dials, listens, encrypts and moves frames in order. One thread: the loop's.
class Transport {
 public:
  /// Listens when it returns. Errors (network) name the address: occupied, not ours, malformed.
  /// `loop` and `handler` must outlive the transport; `identity` is copied from.
  [[nodiscard]] static base::Result<std::unique_ptr<Transport>> create(
      Loop& loop, const TransportConfig& config, const Identity& identity,
      TransportHandler& handler);
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  /// Cuts what is left, without a report. Not from inside a handler.
  ~Transport();

  /// The ip:port that is listened on.
  [[nodiscard]] const std::string& address() const noexcept;

  /// Starts a link to "host:port". The number returned, above 0, comes back in on_link_up or
  /// on_dial_failed, one of which follows within handshake_timeout.
  [[nodiscard]] std::uint64_t dial(const std::string& address);

  /// Queues a frame made by wire::encode or wire::make_frame. False, and nothing is queued, if
  /// there is no such link, it is being closed, or it would hold more than link_memory.
  [[nodiscard]] bool send(base::LinkId link, base::Buffer frame, wire::Purpose purpose);

  /// Raises the bound of received payloads from wire::kPayloadMaxBeforeHello to payload_max.
  void accept(base::LinkId link);

  /// Sends what is queued (kCloseTimeout at most), then closes. No frame is reported any more;
  /// on_link_down follows.
  void close(base::LinkId link);
  /// Cuts a link at once; on_link_down follows.
  void abort(base::LinkId link);

  /// All zero for a link that is no more.
  [[nodiscard]] LinkTraffic traffic(base::LinkId link) const;
  /// Of all links since the start.
  [[nodiscard]] LinkTraffic traffic() const;

  /// The machine's network has changed. UCX knows the interfaces of its start alone: it is started
  /// anew as soon as no link is up. Nothing where links have an interface of their own.
  void renew();

  /// Stops listening, fails dials, closes all links; calls `done` once nothing is left. The
  /// transport must not be destroyed inside `done`.
  void shutdown(std::function<void()> done);

 private:
  class Impl;
  explicit Transport(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace starling::io
