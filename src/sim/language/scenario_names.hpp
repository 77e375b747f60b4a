// The names in a scenario file for kinds of faults, shapes and so on: for its reader and its
// writer.
#pragma once

#include <string_view>

#include "base/enum_names.hpp"
#include "sim/language/scenario.hpp"

namespace starling::sim {

inline constexpr base::EnumNames<Kind, 15> kKindNames{{
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
    {"router_restart", Kind::router_restart},
    {"mapping_lost", Kind::mapping_lost},
    {"address_change", Kind::address_change},
}};
inline constexpr base::EnumNames<Shape, 9> kShapeNames{{
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
inline constexpr base::EnumNames<Disk, 4> kDiskNames{{
    {"kept", Disk::kept},
    {"lost", Disk::lost},
    {"torn", Disk::torn},
    {"flipped", Disk::flipped},
}};
inline constexpr base::EnumNames<Address, 2> kAddressNames{{
    {"kept", Address::kept},
    {"new", Address::fresh},
}};
inline constexpr base::EnumNames<Direction, 3> kDirectionNames{{
    {"both", Direction::both},
    {"out", Direction::out},
    {"in", Direction::in},
}};
inline constexpr base::EnumNames<Problem, 4> kProblemNames{{
    {"model", Problem::model},
    {"small", Problem::small},
    {"quadratic", Problem::quadratic},
    {"none", Problem::none},
}};
inline constexpr base::EnumNames<NatKind, 5> kNatKindNames{{
    {"open", NatKind::open},
    {"moderate", NatKind::moderate},
    {"strict", NatKind::strict},
    {"cgnat", NatKind::cgnat},
    {"firewall", NatKind::firewall},
}};
inline constexpr base::EnumNames<Ipv6, 3> kIpv6Names{{
    {"none", Ipv6::none},
    {"only", Ipv6::only},
    {"both", Ipv6::both},
}};
inline constexpr base::EnumNames<Proxy, 3> kProxyNames{{
    {"none", Proxy::none},
    {"socks5", Proxy::socks5},
    {"http", Proxy::http},
}};
inline constexpr base::EnumNames<LinkPath, 2> kLinkPathNames{{
    {"direct", LinkPath::direct},
    {"circuit", LinkPath::circuit},
}};

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
  if (key == "for") {
    return kind != join && kind != heal && kind != restart && kind != mapping_lost &&
           kind != address_change;
  }
  if (key == "disk") return kind == kill || kind == restart;
  if (key == "address") return kind == kill || kind == restart || kind == router_restart;
  if (key == "count" || key == "spacing" || key == "region") return kind == join;
  if (key == "shape" || key == "groups" || key == "period") return kind == partition;
  if (key == "speed") return kind == throttle;
  if (key == "rate") return kind == skew;
  return kind == degrade;  // between, direction and the conditions
}

}  // namespace starling::sim
