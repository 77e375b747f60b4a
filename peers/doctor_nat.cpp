#include "doctor_nat.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "io/nat.hpp"

namespace starling::peers {
namespace {

/// The advice on how others can dial this machine, as an end of a sentence. `mapped`: the router's
/// mappings.
std::string advice(const io::Nat& nat, std::span<const base::IpPort> mapped) {
  const std::span<const io::Nat> nats(&nat, 1);
  for (const base::IpPort& outer : mapped) {
    if (outer.ip.is_v4() != nat.seen.observed.ip.is_v4()) continue;
    if (io::is_behind_another(outer, nats)) return {};  // a separate finding reports that
    return "; by the router's mapping others dial this machine";
  }
  return "; to be dialed, forward the port in the router to this machine (--announce names it "
         "if its outer port is a different one)";
}

std::string kind_text(const io::Nat& nat, std::span<const base::IpPort> mapped) {
  switch (nat.kind) {
    case io::NatKind::none:
      return nat.seen.observed.ip.is_global()
                 ? "no address translation; whether a firewall keeps others out, a peer finds out "
                   "once it runs: --peer says"
                 : "no address translation on the local network; --join of a peer outside tells "
                   "what is in between";
    case io::NatKind::unknown:
      return "translated; a second --join, of a peer on another host, tells the kind of NAT";
    case io::NatKind::moderate:
      return "translated, the same outer port for all (endpoint-independent): links by dials at "
             "one moment work" +
             advice(nat, mapped);
    case io::NatKind::strict:
      return fmt::format(
          "strict (symmetric) NAT, {} sees {} and {} sees {}: peers that cannot be dialed are "
          "linked over a relay{}",
          to_string(nat.seen.peer), to_string(nat.seen.observed), to_string(nat.another->peer),
          to_string(nat.another->observed), advice(nat, mapped));
  }
  return {};
}

void add_kind(const io::Nat& nat, std::span<const base::IpPort> mapped, Findings& findings) {
  const bool translated = nat.kind != io::NatKind::none;
  findings.add(
      "address", Verdict::good,
      fmt::format(
          "others see this machine at {}, {}{}", to_string(nat.seen.observed),
          translated ? "its own address is " + to_string(nat.seen.own) : "an address of its own",
          nat.seen.observed.ip.is_global() ? "" : ": this is not an internet address"));
  findings.add("NAT", Verdict::good, kind_text(nat, mapped));
}

/// The address at which a peer sees the proxy through which it was dialed.
void add_proxy(std::span<const io::Greeting> greetings, Findings& findings) {
  const auto proxied = std::ranges::find_if(greetings, [](const io::Greeting& greeting) {
    return greeting.observed && !greeting.sighting;
  });
  if (proxied == greetings.end()) return;
  findings.add("address", Verdict::good,
               fmt::format("others see the proxy's address, {}: nobody can dial this machine there",
                           proxied->observed->ip.text()));
}

}  // namespace

void find_nat(std::span<const io::Greeting> greetings, std::span<const base::IpPort> mapped,
              Findings& findings) {
  add_proxy(greetings, findings);
  std::vector<io::Sighting> sightings;
  for (const io::Greeting& greeting : greetings) {
    if (greeting.sighting) sightings.push_back(*greeting.sighting);
  }
  const std::vector<io::Nat> nats = io::judge_nat(sightings);
  for (const io::Nat& nat : nats) add_kind(nat, mapped, findings);
  if (!sightings.empty() && nats.empty()) {
    findings.add("address", Verdict::absent,
                 "not known: only peers of this machine answered, --join one of another");
  }
  const auto says = [](const io::Greeting& greeting) { return greeting.observed.has_value(); };
  if (!greetings.empty() && std::ranges::none_of(greetings, says)) {
    findings.add("address", Verdict::absent,
                 "not known: no peer says where it sees this machine; is it of another version?");
  }
  for (const base::IpPort& outer : mapped) {
    if (!io::is_behind_another(outer, nats)) continue;
    findings.add(
        "NAT", Verdict::absent,
        fmt::format("two routers in a row, as a provider's (carrier-grade NAT): this one's outer "
                    "address is {}, {}. The mapping does not help; ask the provider for an address "
                    "of the internet, or use IPv6. Until then this machine dials others",
                    outer.ip.text(),
                    outer.ip.is_global() ? "but others see a different one"
                                         : "which is not an internet address"));
  }
}

}  // namespace starling::peers
