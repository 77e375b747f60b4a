// addresses.txt of a peer's folder: where others were when it last met somebody, an address a line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace starling::runtime {

inline constexpr char kAddressesFile[] = "addresses.txt";

/// Replaces the file, without waiting for the disk: it can be made again. Leaves out what nobody
/// could dial.
[[nodiscard]] base::Status write_addresses(const std::string& dir,
                                           std::span<const std::string> addresses);

/// At most membership::kRememberedMax addresses, in the order of the file; none where there is no
/// file. Error (data): the file is not what a peer writes there, or cannot be read.
[[nodiscard]] base::Result<std::vector<std::string>> read_addresses(const std::string& dir);

}  // namespace starling::runtime
