#include "io/nat.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace starling::io {
namespace {

bool is_translated(const Sighting& one) { return one.observed.ip != one.own.ip; }

/// The first pair that left from one port and for which `holds` is true.
template <class Holds>
bool find_pair(std::span<const Sighting> all, Nat& nat, Holds holds) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      if (all[i].own != all[j].own || !holds(all[i], all[j])) continue;
      nat.seen = all[i];
      nat.another = all[j];
      return true;
    }
  }
  return false;
}

/// `all` are of one family, at least one.
Nat judge_family(std::vector<Sighting> all) {
  const auto keep = [&](auto holds) {
    if (std::ranges::none_of(all, holds)) return;
    std::erase_if(all, [&](const Sighting& one) { return !holds(one); });
  };
  // Hosts on a local network see less of the translation in between, or none.
  keep([](const Sighting& one) { return one.observed.ip.is_global(); });
  keep(is_translated);
  if (!is_translated(all.front())) return {NatKind::none, all.front(), {}};
  Nat nat{NatKind::unknown, all.front(), {}};
  const auto differ = [](const Sighting& a, const Sighting& b) {
    return a.observed != b.observed &&
           (a.observed.ip.is_global() || a.observed.ip == b.observed.ip);
  };
  // Only different hosts count: a router may give each host its own outer port.
  const auto agree = [](const Sighting& a, const Sighting& b) {
    return a.observed == b.observed && a.peer.ip != b.peer.ip;
  };
  if (find_pair(all, nat, differ)) {
    nat.kind = NatKind::strict;
  } else if (find_pair(all, nat, agree)) {
    nat.kind = NatKind::moderate;
  }
  return nat;
}

}  // namespace

std::vector<Nat> judge_nat(std::span<const Sighting> sightings) {
  std::vector<Nat> nats;
  for (const bool v4 : {true, false}) {
    std::vector<Sighting> family;
    std::ranges::copy_if(sightings, std::back_inserter(family), [&](const Sighting& one) {
      return one.observed.ip.is_v4() == v4 && !one.observed.ip.is_loopback();
    });
    if (!family.empty()) nats.push_back(judge_family(std::move(family)));
  }
  return nats;
}

bool is_behind_another(const base::IpPort& mapped, std::span<const Nat> nats) {
  // IPv6 is not translated: the mapped and the seen address may be two addresses of one machine.
  if (!mapped.ip.is_v4()) return false;
  if (!mapped.ip.is_global()) return true;
  return std::ranges::any_of(nats, [&](const Nat& nat) {
    return nat.kind != NatKind::none && nat.seen.observed.ip.is_global() &&
           nat.seen.observed.ip.is_v4() && nat.seen.observed.ip != mapped.ip;
  });
}

}  // namespace starling::io
