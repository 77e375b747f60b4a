#include "io/netlink.hpp"

#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace starling::io {
namespace {

/// The most that the kernel writes into one datagram of a dump.
constexpr std::size_t kDatagramMax = 64UL * 1024;
/// The kernel answers at once.
constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};

struct Socket {
  int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  Socket() = default;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
};

/// Asks for all objects of a kind and passes each to `see`.
template <class Body, class See>
void dump(std::uint16_t question, std::uint16_t answer, See see) {
  const Socket socket;
  if (socket.fd < 0) return;
  ::setsockopt(socket.fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  struct {
    nlmsghdr header;
    rtgenmsg body;
  } request{};
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.body);
  request.header.nlmsg_type = question;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.rtgen_family = AF_UNSPEC;
  if (::send(socket.fd, &request, request.header.nlmsg_len, 0) < 0) return;
  std::vector<std::byte> bytes(kDatagramMax);
  for (;;) {
    const ssize_t size = ::recv(socket.fd, bytes.data(), bytes.size(), 0);
    if (size <= 0) return;
    auto left = static_cast<std::uint32_t>(size);
    for (auto* header = reinterpret_cast<nlmsghdr*>(bytes.data()); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) return;
      if (header->nlmsg_type != answer || header->nlmsg_len < NLMSG_LENGTH(sizeof(Body))) continue;
      auto* body = static_cast<Body*>(NLMSG_DATA(header));
      auto* attributes =
          reinterpret_cast<rtattr*>(reinterpret_cast<std::byte*>(body) + NLMSG_ALIGN(sizeof(Body)));
      see(*body, attributes, header->nlmsg_len - NLMSG_LENGTH(sizeof(Body)));
    }
  }
}

template <class See>
void for_each(rtattr* attribute, std::size_t size, See see) {
  for (auto left = static_cast<int>(size); RTA_OK(attribute, left);
       attribute = RTA_NEXT(attribute, left)) {
    see(attribute->rta_type & NLA_TYPE_MASK, RTA_DATA(attribute), RTA_PAYLOAD(attribute));
  }
}

std::string text_of(const void* data, std::size_t size) {
  const std::string_view text(static_cast<const char*>(data), size);
  return std::string(text.substr(0, text.find('\0')));
}

std::uint32_t number_of(const void* data, std::size_t size) {
  std::uint32_t number = 0;
  if (size >= sizeof number) std::memcpy(&number, data, sizeof number);
  return number;
}

std::optional<base::Ip> address_of(const ifaddrmsg& body, const void* data, std::size_t size) {
  const auto ip = base::Ip::of_bytes({static_cast<const std::uint8_t*>(data), size});
  if (!ip) return std::nullopt;
  return ip->on_interface(body.ifa_index);
}

}  // namespace

std::vector<NetLink> net_links() {
  std::vector<NetLink> found;
  dump<ifinfomsg>(RTM_GETLINK, RTM_NEWLINK, [&](const ifinfomsg& body, rtattr* all, auto size) {
    NetLink& link = found.emplace_back();
    link.index = static_cast<std::uint32_t>(body.ifi_index);
    link.is_running = (body.ifi_flags & IFF_UP) != 0 && (body.ifi_flags & IFF_RUNNING) != 0;
    link.is_loopback = (body.ifi_flags & IFF_LOOPBACK) != 0;
    for_each(all, size, [&](int type, void* data, std::size_t length) {
      if (type == IFLA_IFNAME) link.name = text_of(data, length);
      if (type == IFLA_MASTER) link.master = number_of(data, length);
      if (type != IFLA_LINKINFO) return;
      for_each(static_cast<rtattr*>(data), length, [&](int inner, void* kind, std::size_t bytes) {
        if (inner == IFLA_INFO_KIND) link.kind = text_of(kind, bytes);
      });
    });
  });
  return found;
}

std::vector<NetAddress> net_addresses() {
  std::vector<NetAddress> found;
  dump<ifaddrmsg>(RTM_GETADDR, RTM_NEWADDR, [&](const ifaddrmsg& body, rtattr* all, auto size) {
    std::optional<base::Ip> local;  // on a point-to-point link, IFA_ADDRESS is the other end
    std::optional<base::Ip> address;
    std::uint32_t flags = body.ifa_flags;
    for_each(all, size, [&](int type, void* data, std::size_t length) {
      if (type == IFA_LOCAL) local = address_of(body, data, length);
      if (type == IFA_ADDRESS) address = address_of(body, data, length);
      if (type == IFA_FLAGS) flags = number_of(data, length);
    });
    if (local) address = local;
    if (!address || (flags & IFA_F_DADFAILED) != 0) return;
    found.push_back({.address = *address,
                     .link = body.ifa_index,
                     .is_temporary = !address->is_v4() && (flags & IFA_F_TEMPORARY) != 0,
                     .is_deprecated = !address->is_v4() && (flags & IFA_F_DEPRECATED) != 0});
  });
  return found;
}

}  // namespace starling::io
