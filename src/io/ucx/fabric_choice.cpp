#include "io/ucx/fabric_choice.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "runfile/run_file.hpp"

namespace starling::io::ucx {
namespace {

FabricChoice no(std::string why) { return {FabricKind::none, std::move(why)}; }

bool is_named(const FabricEnd& end) {
  return end.fabric != runfile::kFabricAuto && end.fabric != runfile::kFabricNone;
}

/// By the two run files and the ends' places.
FabricChoice by_place(const FabricFacts& facts) {
  const FabricEnd& here = facts.here;
  const FabricEnd& there = facts.there;
  if (here.fabric == runfile::kFabricNone) return no("links.fabric is \"none\" here");
  if (there.fabric == runfile::kFabricNone) return no("links.fabric is \"none\" at the other end");
  if (!facts.encrypted) return no("security.mode is \"off\": nothing proves who the other end is");
  if (is_named(here) || is_named(there)) {
    if (here.fabric == there.fabric) return {FabricKind::named};
    return no(fmt::format("links.fabric is \"{}\" here and \"{}\" at the other end", here.fabric,
                          there.fabric));
  }
  if (facts.same_machine) return {FabricKind::machine};
  if (!facts.same_subnet) {
    return no("the ends are neither of one machine and user nor on one private subnet");
  }
  if (facts.closed_swarm) return {FabricKind::subnet};
  return no("the swarm has no secret (security.secret), so anybody may be in it");
}

}  // namespace

std::optional<InterfaceAddress> shared_private_subnet(std::span<const InterfaceAddress> interfaces,
                                                      const base::Ip& here, const base::Ip& there) {
  const auto found = std::ranges::find_if(interfaces, [&](const InterfaceAddress& one) {
    return one.address == here && here.is_private() && here != there &&
           here.shares_prefix(there, one.prefix);
  });
  if (found == interfaces.end()) return std::nullopt;
  return *found;
}

FabricChoice choose_fabric(const FabricFacts& facts) {
  FabricChoice choice = by_place(facts);
  if (choice.kind == FabricKind::none) return choice;
  if (!facts.here.why_not.empty()) return no(facts.here.why_not);
  if (!facts.there.why_not.empty()) return no("at the other end: " + facts.there.why_not);
  const Version& here = facts.here.version;
  const Version& there = facts.there.version;
  const bool known = here != Version{} && there != Version{};
  if (known && !compatible(here, there)) {
    return no(fmt::format("UCX {} here and {} at the other end do not link", to_string(here),
                          to_string(there)));
  }
  return choice;
}

}  // namespace starling::io::ucx
