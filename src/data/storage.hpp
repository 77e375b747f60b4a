// The bytes of a file, in memory or mapped.
#pragma once

#include <utility>
#include <variant>

#include "base/bytes.hpp"
#include "base/file.hpp"

namespace starling::data {

/// Bytes in memory or mapped from a file. They keep their place when the object is moved.
class Storage {
 public:
  explicit Storage(base::Bytes bytes) : bytes_(std::move(bytes)) {}
  explicit Storage(base::MappedFile file) : bytes_(std::move(file)) {}

  [[nodiscard]] base::ByteView view() const noexcept {
    if (const auto* buffer = std::get_if<base::Bytes>(&bytes_)) return *buffer;
    return std::get<base::MappedFile>(bytes_).view();
  }

  /// For data larger than memory: see MappedFile.
  void expect_random_reads() noexcept {
    if (auto* file = std::get_if<base::MappedFile>(&bytes_)) file->expect_random_reads();
  }

  /// Bytes in memory, not in a file.
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    const auto* buffer = std::get_if<base::Bytes>(&bytes_);
    return buffer == nullptr ? 0 : buffer->size();
  }

 private:
  std::variant<base::Bytes, base::MappedFile> bytes_;
};

}  // namespace starling::data
