// The way of a frame between two ports of the switch: it waits for the rate, travels, and may get
// lost, doubled, overtaken or damaged. The caller passes the time, so the logic is tested without a
// clock or device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"

namespace starling::net_switch {

using Frame = std::vector<std::uint8_t>;

inline constexpr std::size_t kPortsMax = 256;
inline constexpr std::size_t kFrameMax = 16 * 1024;
/// Bytes of travelling frames between all ports together; frames beyond this are dropped.
inline constexpr std::size_t kHeldBytesMax = std::size_t{256} << 20;
/// A pair or line that was idle passes this many bytes at once before its rate applies: two full
/// frames.
inline constexpr double kBurstBytes = 3072;
/// A frame chosen to be overtaken is held back by this or by the jitter, whichever is longer.
inline constexpr base::Duration kReorderMin = std::chrono::milliseconds(2);

/// The conditions on the way from one port to another. The way back has separate conditions.
struct Conditions {
  double rate = 0;                                        ///< bits a second; 0: no limit
  base::Duration queue = std::chrono::milliseconds(100);  ///< longest wait for the rate
  base::Duration delay{};
  base::Duration jitter{};  ///< added to the delay: uniform between 0 and this; keeps the order
  double loss = 0;          ///< these four: fraction of all frames, 0 to 1
  double duplicate = 0;
  double reorder = 0;
  double corrupt = 0;
  bool cut = false;  ///< nothing passes; travelling frames are lost too

  friend bool operator==(const Conditions&, const Conditions&) = default;
};

/// The connection of a port to the network, in either direction: all its pairs share it.
struct Line {
  double rate = 0;                                        ///< bits a second each way; 0: no limit
  base::Duration queue = std::chrono::milliseconds(100);  ///< longest wait for the rate

  friend bool operator==(const Line&, const Line&) = default;
};

/// Of one ordered pair, in frames unless stated otherwise.
struct Counters {
  std::uint64_t offered = 0;
  std::uint64_t offered_bytes = 0;
  std::uint64_t delivered = 0;
  std::uint64_t delivered_bytes = 0;
  std::uint64_t lost = 0;
  std::uint64_t cut = 0;
  std::uint64_t overflowed = 0;  ///< the queue for a rate, or kHeldBytesMax
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
};

/// The address of a port's device: the switch assigns it, so nothing has to be learned.
[[nodiscard]] std::array<std::uint8_t, 6> mac_of(std::size_t port);

/// All pairs of ports. Deterministic: the same frames at the same times with the same seed give the
/// same deliveries. Each pair draws from its own generator, the same number of times for each
/// frame, so a change on one pair does not change the draws of the others. One thread.
class Fabric {
 public:
  Fabric(std::size_t ports, std::uint64_t seed);

  [[nodiscard]] std::size_t ports() const noexcept { return ports_; }

  /// Travelling frames keep their fate, except that a cut takes them too.
  void set(std::size_t from, std::size_t to, const Conditions& conditions);
  [[nodiscard]] const Conditions& conditions(std::size_t from, std::size_t to) const;
  [[nodiscard]] const Counters& counters(std::size_t from, std::size_t to) const;
  /// Frames that wait for the line keep their times.
  void set_line(std::size_t port, const Line& line);
  [[nodiscard]] const Line& line(std::size_t port) const;
  /// Frames to an address that no port has, or of an invalid size.
  [[nodiscard]] std::uint64_t unroutable() const noexcept { return unroutable_; }
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }

  /// Takes a frame that came out of port `from`. It goes to the port with the frame's address, or,
  /// if it is a broadcast or multicast, to all others. `now` never decreases.
  void submit(std::size_t from, std::span<const std::uint8_t> frame, base::Time now);

  /// When the next frame is due; nothing if none is travelling.
  [[nodiscard]] std::optional<base::Time> next_due() const;

  struct Delivery {
    std::size_t to = 0;
    Frame frame;
  };
  /// The next frame that is due by `now`, in order of time; nothing if there is none.
  [[nodiscard]] std::optional<Delivery> take(base::Time now);

 private:
  struct Pair {
    Conditions conditions;
    Counters counters;
    base::Rng rng;
    base::Time free_at{};   ///< when everything accepted has passed the rate
    base::Time in_order{};  ///< no frame that keeps its place arrives earlier
  };
  struct Port {
    Line line;
    base::Time up_free_at{};    ///< when everything accepted has passed the way out
    base::Time down_free_at{};  ///< and the way in
  };
  struct Travelling {
    base::Time due;
    std::uint64_t number = 0;  ///< of two frames due at once, the earlier submitted goes first
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    bool came_down = false;  ///< has passed the receiver's line, too
    Frame frame;
  };
  struct Later {
    bool operator()(const Travelling& a, const Travelling& b) const noexcept {
      return a.due != b.due ? a.due > b.due : a.number > b.number;
    }
  };
  /// A frame's random numbers, drawn together.
  struct Luck {
    double loss, duplicate, reorder, corrupt, jitter, place;
  };

  [[nodiscard]] std::size_t index(std::size_t from, std::size_t to) const;
  void offer(std::size_t from, std::size_t to, std::span<const std::uint8_t> frame, base::Time now);
  void send_off(Travelling frame);

  std::size_t ports_;
  std::vector<Port> lines_;
  std::vector<Pair> pairs_;
  std::priority_queue<Travelling, std::vector<Travelling>, Later> travelling_;
  std::uint64_t submitted_ = 0;
  std::uint64_t unroutable_ = 0;
  std::size_t held_bytes_ = 0;
};

}  // namespace starling::net_switch
