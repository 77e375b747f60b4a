#include "reach/network.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "base/ip.hpp"
#include "reach/limits.hpp"

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

std::vector<std::string> meeting_places(const wire::MemberRecord& record,
                                        const std::string& observed) {
  std::vector<std::string> all;
  const auto add = [&](std::string address) {
    if (all.size() < kCandidates && std::ranges::find(all, address) == all.end()) {
      all.push_back(std::move(address));
    }
  };
  const std::string first = record.addresses.empty() ? std::string() : record.addresses.front();
  if (record.reach == wire::Reachability::reachable && !first.empty()) add(first);
  if (const auto seen = host_port(observed)) {
    add(base::to_address(seen->host, seen->port));
    if (const auto listens = host_port(first)) add(base::to_address(seen->host, listens->port));
  }
  return all;
}

}  // namespace starling::reach
