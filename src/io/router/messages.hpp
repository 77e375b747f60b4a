// Requests to a router about a TCP port: PCP (RFC 6887, opcode MAP) and NAT-PMP (RFC 6886), both at
// its UDP port 5351. Bytes only. A router's answers are not trusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "base/bytes.hpp"
#include "base/ip.hpp"

namespace starling::io::router {

inline constexpr std::uint16_t kRouterPort = 5351;
/// Longer answers are invalid (RFC 6887, section 7).
inline constexpr std::size_t kAnswerMax = 1100;

/// Shows the router that a renewal or removal comes from the maker of the mapping.
using Nonce = std::array<std::uint8_t, 12>;

/// A port that is to be mapped, or is.
struct PortRequest {
  base::Ip own;            ///< this machine's address
  std::uint16_t port = 0;  ///< the peer's listening port
  base::Ip outer;          ///< the requested address; unspecified: any
  std::uint16_t outer_port = 0;
  std::uint32_t lifetime = 0;  ///< seconds; 0 removes the mapping
};

/// The datagram is not an answer, or not to this request: to be ignored.
struct Foreign {};
/// The router does not speak this protocol.
struct OtherVersion {};
struct RouterRefusal {
  std::string text;
};
struct PortAnswer {
  base::Ip outer;  ///< NAT-PMP does not say it here: unspecified
  std::uint16_t outer_port = 0;
  std::uint32_t lifetime = 0;
};
using PortReply = std::variant<Foreign, OtherVersion, RouterRefusal, PortAnswer>;

namespace pcp {

inline constexpr std::size_t kSize = 60;
[[nodiscard]] base::Bytes pack(const PortRequest& request, const Nonce& nonce);
/// `request`: the request; its addresses and the nonce must come back.
[[nodiscard]] PortReply unpack(base::ByteView bytes, const PortRequest& request,
                               const Nonce& nonce);

}  // namespace pcp

namespace nat_pmp {

/// Asks for the outer address.
[[nodiscard]] base::Bytes pack_address_request();
[[nodiscard]] base::Bytes pack(const PortRequest& request);
/// Only the address in PortAnswer::outer is set.
[[nodiscard]] PortReply unpack_address(base::ByteView bytes);
[[nodiscard]] PortReply unpack(base::ByteView bytes, const PortRequest& request);

}  // namespace nat_pmp

}  // namespace starling::io::router
