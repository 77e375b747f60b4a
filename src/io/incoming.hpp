// Puts the other end's stream of frames together from a link's carriers: each byte once, in order,
// even if bytes were sent twice or came early.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "io/outgoing.hpp"

namespace starling::io {

class Incoming {
 public:
  /// Stretches that may wait for earlier bytes; each begins with a move to another carrier.
  static constexpr std::size_t kStretchesMax = 16;

  /// Offset of the next byte: all before it were delivered.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  /// Bytes that came before their turn.
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }

  /// `bytes` of the stream from `offset` on have come. Bytes that are due go in order to
  /// `deliver(view)`, whose error ends this. Error (protocol): more than the window.
  template <class Deliver>
  [[nodiscard]] base::Status add(std::uint64_t offset, base::ByteView bytes, Deliver&& deliver) {
    const std::uint64_t end = offset + bytes.size();
    if (offset > position_ + kWindow || end > position_ + kWindow) {
      return base::fail(base::ErrorCode::protocol, "the other end sends more than it may");
    }
    if (end <= position_) return {};
    if (offset > position_) return keep(offset, bytes);
    if (auto status = take(offset, bytes, deliver); !status) return status;
    while (!waiting_stretches_.empty() && waiting_stretches_.begin()->first <= position_) {
      const auto [begin, stretch] = std::move(*waiting_stretches_.begin());
      waiting_stretches_.erase(waiting_stretches_.begin());
      waiting_ -= stretch.size();
      if (begin + stretch.size() <= position_) continue;
      if (auto status = take(begin, stretch, deliver); !status) return status;
    }
    return {};
  }

 private:
  template <class Deliver>
  [[nodiscard]] base::Status take(std::uint64_t offset, base::ByteView bytes, Deliver& deliver) {
    const auto known = static_cast<std::size_t>(position_ - offset);
    position_ = offset + bytes.size();
    return deliver(bytes.subspan(known));
  }

  [[nodiscard]] base::Status keep(std::uint64_t offset, base::ByteView bytes);

  std::uint64_t position_ = 0;
  std::map<std::uint64_t, base::Bytes> waiting_stretches_;  ///< by offset
  std::size_t waiting_ = 0;
};

}  // namespace starling::io
