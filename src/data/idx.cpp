#include "data/idx.hpp"

#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/endian.hpp"
#include "base/file.hpp"
#include "data/gzip.hpp"
#include "data/idx_header.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::uint64_t kPackedBytesMax = std::uint64_t{1} << 30;
constexpr std::size_t kGzipTrailerBytes = 8;  ///< CRC-32 and size of the content (RFC 1952)
constexpr std::size_t kGzipBytesMin = 18;

/// A cached file is these bytes, then the unpacked content.
struct CacheHeader {
  std::array<char, 8> magic{'S', 't', 'a', 'r', 'I', 'd', 'x', '1'};
  std::uint64_t size = 0;  ///< of the content
  base::Hash128 hash;      ///< of the content
};
static_assert(sizeof(CacheHeader) == 32 && std::is_trivially_copyable_v<CacheHeader>);

/// The place of a gzip file's unpacked content. The trailer identifies the content: a new version
/// of a data set gets a new place.
std::string cache_path(const std::string& folder, const std::string& path, base::ByteView packed) {
  std::array<std::uint8_t, kGzipTrailerBytes> trailer{};
  std::memcpy(trailer.data(), packed.last(kGzipTrailerBytes).data(), trailer.size());
  return fmt::format("{}/{}-{}.unpacked", folder, std::filesystem::path(path).stem().string(),
                     base::to_hex(trailer));
}

/// The cached content if it is there and undamaged.
std::optional<Idx> read_cache(const std::string& path, const std::string& name) {
  auto mapped = base::MappedFile::open(path, kIdxBytesMax + sizeof(CacheHeader));
  if (!mapped || mapped->view().size() < sizeof(CacheHeader)) return std::nullopt;
  CacheHeader header;
  std::memcpy(&header, mapped->view().data(), sizeof header);
  if (header.magic != CacheHeader{}.magic || header.size != mapped->view().size() - sizeof header) {
    return std::nullopt;
  }
  auto idx = parse_idx(Storage(std::move(*mapped)), sizeof header, name);
  if (!idx || idx->hash() != header.hash) return std::nullopt;
  return std::move(*idx);
}

/// Keeps unpacked content for the next start. Best effort: without it, a start only takes longer.
void write_cache(const std::string& folder, const std::string& path, base::ByteView content) {
  if (!base::make_folder(folder)) return;
  const CacheHeader header{.size = content.size(), .hash = base::xxh3_128(content)};
  const std::array parts{base::bytes_of(std::span(&header, 1)), content};
  static_cast<void>(base::replace_file(path, parts, base::Durability::unsynced));
}

base::Result<Idx> read_gzip(const std::string& path, const std::string& cache_folder) {
  const auto packed = base::MappedFile::open(path, kPackedBytesMax);
  if (!packed) return fail(packed.error());
  if (packed->view().size() < kGzipBytesMin) {
    return fail(ErrorCode::data, "{}: is a truncated gzip file ({} bytes); fetch or copy it again",
                path, packed->view().size());
  }
  const std::string cached =
      cache_folder.empty() ? "" : cache_path(cache_folder, path, packed->view());
  if (!cached.empty()) {
    if (auto idx = read_cache(cached, path)) return std::move(*idx);
  }
  auto unpacked = unpack_idx(packed->view(), path);
  if (!unpacked) return fail(unpacked.error());
  if (!cached.empty()) write_cache(cache_folder, cached, *unpacked);
  return parse_idx(Storage(std::move(*unpacked)), 0, path);
}

}  // namespace

base::Result<std::uint32_t> idx_dimensions(base::ByteView bytes, const std::string& path) {
  if (bytes.size() < kIdxMagicBytes) {
    return fail(ErrorCode::data, "{}: is too short for an IDX file ({} bytes)", path, bytes.size());
  }
  const std::uint32_t magic = base::load_big<std::uint32_t>(bytes);
  const std::uint32_t dimensions = magic & 0xff;
  if (magic >> 8 != 0x08 || dimensions == 0 || dimensions > kIdxDimensionsMax) {
    return fail(ErrorCode::data,
                "{}: wrong magic 0x{:08x}: not an IDX file of unsigned bytes with 1 to {} "
                "dimensions (0x000008NN); is it the right file?",
                path, magic, kIdxDimensionsMax);
  }
  return dimensions;
}

base::Result<IdxHeader> idx_header(base::ByteView bytes, const std::string& path) {
  const auto dimensions = idx_dimensions(bytes, path);
  if (!dimensions) return fail(dimensions.error());
  if (bytes.size() < idx_header_bytes(*dimensions)) {
    return fail(ErrorCode::data, "{}: is cut off in its IDX header ({} bytes)", path, bytes.size());
  }
  IdxHeader header{.shape = {}, .values = 1};
  for (std::uint32_t i = 0; i < *dimensions; ++i) {
    const std::uint32_t side = base::load_big<std::uint32_t>(bytes, idx_header_bytes(i));
    header.shape.push_back(side);
    if (side == 0 || header.values > kIdxBytesMax / side) {
      return fail(ErrorCode::data,
                  "{}: its shape [{}, ...] is empty or has more than {} values; is it damaged?",
                  path, fmt::join(header.shape, ", "), kIdxBytesMax);
    }
    header.values *= side;
  }
  return header;
}

std::span<const std::uint8_t> Idx::values() const noexcept {
  const base::ByteView bytes = storage_.view().subspan(values_at_);
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

base::Result<Idx> parse_idx(Storage storage, std::size_t skip, const std::string& name) {
  ASSERT(skip <= storage.view().size());
  const base::ByteView content = storage.view().subspan(skip);
  auto header = idx_header(content, name);
  if (!header) return fail(header.error());
  const std::size_t header_size =
      idx_header_bytes(static_cast<std::uint32_t>(header->shape.size()));
  const std::size_t there = content.size() - header_size;
  if (there != header->values) {
    return fail(ErrorCode::data, "{}: shape [{}] needs {} bytes after the header, {} are there: {}",
                name, fmt::join(header->shape, ", "), header->values, there,
                there < header->values ? "it is truncated" : "it has trailing bytes");
  }
  Idx idx(std::move(storage));
  idx.hash_ = base::xxh3_128(content);
  idx.values_at_ = skip + header_size;
  idx.shape_ = std::move(header->shape);
  return idx;
}

base::Result<Idx> read_idx(const std::string& path, const std::string& cache_folder) {
  const std::string packed = path + ".gz";
  std::error_code ignored;
  if (std::filesystem::exists(packed, ignored)) return read_gzip(packed, cache_folder);
  if (!std::filesystem::exists(path, ignored)) {
    return fail(ErrorCode::data, "{} (or {}): no such file", packed, path);
  }
  auto mapped = base::MappedFile::open(path, kIdxBytesMax + kIdxHeaderBytesMax);
  if (!mapped) return fail(mapped.error());
  return parse_idx(Storage(std::move(*mapped)), 0, path);
}

}  // namespace starling::data
