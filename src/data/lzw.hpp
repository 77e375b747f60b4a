// Unpacks what compress(1) packed: T. A. Welch, "A technique for high-performance data
// compression" (IEEE Computer 17, 1984), with codes of 9 to 16 bits.
#pragma once

#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace starling::data {

/// Unpacks the codes that follow the three bytes at the head of a .Z file (block mode, 16 bits).
/// Errors (ErrorCode::data, `name` in the text): a code that means nothing yet, or more than
/// `bytes_max` bytes.
[[nodiscard]] base::Result<base::Buffer> unpack_lzw(base::ByteView codes, std::size_t bytes_max,
                                                    const std::string& name);

}  // namespace starling::data
