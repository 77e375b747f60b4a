#include "reach/network.hpp"

#include <cstddef>

#include <fmt/format.h>

#include "base/ip.hpp"
#include "base/parse_number.hpp"

namespace starling::reach {

std::optional<HostPort> host_port(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = base::parse_number<std::uint16_t>(address.substr(colon + 1));
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || !port || *port == 0) return std::nullopt;
  return HostPort{std::string(host), *port};
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
