// Classic BPF programs that let only packets from given addresses pass to a socket.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <linux/filter.h>

#include "base/ip.hpp"

namespace starling::io::ucx {

/// The most addresses at a time. A filter has to stay below BPF_MAXINSNS instructions, and each
/// IPv6 address takes nine.
inline constexpr std::size_t kAllowedMax = 256;

/// For a TCP socket of the family: a packet passes if its source is in `allowed` (addresses of the
/// other family are ignored; at most kAllowedMax are given). If it is empty, nothing passes.
[[nodiscard]] std::vector<sock_filter> filter_for(bool v6, std::span<const base::Ip> allowed);

}  // namespace starling::io::ucx
