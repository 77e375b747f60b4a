// Classic BPF programs that let packets of some addresses pass to a socket, and no others.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <linux/filter.h>

#include "base/ip.hpp"

namespace starling::io::ucx {

/// Addresses that may be let in at a time. A filter has to stay below BPF_MAXINSNS instructions,
/// and one more of an IPv6 address takes nine.
inline constexpr std::size_t kAllowedMax = 256;

/// For a TCP socket of the family: a packet passes if its source is one of `allowed` (addresses of
/// the other family count for nothing, at most kAllowedMax are given). With none, nothing passes.
[[nodiscard]] std::vector<sock_filter> filter_for(bool v6, std::span<const base::Ip> allowed);

}  // namespace starling::io::ucx
