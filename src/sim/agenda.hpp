// Virtual time, and what can happen in the simulated world. Each happening names the lives,
// connections or circuits that it is about: if they are over by then, nothing happens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/strong.hpp"
#include "base/time.hpp"

namespace starling::sim {

inline constexpr base::Time kStart{std::chrono::seconds(1000)};

/// A process from its start to its end.
struct Life {
  std::uint32_t node = 0;
  std::uint32_t number = 0;  ///< rises with each start of the node
  friend bool operator==(const Life&, const Life&) = default;
};
/// A connection's place in the table of connections.
struct Place {
  std::uint32_t slot = 0, generation = 0;
  friend bool operator==(const Place&, const Place&) = default;
};
/// The destination of a dial.
struct Route {
  std::uint32_t to = 0;  ///< node
  std::string observed;  ///< where the destination sees this end
  bool inside = false;   ///< the dial passes no router
};

struct Wake {
  Life of;
};
/// Only the last Work of a node counts: work that was stopped ends later than planned.
struct Work {
  Life of;
  std::uint64_t serial;
};
struct Planned {
  std::size_t event;
  bool begins;
};
struct Second {};

struct Dialed {
  Life by;
  std::string address;
  bool answered;
  std::optional<Route> route;
  std::uint64_t punch;  ///< serial; 0: not a punch
  bool no_route = false;
};
struct Arrive {
  Place at;
  int to;
};
/// A packet of the first waiting frame is through.
struct Turn {
  Place at;
  int from;
  std::uint64_t serial;
};
/// Some bytes of a slow frame arrive.
struct Part {
  Place at;
  int to;
  std::uint8_t type;
  std::size_t bytes;
};
struct Retry {
  Place at;
  int from;
};
struct Closed {
  Life by;
  base::LinkId link;
  bool reset;
};

/// One end's half of a circuit, from OpenCircuit on. A relay's leg is named in the same way.
struct CircuitEnd {
  Life of;
  base::LinkId link;  ///< over which the circuit goes
  std::uint32_t number;
  friend bool operator==(const CircuitEnd&, const CircuitEnd&) = default;
};
/// The handshake over a circuit is complete, seen from the end that began it.
struct CircuitDialed {
  CircuitEnd by;
};
/// An end of a circuit, or its relay, hears that the circuit is over.
struct CircuitOver {
  CircuitEnd end;
  std::uint64_t bytes;
};
/// The link over an ended circuit breaks at one end.
struct CircuitBreaks {
  Place at;
  int side;
};
/// Checks whether the circuit is in use.
struct CircuitIdle {
  std::uint64_t circuit;
};

using Happening = std::variant<Wake, Work, Arrive, Turn, Part, Retry, Dialed, Closed, Planned,
                               Second, CircuitDialed, CircuitOver, CircuitBreaks, CircuitIdle>;

/// Things happen in order of their time, and at one moment in the order in which they were planned.
class Agenda {
 public:
  /// `end`: nothing happens after it.
  explicit Agenda(base::Time end) : end_(end) {}

  [[nodiscard]] base::Time now() const noexcept { return now_; }
  [[nodiscard]] double seconds() const noexcept { return base::seconds(now_ - kStart); }
  /// A time that has passed means now.
  void at(base::Time time, Happening happening) {
    std::uint32_t slot = 0;
    if (free_slots_.empty()) {
      slot = static_cast<std::uint32_t>(slots_.size());
      slots_.push_back(std::move(happening));
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
      slots_[slot] = std::move(happening);
    }
    queue_.push({std::max(time, now_), order_++, slot});
  }
  void after(base::Duration delay, Happening happening) { at(now_ + delay, std::move(happening)); }
  /// Time goes on to the next happening; nothing: there is none before the end, or it was stopped.
  [[nodiscard]] std::optional<Happening> next() {
    if (stopped_ || queue_.empty()) return std::nullopt;
    const Queued first = queue_.top();
    if (first.at > end_) {
      now_ = end_;
      return std::nullopt;
    }
    queue_.pop();
    now_ = first.at;
    free_slots_.push_back(first.slot);
    return std::move(slots_[first.slot]);
  }
  void stop() { stopped_ = true; }

 private:
  struct Queued {
    base::Time at;
    std::uint64_t order;
    std::uint32_t slot;
    friend bool operator<(const Queued& a, const Queued& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;  // earliest on top
    }
  };

  base::Time now_ = kStart;
  base::Time end_;
  bool stopped_ = false;
  std::uint64_t order_ = 0;
  std::priority_queue<Queued> queue_;
  std::vector<Happening> slots_;
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace starling::sim
