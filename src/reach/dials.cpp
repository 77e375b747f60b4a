#include "reach/dials.hpp"

#include <algorithm>
#include <utility>

#include "reach/limits.hpp"

namespace starling::reach {

using Purpose = Dialing::Purpose;

bool Dials::start(Dialing dialing, DialKind kind, Outbox& out) {
  const bool asked = dialing.purpose == Purpose::back || dialing.purpose == Purpose::probe;
  if (dials_.size() >= kDialsMax || (asked && for_others() >= kBacksMax)) return false;
  out.push_back(Dial{dialing.address, dialing.peer, kind});
  dials_.push_back(std::move(dialing));
  return true;
}

// Several dials to one address may be under way: their outcomes come in the order of their start,
// or the order makes no difference.
std::optional<Dialing> Dials::take(const std::string& address,
                                   const std::optional<base::PeerId>& peer) {
  const auto found = std::ranges::find_if(dials_, [&](const Dialing& dialing) {
    return dialing.address == address && (!peer || dialing.peer == peer);
  });
  if (found == dials_.end()) return std::nullopt;
  Dialing dialing = std::move(*found);
  dials_.erase(found);
  return dialing;
}

void Dials::set_told(const std::string& address) {
  for (Dialing& dialing : dials_) {
    if (dialing.purpose == Purpose::want && dialing.address == address) dialing.told = true;
  }
}

std::vector<Dialing> Dials::late_probes(base::Time now) {
  std::vector<Dialing> late;
  for (Dialing& dialing : dials_) {
    if (!dialing.answer_by || *dialing.answer_by > now) continue;
    late.push_back(dialing);
    dialing.answer_by.reset();
  }
  return late;
}

bool Dials::is_wanted(const std::string& address) const {
  const auto found = std::ranges::find(dials_, address, &Dialing::address);
  return found == dials_.end() || found->purpose == Purpose::want;
}

std::size_t Dials::count(Purpose purpose) const {
  return static_cast<std::size_t>(std::ranges::count(dials_, purpose, &Dialing::purpose));
}

std::size_t Dials::for_others() const { return count(Purpose::back) + count(Purpose::probe); }

}  // namespace starling::reach
