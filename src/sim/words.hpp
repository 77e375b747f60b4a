// The words of a scenario, once: reader and writer both use these tables.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "sim/scenario.hpp"

namespace starling::sim {

template <class Enum, std::size_t N>
using Words = std::array<std::pair<std::string_view, Enum>, N>;

inline constexpr Words<Kind, 12> kKindWords{{
    {"kill", Kind::kill},
    {"stop", Kind::stop},
    {"restart", Kind::restart},
    {"join", Kind::join},
    {"leave", Kind::leave},
    {"partition", Kind::partition},
    {"heal", Kind::heal},
    {"degrade", Kind::degrade},
    {"throttle", Kind::throttle},
    {"disk_full", Kind::disk_full},
    {"twin", Kind::twin},
    {"skew", Kind::skew},
}};
inline constexpr Words<Shape, 9> kShapeWords{{
    {"halves", Shape::halves},
    {"one", Shape::one},
    {"minority", Shape::minority},
    {"ring", Shape::ring},
    {"bridge", Shape::bridge},
    {"asymmetric", Shape::asymmetric},
    {"flip_flop", Shape::flip_flop},
    {"swizzle", Shape::swizzle},
    {"groups", Shape::groups},
}};
inline constexpr Words<Disk, 4> kDiskWords{{
    {"kept", Disk::kept},
    {"lost", Disk::lost},
    {"torn", Disk::torn},
    {"flipped", Disk::flipped},
}};
inline constexpr Words<Address, 2> kAddressWords{{
    {"kept", Address::kept},
    {"new", Address::fresh},
}};
inline constexpr Words<Direction, 3> kDirectionWords{{
    {"both", Direction::both},
    {"out", Direction::out},
    {"in", Direction::in},
}};
inline constexpr Words<Problem, 4> kProblemWords{{
    {"model", Problem::model},
    {"small", Problem::small},
    {"quadratic", Problem::quadratic},
    {"none", Problem::none},
}};

template <class Enum, std::size_t N>
[[nodiscard]] constexpr std::string_view word_of(Enum value, const Words<Enum, N>& words) noexcept {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return word;
  }
  return "?";
}

/// Calls visit(key, field, min, max) for each of the conditions of a path.
template <class C, class Visitor>
void visit_conditions(C& conditions, Visitor&& visit) {
  visit("latency_ms", conditions.latency_ms, 0.0, 60'000.0);
  visit("jitter_ms", conditions.jitter_ms, 0.0, 60'000.0);
  visit("rate_mbit", conditions.rate_mbit, 0.0, 1e6);
  visit("loss", conditions.loss, 0.0, 1.0);
  visit("duplicate", conditions.duplicate, 0.0, 1.0);
  visit("reorder", conditions.reorder, 0.0, 1.0);
  visit("corrupt", conditions.corrupt, 0.0, 1.0);
}

/// Whether a timeline entry of this kind takes the key (beside kind, at, every, until).
[[nodiscard]] constexpr bool entry_takes(Kind kind, std::string_view key) noexcept {
  using enum Kind;
  if (key == "peers") return kind != join && kind != heal;
  if (key == "for") return kind != join && kind != heal && kind != restart;
  if (key == "disk" || key == "address") return kind == kill || kind == restart;
  if (key == "count" || key == "spacing" || key == "region") return kind == join;
  if (key == "shape" || key == "groups" || key == "period") return kind == partition;
  if (key == "speed") return kind == throttle;
  if (key == "rate") return kind == skew;
  return kind == degrade;  // between, direction and the conditions
}

}  // namespace starling::sim
