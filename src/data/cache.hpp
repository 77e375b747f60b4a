// What is kept of files from one start to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace starling::data {

/// Is told the path and the bytes of a file that takes long to read, before it is read through.
using LongRead = std::function<void(const std::string&, std::uint64_t)>;

struct Cache {
  std::string folder{};                              ///< created if need be; empty: nothing is kept
  LongRead on_long_read{};                           ///< may be empty
  std::uint64_t long_read = std::uint64_t{1} << 30;  ///< bytes of such a file, at least
};

}  // namespace starling::data
