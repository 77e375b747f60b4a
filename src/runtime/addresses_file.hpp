// addresses.txt in a peer's folder: the last known addresses of others, one per line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace starling::runtime {

inline constexpr char kAddressesFile[] = "addresses.txt";

/// Replaces the file, without waiting for the disk: it can be made again. Leaves out addresses that
/// cannot be dialed.
[[nodiscard]] base::Status write_addresses(const std::string& dir,
                                           std::span<const std::string> addresses);

/// At most membership::kRememberedMax addresses, in the order of the file; none if there is no
/// file. Error (data): the file was not written by a peer, or cannot be read.
[[nodiscard]] base::Result<std::vector<std::string>> read_addresses(const std::string& dir);

}  // namespace starling::runtime
