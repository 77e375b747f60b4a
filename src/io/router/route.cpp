#include "io/router/route.hpp"

#include <array>
#include <cstring>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/descriptor.hpp"

namespace starling::io::router {
namespace {

/// Any address in the internet will do: one that is nobody's neighbour.
constexpr std::array<std::uint8_t, 4> kFarV4{1, 1, 1, 1};
constexpr std::array<std::uint8_t, 16> kFarV6{0x26, 0x06, 0x47, 0x00, 0x47, 0, 0,    0,
                                              0,    0,    0,    0,    0,    0, 0x11, 0x11};

struct Question {
  nlmsghdr header{};
  rtmsg route{};
  rtattr attribute{};
  std::array<std::uint8_t, 16> far{};
};

Question question(bool v4) {
  Question asked;
  const std::size_t size = v4 ? kFarV4.size() : kFarV6.size();
  std::memcpy(asked.far.data(), v4 ? kFarV4.data() : kFarV6.data(), size);
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

std::optional<Ip> ip_of(const rtattr* attribute, bool v4) {
  const std::size_t size = v4 ? 4 : 16;
  if (RTA_PAYLOAD(attribute) != size) return std::nullopt;
  if (!v4) {
    Ip ip;
    std::memcpy(ip.bytes.data(), RTA_DATA(attribute), size);
    return ip;
  }
  std::array<std::uint8_t, 4> bytes{};
  std::memcpy(bytes.data(), RTA_DATA(attribute), size);
  return Ip::v4(bytes);
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
  std::optional<Ip> own;
  std::optional<Ip> gateway;
  auto left = static_cast<int>(RTM_PAYLOAD(header));
  for (const rtattr* one = RTM_RTA(route); RTA_OK(one, left); one = RTA_NEXT(one, left)) {
    if (one->rta_type == RTA_PREFSRC) own = ip_of(one, v4);
    if (one->rta_type == RTA_GATEWAY) gateway = ip_of(one, v4);
    if (one->rta_type == RTA_OIF && RTA_PAYLOAD(one) == sizeof found.interface) {
      std::memcpy(&found.interface, RTA_DATA(one), sizeof found.interface);
    }
  }
  if (!own || !gateway) return std::nullopt;
  found.own = *own;
  found.gateway = *gateway;
  return found;
}

}  // namespace starling::io::router
