// One link of a transport: a stream, the session on it and the frames inside. Internal.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "io/arrival.hpp"
#include "io/bootstrap.hpp"
#include "io/message_size.hpp"
#include "io/session.hpp"
#include "io/traffic.hpp"
#include "io/transport.hpp"
#include "io/ucx_stream.hpp"
#include "wire/frame.hpp"

namespace starling::io {

/// The states: connecting (the bootstrap) -> up -> closing -> over, any of which may be skipped but
/// the last. pump() does all work; commands only change what it will do.
class Link {
 public:
  enum class State : std::uint8_t { connecting, up, closing, over };
  struct Verdict {
    LinkEnd end;
    std::string text;
  };

  /// `dial`: number of the dial, 0 for a link that was accepted. `bootstrap` has been started.
  Link(std::uint64_t dial, std::string address, std::unique_ptr<Bootstrap> bootstrap,
       std::size_t memory, base::Time deadline)
      : dial_(dial),
        address_(std::move(address)),
        bootstrap_(std::move(bootstrap)),
        memory_(memory),
        deadline_(deadline) {}

  [[nodiscard]] bool send(base::Buffer frame, wire::Purpose purpose);
  void set_payload_max(std::size_t bytes) { reader_.set_payload_max(bytes); }
  void close(base::Time deadline);
  /// The token with which a UCX stream for this link will come, if one is awaited.
  [[nodiscard]] std::optional<std::uint64_t> awaited() const noexcept {
    return bootstrap_ ? bootstrap_->awaited() : std::nullopt;
  }
  /// That stream; needs awaited().
  void attach(std::unique_ptr<UcxStream> stream) { bootstrap_->attach(std::move(stream)); }
  /// Ends the link now; the first verdict stands.
  void finish(LinkEnd end, std::string text);

  /// As TransportHandler::on_frame() and on_part() have it.
  using OnFrame = std::function<void(wire::Frame&&, base::Duration took)>;
  using OnPart = std::function<void(std::uint8_t type, std::size_t bytes)>;
  /// What a link tells its owner. Both may call the commands above.
  struct Reports {
    OnFrame frame;
    OnPart part;
  };
  /// Moves what can be moved. True if there is more to do without a network event.
  [[nodiscard]] bool pump(base::Time now, const Reports& reports);

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] std::uint64_t dial() const noexcept { return dial_; }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] const base::PeerId& peer() const noexcept { return session_->peer(); }
  [[nodiscard]] const LinkTraffic& traffic() const noexcept { return traffic_; }
  /// Why the link is over, or closed by the other end, as soon as that is known.
  [[nodiscard]] const std::optional<Verdict>& verdict() const noexcept { return verdict_; }
  /// When pump() must be called if nothing happens before.
  [[nodiscard]] base::Time deadline() const noexcept { return deadline_; }
  /// Over, and UCX has let go: may be destroyed.
  [[nodiscard]] bool gone() const noexcept {
    return state_ == State::over && (stream_ == nullptr || stream_->closed());
  }

 private:
  struct Outgoing {
    base::Buffer frame;
    std::size_t sent = 0;
    wire::Purpose purpose;
  };

  [[nodiscard]] bool pump_bootstrap(base::Time now);
  void receive(base::Time now, const Reports& reports);
  void receive_message(base::ByteView message, base::Time now, const Reports& reports);
  [[nodiscard]] base::Status deliver(base::ByteView plain, base::Time now, const Reports& reports);
  void count_received(wire::Purpose purpose, std::size_t frame_size);
  void check_stream(base::Time now);
  void transmit(base::Time now);
  [[nodiscard]] base::Status fill(std::size_t room);
  void progress_close();

  std::uint64_t dial_;
  std::string address_;
  std::unique_ptr<Bootstrap> bootstrap_;  ///< while connecting, and until a failure is told
  std::unique_ptr<TcpStream> tcp_;        ///< of an open link; carries nothing, its end is the news
  std::unique_ptr<UcxStream> stream_;
  std::unique_ptr<Session> session_;
  wire::FrameReader reader_;
  Arrival arrival_;  ///< of the frame that is being read
  MessageSize message_size_;
  std::size_t memory_;
  /// Until when what the state waits for must have come: connecting, that the link is up; closing,
  /// that everything was sent. Otherwise there is nothing to wait for (Time::max()).
  base::Time deadline_;
  State state_ = State::connecting;
  std::optional<Verdict> verdict_;
  bool ended_by_other_ = false;

  std::deque<Outgoing> queue_;
  std::size_t queued_ = 0;                                  ///< bytes and overhead of queue_
  base::Buffer encrypted_;                                  ///< not yet given to the stream
  wire::Purpose encrypted_purpose_ = wire::Purpose::other;  ///< of its first byte
  std::uint64_t unattributed_ = 0;  ///< received bytes around frames that are not complete
  LinkTraffic traffic_;
};

}  // namespace starling::io
