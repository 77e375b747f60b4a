// The byte meter of links.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "wire/messages.hpp"

namespace starling::io {

inline constexpr std::size_t kPurposes = static_cast<std::size_t>(wire::Purpose::relayed) + 1;

/// Bytes by purpose, indexed by wire::Purpose.
using Bytes = std::array<std::uint64_t, kPurposes>;

/// Bytes given to carriers and received from them: encrypted frames and the carriers' own headers,
/// without the overhead of UCX, TCP and IP. Handshakes, credits and cells that are not data count
/// as `other`. Received bytes count for the frame that ends with them.
struct LinkTraffic {
  /// The sum over all purposes except `relayed`, the last one.
  [[nodiscard]] static std::uint64_t total_of(const Bytes& bytes) noexcept {
    return std::accumulate(bytes.begin(), bytes.end() - 1, std::uint64_t{0});
  }

  Bytes sent{};
  Bytes received{};

  [[nodiscard]] std::uint64_t sent_total() const noexcept { return total_of(sent); }
  [[nodiscard]] std::uint64_t received_total() const noexcept { return total_of(received); }
  void add(const LinkTraffic& other) noexcept {
    for (std::size_t i = 0; i < kPurposes; ++i) {
      sent[i] += other.sent[i];
      received[i] += other.received[i];
    }
  }
};

}  // namespace starling::io
