#include "io/router/route.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/descriptor.hpp"

namespace starling::io::router {
namespace {

/// Any address on the internet that is not in a local network will do.
constexpr std::string_view kFarV4 = "1.1.1.1";
constexpr std::string_view kFarV6 = "2606:4700:4700::1111";

struct Question {
  nlmsghdr header{};
  rtmsg route{};
  rtattr attribute{};
  std::array<std::uint8_t, 16> far{};
};

Question question(bool v4) {
  Question asked;
  const base::Ip far = base::Ip::parse(v4 ? kFarV4 : kFarV6).value();
  const std::size_t size = far.bytes().size();
  std::ranges::copy(far.bytes(), asked.far.begin());
  asked.attribute.rta_type = RTA_DST;
  asked.attribute.rta_len = static_cast<unsigned short>(RTA_LENGTH(size));
  asked.route.rtm_family = v4 ? AF_INET : AF_INET6;
  asked.route.rtm_dst_len = static_cast<unsigned char>(8 * size);
  asked.header.nlmsg_type = RTM_GETROUTE;
  asked.header.nlmsg_flags = NLM_F_REQUEST;
  asked.header.nlmsg_len =
      static_cast<std::uint32_t>(NLMSG_LENGTH(sizeof(rtmsg)) + RTA_LENGTH(size));
  return asked;
}

std::optional<base::Ip> ip_of(const rtattr* attribute, bool v4) {
  const auto* const bytes = static_cast<const std::uint8_t*>(RTA_DATA(attribute));
  const auto ip = base::Ip::of_bytes({bytes, RTA_PAYLOAD(attribute)});
  return ip && ip->is_v4() == v4 ? ip : std::nullopt;
}

}  // namespace

std::optional<Route> route_to_internet(bool v4) {
  const base::Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  const Question asked = question(v4);
  if (!socket.valid() || ::send(socket.get(), &asked, asked.header.nlmsg_len, 0) < 0) {
    return std::nullopt;
  }
  alignas(nlmsghdr) std::array<char, 4096> buffer{};
  const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data());
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(rtmsg))) ||
      !NLMSG_OK(header, static_cast<std::size_t>(got)) || header->nlmsg_type != RTM_NEWROUTE) {
    return std::nullopt;
  }
  const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(header));
  if (route->rtm_type != RTN_UNICAST) return std::nullopt;
  Route found;
  std::optional<base::Ip> own;
  std::optional<base::Ip> gateway;
  auto left = static_cast<int>(RTM_PAYLOAD(header));
  for (const rtattr* one = RTM_RTA(route); RTA_OK(one, left); one = RTA_NEXT(one, left)) {
    if (one->rta_type == RTA_PREFSRC) own = ip_of(one, v4);
    if (one->rta_type == RTA_GATEWAY) gateway = ip_of(one, v4);
    if (one->rta_type == RTA_OIF && RTA_PAYLOAD(one) == sizeof found.interface) {
      std::memcpy(&found.interface, RTA_DATA(one), sizeof found.interface);
    }
  }
  if (!own || !gateway) return std::nullopt;
  found.own = own->on_interface(found.interface);
  found.gateway = gateway->on_interface(found.interface);
  return found;
}

}  // namespace starling::io::router
