#include "io/host_pace.hpp"

#include <algorithm>

namespace starling::io {

bool HostPace::take(const base::Ip& from, base::Time now) {
  if (from.is_loopback()) return true;
  auto host =
      std::ranges::find_if(hosts_, [&](const Host& known) { return known.ip.same_holder(from); });
  if (host == hosts_.end()) {
    if (hosts_.size() == kHostsMax) hosts_.erase(std::ranges::min_element(hosts_, {}, &Host::last));
    host = hosts_.insert(hosts_.end(), {from, {kEachSecond, kBurst}, now});
  }
  host->last = now;
  return host->allowance.take(now);
}

}  // namespace starling::io
