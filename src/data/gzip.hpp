// Unpacks a gzip file that holds one IDX file.
#pragma once

#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace starling::data {

/// Unpacks `packed`, the content of the file `path`. The output is bounded by the IDX header at its
/// start; missing, damaged or left-over bytes are an error.
[[nodiscard]] base::Result<base::Bytes> unpack_idx(base::ByteView packed, const std::string& path);

}  // namespace starling::data
