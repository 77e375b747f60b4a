// The byte meter of links.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "wire/messages.hpp"

namespace starling::io {

inline constexpr std::size_t kPurposes = static_cast<std::size_t>(wire::Purpose::other) + 1;

/// Bytes by purpose, indexed by wire::Purpose.
using Bytes = std::array<std::uint64_t, kPurposes>;

/// Bytes handed to UCX and got from it: encrypted frames and the stream's message headers (what
/// UCX, TCP and IP add is not in). Handshake and credits count as `other`. A received message is
/// counted for the frames that end in it.
struct LinkTraffic {
  Bytes sent{};
  Bytes received{};

  [[nodiscard]] std::uint64_t sent_total() const noexcept {
    return std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});
  }
  [[nodiscard]] std::uint64_t received_total() const noexcept {
    return std::accumulate(received.begin(), received.end(), std::uint64_t{0});
  }
  void add(const LinkTraffic& other) noexcept {
    for (std::size_t i = 0; i < kPurposes; ++i) {
      sent[i] += other.sent[i];
      received[i] += other.received[i];
    }
  }
};

}  // namespace starling::io
