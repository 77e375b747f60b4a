// One end's stream of frames: what waits to be sent, and what was sent and is not known to have
// arrived. A byte's place in the stream, its offset, is its number on whatever carrier it goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "wire/messages.hpp"

namespace starling::io {

/// Bytes of a stream that are sent and not known to be taken, at most: they go again where a
/// carrier fails.
inline constexpr std::size_t kWindow = 1024UL * 1024;

class Outgoing {
 public:
  /// What a queued frame costs beside its bytes.
  static constexpr std::size_t kFrameOverhead = 64;

  struct Next {
    base::ByteView bytes;  ///< the rest of the frame that is to be sent, as far as allowed
    wire::Purpose purpose = wire::Purpose::other;
    std::size_t frame_size = 0;
    bool first = false;  ///< they begin the frame
  };

  void push(base::Buffer frame, wire::Purpose purpose);
  /// Bytes and overhead of what is kept.
  [[nodiscard]] std::size_t held() const noexcept { return held_; }

  /// The bytes at position(); none if all were sent or the window is full. Valid until a command.
  [[nodiscard]] Next next() const;
  /// So many of them were sent.
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
  /// What is not known to be taken is sent again.
  void rewind() noexcept;

  /// Forgets what is not known to be taken, so that nothing goes again, and what was not begun to
  /// be sent: the rest of the stream is of no use.
  void clear();

 private:
  struct Frame {
    base::Buffer bytes;
    wire::Purpose purpose;
    std::uint64_t begin;  ///< its first byte's offset
  };

  std::deque<Frame> frames_;  ///< those whose last byte is not known to be taken
  std::size_t held_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t sent_most_ = 0;  ///< end of what was ever sent
  std::uint64_t end_ = 0;
  std::size_t at_ = 0;  ///< number in frames_ of the frame with position_
};

}  // namespace starling::io
