#include "io/cells.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/endian.hpp"
#include "wire/frame.hpp"

namespace starling::io {
namespace {

constexpr std::size_t kTokenAt = 8;

template <class... Args>
tl::unexpected<base::Error> breach(fmt::format_string<Args...> text, Args&&... args) {
  return base::fail(base::ErrorCode::protocol, text, std::forward<Args>(args)...);
}

}  // namespace

base::Bytes encode(const Preamble& preamble) {
  base::Bytes bytes(kPreambleSize);
  bytes[0] = std::byte{wire::kMajorVersion};
  bytes[1] = static_cast<std::byte>(preamble.use);
  base::store_little(bytes, kTokenAt, preamble.token);
  return bytes;
}

base::Result<Preamble> decode_preamble(base::ByteView bytes) {
  ASSERT(bytes.size() == kPreambleSize);
  const unsigned version = std::to_integer<unsigned>(bytes[0]);
  if (version != wire::kMajorVersion) {
    return breach("the other end speaks link version {}, this peer speaks version {}", version,
                  wire::kMajorVersion);
  }
  const auto use = std::to_integer<std::uint8_t>(bytes[1]);
  if (use > static_cast<std::uint8_t>(SessionUse::carrier)) {
    return breach("the other end opens a session of an unknown kind ({})", use);
  }
  return Preamble{.use = static_cast<SessionUse>(use),
                  .token = base::load_little<std::uint64_t>(bytes, kTokenAt)};
}

void append_cell_header(base::Bytes& to, CellType type, std::size_t size) {
  ASSERT(size <= kCellMax);
  base::append_little(to,
                      static_cast<std::uint32_t>(type) | static_cast<std::uint32_t>(size << 8U));
}

base::Bytes number_cell(CellType type, std::uint64_t number) {
  base::Bytes cell;
  append_cell_header(cell, type, sizeof number);
  base::append_little(cell, number);
  return cell;
}

base::Result<std::uint64_t> number_in(base::ByteView cell) {
  if (cell.size() == sizeof(std::uint64_t)) return base::load_little<std::uint64_t>(cell);
  return breach("a cell has {} bytes for a number", cell.size());
}

base::Result<std::optional<CellReader::Part>> CellReader::read(base::ByteView& plain) {
  const auto take = [&](std::size_t wanted) {
    const base::ByteView taken = plain.first(std::min(wanted, plain.size()));
    plain = plain.subspan(taken.size());
    return taken;
  };
  if (header_filled_ < kCellHeaderSize) {
    const base::ByteView part = take(kCellHeaderSize - header_filled_);
    std::ranges::copy(part, header_.begin() + static_cast<std::ptrdiff_t>(header_filled_));
    header_filled_ += part.size();
    if (header_filled_ < kCellHeaderSize) return std::nullopt;
    const auto head = base::load_little<std::uint32_t>(header_);
    left_ = head >> 8U;
    const std::uint32_t type = head & 0xffU;
    if (type < static_cast<std::uint32_t>(CellType::data) ||
        type > static_cast<std::uint32_t>(CellType::door)) {
      return breach("the other end sends a cell of an unknown type ({})", type);
    }
    type_ = static_cast<CellType>(type);
    if (left_ > (type_ == CellType::data ? kCellMax : kControlCellMax)) {
      return breach("a cell of type {} announces {} bytes", type, left_);
    }
    control_.clear();
  }
  const base::ByteView part = take(left_);
  left_ -= part.size();
  if (type_ == CellType::data) {
    if (left_ == 0) header_filled_ = 0;
    if (part.empty()) return std::nullopt;
    return Part{type_, part};
  }
  control_.insert(control_.end(), part.begin(), part.end());
  if (left_ > 0) return std::nullopt;
  header_filled_ = 0;
  return Part{type_, control_};
}

}  // namespace starling::io
