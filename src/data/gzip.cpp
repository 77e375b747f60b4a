#include "data/gzip.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <zlib.h>

#include "data/idx.hpp"
#include "data/idx_header.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

/// Deflate cannot pack better than about 1032:1 (zlib.net/zlib_tech.html): a header that announces
/// more is refused before memory is allocated for it.
constexpr std::uint64_t kDeflateRatioMax = 1032;
constexpr std::uint64_t kDeflateSlack = 4096;

constexpr const char* kFetchAgain = "fetch or copy the file again";

/// One gzip member that is unpacked piece by piece.
class Inflater {
 public:
  Inflater(base::ByteView packed, const std::string& path) : packed_(packed), path_(path) {
    // 15: largest window; 16: expect a gzip header and check its CRC-32.
    ready_ = inflateInit2(&stream_, 15 + 16) == Z_OK;
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }

  /// Fills `out` as far as the stream goes; returns the number of bytes.
  base::Result<std::size_t> read(std::span<std::byte> out) {
    if (!ready_) return fail(ErrorCode::internal, "zlib cannot start");
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      const std::size_t room = std::min<std::size_t>(out.size() - done, kPiece);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      stream_.avail_out = static_cast<uInt>(room);
      if (base::Status status = step(); !status) return fail(status.error());
      done += room - stream_.avail_out;
    }
    return done;
  }

  /// Checks that the stream and the file end here.
  base::Status finish() {
    std::array<std::byte, 1> more{};
    const auto got = read(more);
    if (!got) return fail(got.error());
    if (*got != 0) {
      return fail(ErrorCode::data, "{}: unpacks to more than its IDX header announces; {}", path_,
                  kFetchAgain);
    }
    const std::size_t left = stream_.avail_in + (packed_.size() - taken_);
    if (left != 0) {
      return fail(ErrorCode::data, "{}: has {} trailing bytes after the gzip data; {}", path_, left,
                  kFetchAgain);
    }
    return {};
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;  ///< zlib counts in 32 bits

  /// One call of inflate, with input as needed.
  base::Status step() {
    if (stream_.avail_in == 0) {
      const base::ByteView piece =
          packed_.subspan(taken_, std::min<std::size_t>(kPiece, packed_.size() - taken_));
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
      stream_.avail_in = static_cast<uInt>(piece.size());
      taken_ += piece.size();
    }
    switch (inflate(&stream_, Z_NO_FLUSH)) {
      case Z_OK:
        return {};
      case Z_STREAM_END:
        ended_ = true;
        return {};
      case Z_BUF_ERROR:
        return fail(ErrorCode::data, "{}: is a truncated gzip file ({} bytes); {}", path_,
                    packed_.size(), kFetchAgain);
      case Z_MEM_ERROR:
        return fail(ErrorCode::data, "{}: not enough memory to unpack it", path_);
      default:
        return fail(ErrorCode::data, "{}: is not a valid gzip file ({}); {}", path_,
                    stream_.msg != nullptr ? stream_.msg : "damaged data", kFetchAgain);
    }
  }

  z_stream stream_{};
  base::ByteView packed_;
  const std::string& path_;
  std::size_t taken_ = 0;  ///< bytes of packed_ that were passed to zlib
  bool ready_ = false;
  bool ended_ = false;
};

base::Status read_exactly(Inflater& inflater, std::span<std::byte> out, const std::string& path) {
  const auto got = inflater.read(out);
  if (!got) return fail(got.error());
  if (*got == out.size()) return {};
  return fail(ErrorCode::data, "{}: unpacks to less than an IDX file needs ({} bytes missing); {}",
              path, out.size() - *got, kFetchAgain);
}

}  // namespace

base::Result<base::Bytes> unpack_idx(base::ByteView packed, const std::string& path) {
  Inflater inflater(packed, path);
  std::array<std::byte, kIdxHeaderBytesMax> header_bytes{};
  const std::span<std::byte> header_span(header_bytes);
  if (auto status = read_exactly(inflater, header_span.first(kIdxMagicBytes), path); !status) {
    return fail(status.error());
  }
  const auto dimensions = idx_dimensions(header_span, path);
  if (!dimensions) return fail(dimensions.error());
  const std::size_t header_size = idx_header_bytes(*dimensions);
  if (auto status = read_exactly(
          inflater, header_span.subspan(kIdxMagicBytes, header_size - kIdxMagicBytes), path);
      !status) {
    return fail(status.error());
  }
  const auto header = idx_header(header_span.first(header_size), path);
  if (!header) return fail(header.error());
  if (header->values > packed.size() * kDeflateRatioMax + kDeflateSlack) {
    return fail(ErrorCode::data,
                "{}: announces {} values, more than its {} bytes can hold: it is truncated or "
                "damaged; {}",
                path, header->values, packed.size(), kFetchAgain);
  }
  base::Bytes unpacked(header_size + static_cast<std::size_t>(header->values));
  std::ranges::copy(header_span.first(header_size), unpacked.begin());
  if (auto status = read_exactly(inflater, std::span(unpacked).subspan(header_size), path);
      !status) {
    return fail(status.error());
  }
  if (auto status = inflater.finish(); !status) return fail(status.error());
  return unpacked;
}

}  // namespace starling::data
