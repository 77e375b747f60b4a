// One path for a link's bytes: a carrier, the session on it and the cells inside. Internal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "io/carrier.hpp"
#include "io/cells.hpp"
#include "io/session.hpp"
#include "io/traffic.hpp"
#include "wire/messages.hpp"

namespace starling::io {

/// The receiver of a channel's data. An error ends the link: the other end broke the protocol.
class ChannelSink {
 public:
  ChannelSink() = default;
  ChannelSink(const ChannelSink&) = delete;
  ChannelSink& operator=(const ChannelSink&) = delete;
  virtual ~ChannelSink() = default;

  /// Bytes of the other end's stream, from `offset` on.
  [[nodiscard]] virtual base::Status on_data(std::uint64_t offset, base::ByteView bytes) = 0;
  [[nodiscard]] virtual base::Status on_cell(CellType type, base::ByteView cell) = 0;
  /// This many of the carrier's bytes were read.
  virtual void on_raw(std::size_t bytes) = 0;
  /// False: the link is over, and needs nothing more.
  [[nodiscard]] virtual bool wants_more() const = 0;
};

/// Not thread-safe. A channel that has failed can only be taken down.
class Channel {
 public:
  /// `session` is established, and the preambles are exchanged. `unsent`: the session's bytes to
  /// give to the carrier first.
  Channel(CarrierKind kind, std::unique_ptr<Carrier> carrier, std::unique_ptr<Session> session,
          base::Bytes unsent = {})
      : kind_(kind),
        carrier_(std::move(carrier)),
        session_(std::move(session)),
        encrypted_(std::move(unsent)) {}

  [[nodiscard]] CarrierKind kind() const noexcept { return kind_; }
  [[nodiscard]] const Session& session() const noexcept { return *session_; }

  // --- sending ---

  /// Bytes that put_data() takes now, at most kCellMax; 0: wait for a turn.
  [[nodiscard]] std::size_t room(std::size_t record_max) const noexcept;
  /// `bytes`, at most room(), are at `offset` of the own stream.
  [[nodiscard]] base::Status put_data(std::uint64_t offset, base::ByteView bytes,
                                      wire::Purpose purpose, LinkTraffic& traffic);
  /// A cell of another type. Only if may_put().
  [[nodiscard]] base::Status put(base::ByteView cell, LinkTraffic& traffic);
  [[nodiscard]] bool may_put() const noexcept { return carrier_->writable() > 0; }
  /// Gives the put bytes to the carrier.
  void flush(LinkTraffic& traffic);
  [[nodiscard]] std::size_t unconsumed() const noexcept {
    return carrier_->unconsumed() + encrypted_.size();
  }

  // --- receiving ---

  enum class Verdict : std::uint8_t {
    fine,
    failed,  ///< below the session: anybody in between may have done it
    breach,  ///< inside the session, so by the other end
  };
  /// Reads the received bytes, within a turn's share. text() says why if that failed.
  [[nodiscard]] Verdict receive(ChannelSink& sink);
  [[nodiscard]] bool readable() const noexcept { return carrier_->readable(); }
  /// Whether the carrier has ended by itself, with everything read; text() says why.
  [[nodiscard]] bool broken();
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] std::uint64_t take_overhead_received() noexcept {
    return carrier_->take_overhead_received();
  }

  void abort() { carrier_->abort(); }
  [[nodiscard]] bool closed() const noexcept { return carrier_->closed(); }

 private:
  [[nodiscard]] Verdict read_session(ChannelSink& sink);
  [[nodiscard]] base::Status read_cells(base::ByteView plain, ChannelSink& sink);
  [[nodiscard]] Verdict fail(Verdict verdict, std::string text) {
    text_ = std::move(text);
    return verdict;
  }

  CarrierKind kind_;
  std::unique_ptr<Carrier> carrier_;
  std::unique_ptr<Session> session_;
  std::uint64_t sends_at_ = 0;     ///< offset at which the other end expects the next data cell
  std::uint64_t receives_at_ = 0;  ///< the same for this end
  CellReader cells_;
  base::Bytes plain_;      ///< of the record under construction
  base::Bytes encrypted_;  ///< not yet given to the carrier
  std::string text_;
  bool drained_ = false;  ///< the bytes that came with the preamble were read
};

}  // namespace starling::io
