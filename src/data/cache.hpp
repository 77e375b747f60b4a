// Data about files that is kept from one start to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace starling::data {

/// Called with the path and the bytes of a long file, before it is read through.
using LongRead = std::function<void(const std::string&, std::uint64_t)>;

struct Cache {
  std::string folder{};                              ///< created if need be; empty: nothing is kept
  LongRead on_long_read{};                           ///< may be empty
  std::uint64_t long_read = std::uint64_t{1} << 30;  ///< least bytes of a long file
};

}  // namespace starling::data
