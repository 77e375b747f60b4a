// What is said to a router about a TCP port: PCP (RFC 6887, opcode MAP) and NAT-PMP (RFC 6886),
// both at its UDP port 5351. Bytes only. What a router says is a stranger's word.
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
/// Longer answers are none (RFC 6887, section 7).
inline constexpr std::size_t kAnswerMax = 1100;

/// Shows the router that who renews or removes a mapping is who made it.
using Nonce = std::array<std::uint8_t, 12>;

/// A port that is to be mapped, or is.
struct PortRequest {
  base::Ip own;            ///< this machine's address
  std::uint16_t port = 0;  ///< that is listened on
  base::Ip outer;          ///< that is asked for; unspecified: any
  std::uint16_t outer_port = 0;
  std::uint32_t lifetime = 0;  ///< seconds; 0 removes the mapping
};

/// The answer has nothing to do with what was asked, or is none: to be passed over.
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
[[nodiscard]] base::Buffer pack(const PortRequest& request, const Nonce& nonce);
/// `request`: what was asked; its addresses and the nonce must come back.
[[nodiscard]] PortReply unpack(base::ByteView bytes, const PortRequest& request,
                               const Nonce& nonce);

}  // namespace pcp

namespace nat_pmp {

/// Asks for the outer address.
[[nodiscard]] base::Buffer pack_address_request();
[[nodiscard]] base::Buffer pack(const PortRequest& request);
/// The address in PortAnswer::outer, nothing else.
[[nodiscard]] PortReply unpack_address(base::ByteView bytes);
[[nodiscard]] PortReply unpack(base::ByteView bytes, const PortRequest& request);

}  // namespace nat_pmp

}  // namespace starling::io::router
