// The header of an IDX file, for the readers of plain and of packed files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "data/idx.hpp"

namespace starling::data {

inline constexpr std::size_t kIdxMagicBytes = 4;
inline constexpr std::size_t kIdxHeaderBytesMax = kIdxMagicBytes + 4 * kIdxDimensionsMax;

struct IdxHeader {
  std::vector<std::uint32_t> shape;
  std::uint64_t values = 0;  ///< product of the shape, at most kIdxBytesMax
};

/// The number of dimensions, from the first kIdxMagicBytes bytes at least.
[[nodiscard]] base::Result<std::uint32_t> idx_dimensions(base::ByteView bytes,
                                                         const std::string& path);

[[nodiscard]] constexpr std::size_t idx_header_bytes(std::uint32_t dimensions) noexcept {
  return kIdxMagicBytes + std::size_t{4} * dimensions;
}

/// Reads and checks a header; `bytes` may continue after it.
[[nodiscard]] base::Result<IdxHeader> idx_header(base::ByteView bytes, const std::string& path);

}  // namespace starling::data
