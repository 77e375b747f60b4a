// safetensors files (github.com/huggingface/safetensors, "Format"): 8 bytes little-endian length
// of a JSON header, the header, then the tensors' bytes without gaps. Float32 only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace starling::train {

inline constexpr std::uint64_t kTensorFileBytesMax = std::uint64_t{8} << 30;
inline constexpr std::uint64_t kTensorHeaderBytesMax = std::uint64_t{4} << 20;
inline constexpr std::size_t kTensorsMax = 1 << 14;
inline constexpr std::size_t kTensorRankMax = 8;

/// A named tensor to write; `values` has as many elements as the shape says, row-major.
struct TensorView {
  std::string name;
  std::vector<std::uint32_t> shape;
  std::span<const float> values;
};

/// A named tensor of a file.
struct TensorEntry {
  std::string name;
  std::vector<std::uint32_t> shape;
  std::size_t offset = 0;  ///< first byte, from the start of the file
  std::size_t size = 0;    ///< elements

  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

/// The entries of a safetensors file, in order of their offsets. Every length and offset is
/// checked: each tensor lies within the file, none overlaps, no byte is left over. `name` stands
/// in messages (ErrorCode::data).
[[nodiscard]] base::Result<std::vector<TensorEntry>> parse_safetensors(base::ByteView file,
                                                                       const std::string& name);

/// The length and header for these tensors, whose values follow it; padded so that they begin at
/// a multiple of 8. Names differ; at most kTensorsMax.
[[nodiscard]] std::string safetensors_header(std::span<const TensorView> tensors);

/// A file in memory and what is in it.
class TensorFile {
 public:
  [[nodiscard]] static base::Result<TensorFile> parse(base::Buffer file, const std::string& name);

  [[nodiscard]] const std::vector<TensorEntry>& entries() const noexcept { return entries_; }

  /// Copies a tensor to `out`, which has room for exactly the shape. Errors (ErrorCode::data):
  /// the file lacks it or has it in another shape.
  [[nodiscard]] base::Status copy(std::string_view tensor, std::span<const std::uint32_t> shape,
                                  std::span<float> out) const;

 private:
  std::string name_;
  base::Buffer file_;
  std::vector<TensorEntry> entries_;
};

}  // namespace starling::train
