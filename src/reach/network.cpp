#include "reach/network.hpp"

#include <fmt/core.h>

#include "base/ip.hpp"

namespace starling::reach {

std::optional<HostPort> host_port(std::string_view address) {
  const auto parts = base::split_address(address);
  if (!parts || parts->host.empty() || parts->port == 0) return std::nullopt;
  return HostPort{std::string(parts->host), parts->port};
}

std::string network_of(std::string_view address) {
  const auto parts = host_port(address);
  if (!parts) return {};
  const std::string_view host = parts->host;
  const auto ip = base::Ip::parse(host.substr(0, host.find('%')));
  if (!ip) return parts->host;
  const auto bytes = ip->bytes();
  if (ip->is_v4()) return fmt::format("{}.{}", bytes[0], bytes[1]);
  return fmt::format("{:x}:{:x}", bytes[0] << 8 | bytes[1], bytes[2] << 8 | bytes[3]);
}

}  // namespace starling::reach
