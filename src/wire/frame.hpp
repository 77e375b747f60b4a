// Frames, the units that a link carries. Layout, little-endian:
//
//   offset  size  field
//   0       1     major version; any other than ours ends the link
//   1       1     type; an unknown one is skipped
//   2       2     size of the metadata in units of 8 bytes (messages.hpp; verified on receipt)
//   4       4     bytes of payload (bulk data, checked by the code that understands it)
//   8       8     XXH3-64 of metadata and payload, seeded with the XXH3-64 of bytes 0 to 7
//   16      ..    metadata, padded to a multiple of 8; then the payload
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace starling::wire {

inline constexpr std::uint8_t kMajorVersion = 5;
inline constexpr std::size_t kFrameHeaderSize = 16;
inline constexpr std::size_t kMetadataMax = 64 * 1024;
/// Payload bound of a link on which no Hello was accepted yet.
inline constexpr std::size_t kPayloadMaxBeforeHello = 64 * 1024;

enum class FrameType : std::uint8_t {
  hello = 1,
  refuse = 2,
  neighbour = 3,
  gossip = 4,
  heartbeat = 5,
  link_open = 6,
  keyframe = 7,
  delta = 8,
  reduce = 9,
  bye = 10,
  reconcile = 11,
  run_file_request = 12,
  run_file_reply = 13,
  reduce_received = 14,
  settle = 16,
  dial_back = 20,
  dialed_back = 21,
  introduce = 22,
  circuit_call = 23,  ///< messages about circuits
  circuit = 15,       ///< bytes that a member passes on between two others; not a message
};

/// A received frame whose checksum holds. The views live as long as `bytes`, which is the frame
/// without its header.
struct Frame {
  std::uint8_t type = 0;  ///< may be a type that this version does not know
  std::size_t metadata_size = 0;
  base::Bytes bytes;

  [[nodiscard]] base::ByteView metadata() const {
    return base::ByteView(bytes).first(metadata_size);
  }
  [[nodiscard]] base::ByteView payload() const {
    return base::ByteView(bytes).subspan(metadata_size);
  }
};

/// Lays out one frame. `metadata` at most kMetadataMax; the payload is `payload`, then `more`.
[[nodiscard]] base::Bytes make_frame(FrameType type, base::ByteView metadata,
                                     base::ByteView payload, base::ByteView more = {});

/// Cuts a byte stream into frames. Holds at most one unfinished frame, and memory for at most eight
/// times the bytes that have arrived for it.
class FrameReader {
 public:
  explicit FrameReader(std::size_t payload_max = kPayloadMaxBeforeHello)
      : payload_max_(payload_max) {}

  /// The largest payload accepted from now on.
  void set_payload_max(std::size_t bytes) noexcept { payload_max_ = bytes; }

  /// Consumes bytes from the front of `stream` up to the end of at most one frame.
  /// Returns a frame when one is complete (call again, there may be more in `stream`); nothing when
  /// all bytes were used and the frame is unfinished; an error (protocol) when the stream is not
  /// ours, of another major version, over a bound or damaged: then the link must be closed.
  [[nodiscard]] base::Result<std::optional<Frame>> read(base::ByteView& stream);

  /// The type of the unfinished frame, once its header is here.
  [[nodiscard]] std::optional<std::uint8_t> unfinished() const noexcept {
    if (header_filled_ < kFrameHeaderSize) return std::nullopt;
    return std::to_integer<std::uint8_t>(header_[1]);
  }

 private:
  [[nodiscard]] base::Status start_body();
  [[nodiscard]] base::Result<Frame> finish();

  std::size_t payload_max_;
  std::array<std::byte, kFrameHeaderSize> header_{};
  std::size_t header_filled_ = 0;
  std::size_t metadata_size_ = 0;
  std::size_t body_size_ = 0;
  base::Bytes body_;
};

}  // namespace starling::wire
