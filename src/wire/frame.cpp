#include "wire/frame.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/integer.hpp"
#include "base/simulated.hpp"

namespace starling::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

constexpr std::size_t kChecksumOffset = 8;
constexpr std::size_t kMetadataUnit = 8;
constexpr std::size_t kGrowth = 8;
static_assert(kMetadataMax / kMetadataUnit <= 0xffff);

template <class T>
void store(std::byte* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The header's hash seeds the body's, so that neither can be swapped under the other.
std::uint64_t checksum(const std::byte* header, base::ByteView body) noexcept {
  return base::xxh3(body, base::xxh3(base::ByteView(header, kChecksumOffset)));
}

}  // namespace

base::Bytes make_frame(FrameType type, base::ByteView metadata, base::ByteView payload,
                       base::ByteView more) {
  ASSERT(metadata.size() <= kMetadataMax);
  const std::size_t units = base::ceil_div(metadata.size(), kMetadataUnit);
  const std::size_t padded = units * kMetadataUnit;
  base::Bytes frame(kFrameHeaderSize + padded + payload.size() + more.size());
  std::byte* header = frame.data();
  header[0] = std::byte{kMajorVersion};
  header[1] = static_cast<std::byte>(type);
  store(header + 2, static_cast<std::uint16_t>(units));
  store(header + 4, static_cast<std::uint32_t>(payload.size() + more.size()));
  std::ranges::copy(metadata, frame.begin() + kFrameHeaderSize);
  const auto end = std::ranges::copy(
      payload, frame.begin() + static_cast<std::ptrdiff_t>(kFrameHeaderSize + padded));
  std::ranges::copy(more, end.out);
  store(header + kChecksumOffset,
        checksum(header, base::ByteView(frame).subspan(kFrameHeaderSize)));
  return frame;
}

base::Status FrameReader::start_body() {
  const unsigned major = std::to_integer<unsigned>(header_[0]);
  if (major != kMajorVersion) {
    return base::fail(base::ErrorCode::protocol,
                      "the other end speaks protocol version {} (or not Starling at all), this "
                      "peer speaks version {}",
                      major, kMajorVersion);
  }
  metadata_size_ = load<std::uint16_t>(header_.data() + 2) * kMetadataUnit;
  const std::size_t payload_size = load<std::uint32_t>(header_.data() + 4);
  if (metadata_size_ > kMetadataMax) {
    return base::fail(base::ErrorCode::protocol,
                      "a frame announces {} bytes of metadata, at most "
                      "{} are accepted",
                      metadata_size_, kMetadataMax);
  }
  if (payload_size > payload_max_) {
    return base::fail(base::ErrorCode::protocol,
                      "a frame announces {} bytes of payload, at most {} are accepted here",
                      payload_size, payload_max_);
  }
  body_size_ = metadata_size_ + payload_size;
  body_.clear();
  return {};
}

base::Result<Frame> FrameReader::finish() {
  header_filled_ = 0;
  if (load<std::uint64_t>(header_.data() + kChecksumOffset) != checksum(header_.data(), body_) &&
      !SIM_BUG(checksum_unchecked)) {
    return base::fail(base::ErrorCode::protocol, "a frame of type {} came with a wrong checksum",
                      std::to_integer<unsigned>(header_[1]));
  }
  return Frame{.type = std::to_integer<std::uint8_t>(header_[1]),
               .metadata_size = metadata_size_,
               .bytes = std::exchange(body_, {})};
}

base::Result<std::optional<Frame>> FrameReader::read(base::ByteView& stream) {
  const auto take = [&](std::size_t wanted) {
    const base::ByteView taken = stream.first(std::min(wanted, stream.size()));
    stream = stream.subspan(taken.size());
    return taken;
  };
  if (header_filled_ < kFrameHeaderSize) {
    const base::ByteView part = take(kFrameHeaderSize - header_filled_);
    std::ranges::copy(part, header_.begin() + static_cast<std::ptrdiff_t>(header_filled_));
    header_filled_ += part.size();
    if (header_filled_ < kFrameHeaderSize) return std::nullopt;
    if (auto started = start_body(); !started) return base::fail(std::move(started.error()));
  }
  const base::ByteView part = take(body_size_ - body_.size());
  // The announced bytes may never come, but each step of growth costs a copy and new pages.
  const std::size_t size = body_.size() + part.size();
  if (size > body_.capacity()) body_.reserve(std::min(body_size_, kGrowth * size));
  body_.insert(body_.end(), part.begin(), part.end());
  if (body_.size() < body_size_) return std::nullopt;
  auto frame = finish();
  if (!frame) return base::fail(std::move(frame.error()));
  return std::optional<Frame>(std::move(*frame));
}

}  // namespace starling::wire
