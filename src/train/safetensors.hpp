// safetensors files (github.com/huggingface/safetensors, "Format"): 8 bytes little-endian length
// of a JSON header, the header, then the tensors' bytes without gaps.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compute/graph.hpp"

namespace starling::train {

/// The most vectors of the length of a model's parameters in one file: AdamW's state with a slow
/// momentum.
inline constexpr std::size_t kTensorVectorsMax = 4;
/// An op has at most a weight and a bias, and a batch norm also has buffers and a counter.
inline constexpr std::size_t kTensorsMax = kTensorVectorsMax * 4 * compute::kOpsMax;
inline constexpr std::uint64_t kTensorHeaderBytesMax = std::uint64_t{256} * kTensorsMax;
/// Every written file must be readable: the largest model's optimizer, and the header's length.
inline constexpr std::uint64_t kTensorFileBytesMax =
    sizeof(std::uint64_t) + kTensorHeaderBytesMax +
    kTensorVectorsMax * compute::kParametersMax * sizeof(float);
inline constexpr std::size_t kTensorRankMax = 8;

/// Values to write: float32, or counters.
using TensorValues = std::variant<std::span<const float>, std::span<const std::int64_t>>;

/// A named tensor to write; `values` has the elements of the shape, row-major.
struct TensorView {
  std::string name;
  std::vector<std::uint32_t> shape;
  TensorValues values;

  [[nodiscard]] base::ByteView bytes() const {
    return std::visit([](const auto span) { return base::bytes_of(span); }, values);
  }
};

/// Types of elements that files may have.
enum class TensorType : std::uint8_t { f32, f16, bf16, i64 };

/// A named tensor of a file.
struct TensorEntry {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::uint32_t> shape;
  std::size_t offset = 0;  ///< first byte, from the start of the file
  std::size_t size = 0;    ///< elements

  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

/// Free text of a file's header ("__metadata__").
using TensorMetadata = std::map<std::string, std::string>;

/// The entries of a safetensors file, in order of their offsets. Every length and offset is
/// checked: each tensor lies within the file, none overlap, and no byte is left over. `name` is
/// used in messages (ErrorCode::data).
[[nodiscard]] base::Result<std::vector<TensorEntry>> parse_safetensors(base::ByteView file,
                                                                       const std::string& name);

/// Whether a file can hold these tensors. Error (ErrorCode::usage): there are more than
/// kTensorsMax; a name is not UTF-8, occurs twice or is reserved by the format; the header would be
/// too long. Their values are not read and may be missing.
[[nodiscard]] base::Status check_tensors(std::span<const TensorView> tensors,
                                         const TensorMetadata& metadata = {});

/// The length and header for these tensors, whose values follow in the same order; padded so that
/// the values begin at a multiple of 8. Precondition: check_tensors() accepts them.
[[nodiscard]] std::string safetensors_header(std::span<const TensorView> tensors,
                                             const TensorMetadata& metadata = {});

/// All parts of a file, in order: that header and each tensor's values. Views of both.
[[nodiscard]] std::vector<base::ByteView> safetensors_parts(const std::string& header,
                                                            std::span<const TensorView> tensors);

/// A file in memory and what is in it.
class TensorFile {
 public:
  [[nodiscard]] static base::Result<TensorFile> parse(base::Bytes file, const std::string& name);
  /// Reads and parses the file at `path`, which has at most kTensorFileBytesMax bytes.
  [[nodiscard]] static base::Result<TensorFile> read(const std::string& path);

  [[nodiscard]] const std::vector<TensorEntry>& entries() const noexcept { return entries_; }
  /// As given to parse; used in messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// All bytes of the file.
  [[nodiscard]] base::ByteView bytes() const noexcept { return file_; }

  /// Copies a tensor to `out`, which has the size of the shape; narrower floats are widened. Errors
  /// (ErrorCode::data): the file lacks the tensor, or has it in another shape or not as floats.
  [[nodiscard]] base::Status copy(std::string_view tensor, std::span<const std::uint32_t> shape,
                                  std::span<float> out) const;

 private:
  std::string name_;
  base::Bytes file_;
  std::vector<TensorEntry> entries_;
};

}  // namespace starling::train
