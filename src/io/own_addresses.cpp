#include "io/own_addresses.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "io/address.hpp"
#include "wire/messages.hpp"

namespace starling::io {
namespace {

/// Between two checks of the machine's addresses.
constexpr base::Duration kInterfacesEvery = std::chrono::seconds(5);
/// Own addresses over which others came that are remembered.
constexpr std::size_t kUsedMax = 64;

}  // namespace

OwnAddresses::OwnAddresses(const base::IpPort& bound, std::vector<std::string> announced,
                           Observer observer)
    : bound_(bound), observer_(std::move(observer)), interfaces_(own_addresses()) {
  known_.announced = std::move(announced);
  addresses_ = reachable_addresses(bound_, known_, wire::kAddressesMax);
}

// The router's answer is one address among others: if it lies, no peer will come over it.
void OwnAddresses::start(Loop& loop, const std::string& port_mapper) {
  timer_ = std::make_unique<Timer>(loop, [this] { check(); });
  timer_->start(kInterfacesEvery);
  if (port_mapper.empty() || bound_.ip.is_loopback()) return;
  mapping_ = std::make_unique<PortMapping>(
      loop, port_mapper, to_string(bound_),
      PortMapping::Observer{.changed = [this] { check(); }, .note = observer_.note});
}

void OwnAddresses::stop() {
  timer_.reset();
  if (mapping_) mapping_->end();
}

// A peer may start before its machine has a network, and be carried from one to another. Without a
// network, it could not tell others anyway.
void OwnAddresses::check() {
  timer_->start(kInterfacesEvery);
  std::vector<OwnAddress> interfaces = own_addresses();
  if (mapping_) known_.outer = mapping_->addresses();
  std::vector<std::string> found = told_addresses(bound_, known_, interfaces, wire::kAddressesMax);
  if (found.empty()) return;
  const bool moved = !std::ranges::is_permutation(interfaces, interfaces_);
  interfaces_ = std::move(interfaces);
  if (found == addresses_) return;
  addresses_ = std::move(found);
  observer_.note(fmt::format("{}others reach this peer at {}",
                             moved ? "this machine's network has changed: " : "",
                             fmt::join(addresses_, ", ")));
  observer_.changed(addresses_);
}

// An address that others probably cannot reach is worth telling once a peer has reached it. It is
// the one from which this machine answers.
void OwnAddresses::note_comer(const std::string& from) {
  const auto parsed = parse_address(from);
  const auto comer = parsed ? numeric_address(*parsed) : std::nullopt;
  const auto own = comer ? source_to(comer->ip) : std::nullopt;
  // A peer on this machine itself could have come over any address.
  if (!own || *own == comer->ip || std::ranges::count(known_.used, *own) > 0) return;
  if (known_.used.size() == kUsedMax) known_.used.erase(known_.used.begin());
  known_.used.push_back(*own);
}

}  // namespace starling::io
