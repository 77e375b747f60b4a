// One end's stream of frames: the bytes that wait to be sent, and those that were sent and are not
// known to have arrived. A byte's offset in the stream is its number on every carrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "wire/messages.hpp"

namespace starling::io {

/// The most bytes of a stream that are sent and not known to be taken: they are sent again if a
/// carrier fails.
inline constexpr std::size_t kWindow = 1024UL * 1024;

class Outgoing {
 public:
  /// The cost of a queued frame beside its bytes.
  static constexpr std::size_t kFrameOverhead = 64;

  struct Next {
    base::ByteView bytes;  ///< the rest of the frame to send, as far as allowed
    wire::Purpose purpose = wire::Purpose::other;
    std::size_t frame_size = 0;
    bool first = false;  ///< they begin the frame
  };

  void push(base::Bytes frame, wire::Purpose purpose);
  /// Bytes and overhead of the kept frames.
  [[nodiscard]] std::size_t held() const noexcept { return held_; }

  /// The bytes at position(); none if all were sent or the window is full. Valid until a command.
  [[nodiscard]] Next next() const;
  /// `bytes` of them were sent.
  void sent(std::size_t bytes);
  /// Offset of the byte that is sent next.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  /// Bytes that wait to be sent.
  [[nodiscard]] std::size_t waiting() const noexcept {
    return static_cast<std::size_t>(end_ - position_);
  }
  /// Whether nothing waits to be sent.
  [[nodiscard]] bool drained() const noexcept { return position_ == end_; }
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }

  /// The other end has everything before `offset`. Error (protocol): it was not sent.
  [[nodiscard]] base::Status taken(std::uint64_t offset);
  /// Sends the bytes that are not known to be taken again.
  void rewind() noexcept;

  /// Forgets the bytes that are not known to be taken, so that nothing is sent again, and the
  /// frames that were not begun: the rest of the stream is useless.
  void clear();

 private:
  struct Frame {
    base::Bytes bytes;
    wire::Purpose purpose;
    std::uint64_t begin;  ///< its first byte's offset
  };

  std::deque<Frame> frames_;  ///< those whose last byte is not known to be taken
  std::size_t held_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t sent_most_ = 0;  ///< end of the bytes that were ever sent
  std::uint64_t end_ = 0;
  std::size_t at_ = 0;  ///< number in frames_ of the frame with position_
};

}  // namespace starling::io
