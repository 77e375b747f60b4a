// A link of the simulated network: its two ends, and the frames on their way in either direction.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "base/bytes.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "sim/agenda.hpp"
#include "wire/messages.hpp"

namespace starling::sim {

inline constexpr std::size_t kPacketBytes = 1400;
inline constexpr std::size_t kOverheadBytes = 60;  ///< of TLS, TCP and IP, for each frame

// The contents of a link.
struct Up {};
struct Frame {
  base::Bytes bytes;
  wire::Message message;
  bool damaged = false;
  base::Duration took{};  ///< on lines, from the first byte to the last
};
struct Gone {
  bool reset = false;  ///< otherwise closed on purpose
};
using Item = std::variant<Up, Frame, Gone>;

struct Flying {
  base::Time at;
  Item item;
};
/// An item that the network has not yet taken.
struct Waiting {
  Item item;
  bool met = false;        ///< the network's effect on it is decided
  base::Duration extra{};  ///< added delay
  std::size_t sent = 0;    ///< bytes, on lines
  base::Time began{};      ///< when sending on lines began
  std::size_t told = 0;    ///< bytes that were reported to the other end
  base::Time told_at{};

  [[nodiscard]] std::size_t size() const {
    const auto* frame = std::get_if<Frame>(&item);
    return kOverheadBytes + (frame == nullptr ? 0 : frame->bytes.size());
  }
  /// Bytes of its next packet.
  [[nodiscard]] std::size_t packet() const { return std::min(kPacketBytes, size() - sent); }
};
struct Stream {
  std::deque<Flying> flying;
  std::deque<Waiting> waiting;
  base::Time last_arrival{};
  std::uint64_t turn = 0;  ///< serial of the current Turn; 0: there is none
  bool stalled = false;
  std::uint32_t tries = 0;
  std::size_t unacknowledged = 0;
};

struct End {
  Life of;
  base::LinkId link;
  bool open = false;     ///< the node knows of it
  bool accepts = false;  ///< accepts frames of any size
};
/// How a connection comes about. End 0 dials.
struct Terms {
  std::array<std::optional<std::string>, 2> dialed;  ///< by each end: the dialed address
  std::array<std::string, 2> observed;               ///< where each end is, as the other sees it
  std::optional<base::Duration> forgotten_after;     ///< by a router, after this much silence
  bool through_router = false;
  std::uint64_t circuit = 0;  ///< the circuit under this link; 0: none
};
struct Connection {
  std::uint32_t generation = 0;
  Terms terms;
  std::array<End, 2> ends;
  std::array<Stream, 2> directions;  ///< 0: from end 0
  base::Time passed{};               ///< when the last packet passed
  bool dead = false;  ///< a router on the way has forgotten it, or an end is elsewhere

  [[nodiscard]] int side_of(const Life& life, base::LinkId link) const {
    return ends[0].of.node == life.node && ends[0].link == link ? 0 : 1;
  }
};

}  // namespace starling::sim
