#include "io/ucx/interface_addresses.hpp"

#include <bit>
#include <memory>

#include <ifaddrs.h>
#include <net/if.h>

namespace starling::io::ucx {

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_netmask == nullptr || (one->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    const auto address = Ip::from(one->ifa_addr);
    const auto mask = Ip::from(one->ifa_netmask);
    if (!address || !mask) continue;
    unsigned prefix = 0;
    for (const std::uint8_t byte : mask->bytes()) {
      prefix += static_cast<unsigned>(std::popcount(byte));
    }
    found.push_back({one->ifa_name, *address, prefix});
  }
  return found;
}

}  // namespace starling::io::ucx
