// What is kept of files from one start to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace starling::data {

struct Cache {
  std::string folder{};  ///< created if need be; empty: nothing is kept
  /// Called with its path and bytes before a file is read through that takes long to read; may be
  /// empty.
  std::function<void(const std::string&, std::uint64_t)> on_long_read{};
  std::uint64_t long_read = std::uint64_t{1} << 30;  ///< bytes of such a file, at least
};

}  // namespace starling::data
