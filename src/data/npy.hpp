// NumPy's array files (numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions
// 1.0 to 3.0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "data/cache.hpp"
#include "data/storage.hpp"

namespace starling::data {

inline constexpr std::size_t kNpyHeaderBytesMax = 1 << 16;
inline constexpr std::size_t kNpyDimensionsMax = 8;

enum class NpyType : std::uint8_t { uint8, int32, int64, float32 };

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(NpyType type) noexcept;
/// NumPy's name, such as "float32".
[[nodiscard]] std::string_view name_of(NpyType type) noexcept;

/// The part before the values.
struct NpyHeader {
  NpyType type = NpyType::uint8;
  std::vector<std::uint64_t> shape;
  std::uint64_t values = 0;   ///< product of the shape
  std::size_t values_at = 0;  ///< bytes before the first
};

/// Reads the header of a file that begins with `bytes`. Errors (ErrorCode::data): not a NumPy file,
/// a type other than those above (in this machine's byte order), Fortran order, more values than
/// can be counted.
[[nodiscard]] base::Result<NpyHeader> npy_header(base::ByteView bytes, const std::string& path);

/// A mapped array in C order. Immutable.
struct Npy {
  Storage storage;
  NpyHeader header;
  base::Hash128 hash;  ///< of the whole file

  [[nodiscard]] base::ByteView values() const noexcept {
    return storage.view().subspan(header.values_at);
  }
};

/// Maps a file and checks its size, and that floats are finite. With a folder in `cache`, this last
/// check and the hash are done only once (see file_hash).
[[nodiscard]] base::Result<Npy> open_npy(const std::string& path, const Cache& cache);

}  // namespace starling::data
