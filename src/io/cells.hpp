// The cells that the ends of a link exchange inside a session, below frames. Layout, little-endian.
//
// A session begins with a preamble from each end:
//
//   offset  size  field
//   0       1     version of the link protocol: wire::kMajorVersion
//   1       1     purpose of the session: 0 a link of its own, 1 another carrier of a link
//   2       6     zeros
//   8       8     token of the link that gets another carrier; otherwise 0
//
// Cells follow, each with a header:
//
//   offset  size  field
//   0       1     type
//   1       3     bytes that follow
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "io/session.hpp"

namespace starling::io {

inline constexpr std::size_t kPreambleSize = 16;

enum class SessionUse : std::uint8_t { link, carrier };

struct Preamble {
  SessionUse use = SessionUse::link;
  std::uint64_t token = 0;
};

[[nodiscard]] base::Bytes encode(const Preamble& preamble);
/// Error (protocol): another version, or not a peer.
[[nodiscard]] base::Result<Preamble> decode_preamble(base::ByteView bytes);

enum class CellType : std::uint8_t {
  data = 1,    ///< the next bytes of the sender's stream of frames, on this carrier
  resume = 2,  ///< u64: offset in that stream of the data that follows on this carrier
  taken = 3,   ///< u64: number of bytes of the other end's stream that the sender has
  again = 4,   ///< the same; later bytes may be lost and must be sent again
  end = 5,     ///< u64: the sender's stream ends at this offset
  offer = 6,   ///< the sender's facts about fabrics (fabric_talk.hpp)
  door = 7,    ///< where the sender takes UCX connections for this link
};

inline constexpr std::size_t kCellHeaderSize = 4;
/// Bytes in a cell, which with the header make one record of a session.
inline constexpr std::size_t kCellMax = kRecordMax - kCellHeaderSize;
/// Bytes in a cell that is not data.
inline constexpr std::size_t kControlCellMax = 512;

/// Appends a cell's header.
void append_cell_header(base::Bytes& to, CellType type, std::size_t size);
/// A whole cell with one number.
[[nodiscard]] base::Bytes number_cell(CellType type, std::uint64_t number);
/// The number in such a cell. Error (protocol): wrong size.
[[nodiscard]] base::Result<std::uint64_t> number_in(base::ByteView cell);

/// Cuts a session's bytes into cells. Data comes in parts as it arrives, other cells whole.
class CellReader {
 public:
  struct Part {
    CellType type = CellType::data;
    base::ByteView bytes;  ///< of `plain`, or of this reader until the next call
  };

  /// Consumes bytes from the front of `plain` up to the end of at most one part; returns nothing
  /// when all were used without completing one. Error (protocol): an unknown type or a size out of
  /// bounds.
  [[nodiscard]] base::Result<std::optional<Part>> read(base::ByteView& plain);

 private:
  std::array<std::byte, kCellHeaderSize> header_{};
  std::size_t header_filled_ = 0;
  CellType type_ = CellType::data;
  std::size_t left_ = 0;  ///< missing bytes of the cell
  base::Bytes control_;
};

}  // namespace starling::io
