#include "peer/known_addresses.hpp"

#include <algorithm>
#include <utility>

#include "membership/limits.hpp"

namespace starling::peer {
namespace {

bool contains(const std::vector<std::string>& list, const std::string& address) {
  return std::ranges::find(list, address) != list.end();
}

}  // namespace

KnownAddresses::KnownAddresses(std::vector<std::string> given, std::vector<std::string> remembered)
    : given_(std::move(given)), told_(std::move(remembered)) {
  for (const std::string& address : told_) {
    if (given_.size() + former_.size() >= membership::kJoinMax) break;
    if (!contains(given_, address) && !contains(former_, address)) former_.push_back(address);
  }
}

std::vector<std::string> KnownAddresses::all() const {
  std::vector<std::string> all = given_;
  all.insert(all.end(), former_.begin(), former_.end());
  return all;
}

bool KnownAddresses::was_given(const std::string& address) const {
  return contains(given_, address);
}

bool KnownAddresses::note_failure(const std::string& address) {
  return was_given(address) && failed_.insert(address).second;
}

bool KnownAddresses::note_turned_away(const std::string& address) {
  if (!was_given(address)) return false;
  turned_away_.insert(address);
  return std::ranges::all_of(
      given_, [&](const std::string& given) { return turned_away_.contains(given); });
}

bool KnownAddresses::may_have_moved(std::uint64_t table_hash, base::Time now) {
  if (table_hash == table_hash_ || now < look_after_) return false;
  table_hash_ = table_hash;
  look_after_ = now + kRememberEvery;
  return true;
}

// A peer that was not met again in this life may be in the next.
std::optional<std::vector<std::string>> KnownAddresses::remember(std::vector<std::string> others) {
  for (const std::string& address : former_) {
    if (others.size() >= membership::kRememberedMax) break;
    if (!contains(others, address)) others.push_back(address);
  }
  if (others == told_) return std::nullopt;
  return told_ = std::move(others);
}

void KnownAddresses::add_bounds(base::Bounds& out) const {
  out.add("addresses of a former life", former_.size(), membership::kJoinMax);
  out.add("addresses to be remembered", told_.size(), membership::kRememberedMax);
  out.add("given addresses that failed", failed_.size(), given_.size());
  out.add("given addresses with another secret", turned_away_.size(), given_.size());
}

void KnownAddresses::add_timers(base::Time now, base::Bounds& out) const {
  out.add_timer("the next look at others' addresses", look_after_, now, kRememberEvery);
}

}  // namespace starling::peer
