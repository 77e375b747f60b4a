#include "io/interfaces.hpp"

#include <array>
#include <string_view>

#include <uv.h>

namespace starling::io {
namespace {

/// The port of a listener at all addresses; empty: it is at one.
std::string_view port_at_all(std::string_view bound) {
  for (const std::string_view any : {"0.0.0.0:", "[::]:"}) {
    if (bound.starts_with(any)) return bound.substr(any.size());
  }
  return {};
}

}  // namespace

std::vector<std::string> external_addresses(const std::string& bound, std::size_t max) {
  const std::string port(port_at_all(bound));
  if (port.empty()) return {bound};
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
  return addresses;
}

std::vector<std::string> reachable_addresses(const std::string& bound, std::size_t max) {
  std::vector<std::string> addresses = external_addresses(bound, max);
  if (addresses.empty()) addresses.push_back("127.0.0.1:" + std::string(port_at_all(bound)));
  return addresses;
}

}  // namespace starling::io
