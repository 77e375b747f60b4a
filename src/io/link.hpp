// One link of a transport: two streams of frames over one or more channels. Internal.
//
// Each end's frames are one stream of bytes, and a byte's number is its offset in the stream. An
// end sends on one channel at a time, the best it has. If a stretch does not follow the one before
// on the same channel, it begins with a cell that states its offset. The other end reports how far
// it has come. So a link moves from carrier to carrier without any agreement: the data continues
// elsewhere, and the receiver puts it in order. If a channel breaks, the bytes that are not known
// to have arrived (at most kWindow) are sent again on another one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "io/arrival.hpp"
#include "io/bootstrap.hpp"
#include "io/channels.hpp"
#include "io/incoming.hpp"
#include "io/outgoing.hpp"
#include "io/record_size.hpp"
#include "io/traffic.hpp"
#include "io/transport.hpp"
#include "wire/frame.hpp"

namespace starling::io {

/// The states: connecting (the bootstrap) -> up -> closing -> over. All but the last may be
/// skipped. pump() does all work; commands only change what it will do.
class Link {
 public:
  /// Cells that wait for a channel, beside those of the streams themselves.
  static constexpr std::size_t kCellsMax = 8;
  /// How often an end may ask for lost bytes: at most once per carrier, so rarely. Each time costs
  /// the other end at most a window.
  static constexpr std::size_t kAgainMax = 1024;

  enum class State : std::uint8_t { connecting, up, closing, over };
  struct Verdict {
    LinkEnd end;
    std::string text;
  };

  /// `dial`: number of the dial, 0 for a link that was accepted. `bootstrap` has been started.
  Link(std::uint64_t dial, std::string address, std::unique_ptr<Bootstrap> bootstrap,
       std::size_t memory, base::Time deadline);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  /// Only when gone().
  ~Link();

  [[nodiscard]] bool send(base::Bytes frame, wire::Purpose purpose);
  void set_payload_max(std::size_t bytes) { reader_.set_payload_max(bytes); }
  void close(base::Time deadline);
  /// Ends the link now; the first verdict stands.
  void finish(LinkEnd end, std::string text);

  /// While connecting: tries another way, within the same time.
  void restart(std::unique_ptr<Bootstrap> bootstrap);
  /// Sends the other end a cell about carriers. Dropped if kCellsMax wait.
  void put(CellType type, base::ByteView cell);
  /// As Channels::add(): the best channel is used from now on.
  void add(std::unique_ptr<Channel> channel) { channels_.add(std::move(channel)); }
  void add(std::unique_ptr<Bootstrap> bootstrap, base::Time deadline) {
    channels_.add(std::move(bootstrap), deadline);
  }
  /// If this link is up because of a channel that belongs to another link: gives up that channel.
  /// This link is then over, without a report.
  [[nodiscard]] std::unique_ptr<Channel> give_channel();

  /// A link's reports to its owner. All may call the commands above.
  struct Reports {
    /// Like TransportHandler::on_frame() and on_part().
    std::function<void(wire::Frame&&, base::Duration took)> frame;
    std::function<void(std::uint8_t type, std::size_t bytes)> part;
    /// A cell of another type than those of the streams.
    std::function<base::Status(CellType type, base::ByteView cell)> cell;
    Channels::Lost lost;
  };
  /// Sends and receives what it can. True if there is more to do without a network event.
  [[nodiscard]] bool pump(base::Time now, const Reports& reports);

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] std::uint64_t dial() const noexcept { return dial_; }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] const base::PeerId& peer() const noexcept { return peer_; }
  /// This end's role in the first session; needs `up`.
  [[nodiscard]] Role role() const noexcept { return session().role(); }
  /// The purpose for which the other end opened the link's first session; from `up` on.
  [[nodiscard]] const Preamble& opened() const noexcept { return opened_; }
  /// The route of the connection with which the link began, if there was one.
  [[nodiscard]] const std::optional<Route>& route() const noexcept { return route_; }
  /// The carrier on which this end sends; needs `up`.
  [[nodiscard]] CarrierKind carrier() const noexcept { return channels_.best().kind(); }
  [[nodiscard]] bool has(CarrierKind kind) const noexcept { return channels_.has(kind); }
  /// Bytes of frames that wait to be sent.
  [[nodiscard]] std::size_t waiting() const noexcept { return out_.waiting(); }
  /// The session of the first channel; needs `up`.
  [[nodiscard]] const Session& session() const noexcept {
    return channels_.all().front()->session();
  }
  [[nodiscard]] const LinkTraffic& traffic() const noexcept { return traffic_; }
  /// Why the link is over, or was closed by the other end, as soon as that is known.
  [[nodiscard]] const std::optional<Verdict>& verdict() const noexcept { return verdict_; }
  /// When pump() must be called if nothing happens before.
  [[nodiscard]] base::Time deadline() const noexcept {
    return std::min(deadline_, channels_.deadline());
  }
  /// Over, and the carriers are released: may be destroyed.
  [[nodiscard]] bool gone() const noexcept { return state_ == State::over && channels_.closed(); }

 private:
  class Sink;

  [[nodiscard]] bool pump_bootstrap(base::Time now);
  void receive(base::Time now, const Reports& reports);
  void drop_broken(const Reports& reports);
  void drop(std::size_t channel, const std::string& why, const Reports& reports);
  void begin_closing(base::Time deadline);
  [[nodiscard]] base::Status on_cell(CellType type, base::ByteView cell, const Reports& reports);
  [[nodiscard]] base::Status deliver(base::ByteView bytes, base::Time now, const Reports& reports);
  void count_received(wire::Purpose purpose, std::size_t later);
  void check_end(base::Time now);
  void transmit(base::Time now);
  [[nodiscard]] base::Status fill(Channel& channel);
  [[nodiscard]] base::Status put_cells(Channel& channel);
  void progress_close();
  [[nodiscard]] bool ended_by_all() const noexcept;

  std::uint64_t dial_;
  std::string address_;
  base::PeerId peer_;
  Preamble opened_;
  std::optional<Route> route_;
  std::unique_ptr<Bootstrap> bootstrap_;  ///< while connecting, and until a failure is told
  Channels channels_;
  Outgoing out_;
  Incoming in_;
  std::uint64_t told_ = 0;          ///< bytes of the other end's stream reported to it as taken
  std::size_t asked_again_ = 0;     ///< by the other end
  bool wants_again_ = false;        ///< bytes in flight to this end may be lost
  std::vector<base::Bytes> cells_;  ///< to be sent
  std::optional<std::uint64_t> ends_at_;  ///< offset at which the other end's stream ends
  bool end_sent_ = false;
  wire::FrameReader reader_;
  Arrival arrival_;  ///< of the frame that is being read
  RecordSize record_size_;
  std::size_t memory_;
  /// The deadline of the state: connecting, for the link to be up; closing, for everything to be
  /// sent. Otherwise there is none (Time::max()).
  base::Time deadline_;
  State state_ = State::connecting;
  std::optional<Verdict> verdict_;
  bool ended_by_other_ = false;
  std::uint64_t unattributed_ = 0;  ///< received bytes around frames that are not complete
  LinkTraffic traffic_;
};

}  // namespace starling::io
