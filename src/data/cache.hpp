// Data about files that is kept from one start to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace starling::data {

struct Cache {
  std::string folder{};  ///< created if need be; empty: nothing is kept
  /// Called with a file's path and bytes before a long file is read through; may be empty.
  std::function<void(const std::string&, std::uint64_t)> on_long_read{};
  std::uint64_t long_read = std::uint64_t{1} << 30;  ///< least bytes of a long file
};

}  // namespace starling::data
