#include "io/ucx/interface_addresses.hpp"

#include <bit>
#include <memory>

#include <ifaddrs.h>
#include <net/if.h>

#include "io/raw_address.hpp"

namespace starling::io::ucx {

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    const auto address = ip_port_of(one->ifa_addr);
    const auto mask = ip_port_of(one->ifa_netmask);
    if (!address || !mask || (one->ifa_flags & IFF_UP) == 0) continue;
    unsigned prefix = 0;
    for (const std::uint8_t byte : mask->ip.bytes()) {
      prefix += static_cast<unsigned>(std::popcount(byte));
    }
    found.push_back({one->ifa_name, address->ip, prefix});
  }
  return found;
}

}  // namespace starling::io::ucx
