#include "io/interfaces.hpp"

#include <array>

#include <uv.h>

namespace starling::io {

std::vector<std::string> reachable_addresses(const std::string& bound, std::size_t max) {
  static constexpr char kAny[] = "0.0.0.0:";
  if (!bound.starts_with(kAny)) return {bound};
  const std::string port = bound.substr(sizeof kAny - 1);
  std::vector<std::string> addresses;
  uv_interface_address_t* interfaces = nullptr;
  int count = 0;
  if (uv_interface_addresses(&interfaces, &count) == 0) {
    for (int i = 0; i < count && addresses.size() < max; ++i) {
      const uv_interface_address_t& one = interfaces[i];
      std::array<char, 64> ip{};
      if (one.is_internal != 0 || one.address.address4.sin_family != AF_INET ||
          uv_ip4_name(&one.address.address4, ip.data(), ip.size()) != 0) {
        continue;
      }
      addresses.push_back(std::string(ip.data()) + ":" + port);
    }
    uv_free_interface_addresses(interfaces, count);
  }
  if (addresses.empty()) addresses.push_back("127.0.0.1:" + port);
  return addresses;
}

}  // namespace starling::io
