#include "io/router/messages.hpp"

#include <optional>

#include <fmt/core.h>

#include "base/endian.hpp"

namespace starling::io::router {
namespace {

using base::append_big;
using base::load_big;

constexpr std::uint8_t kTcp = 6;

}  // namespace

namespace pcp {
namespace {

constexpr std::uint8_t kVersion = 2;
constexpr std::uint8_t kMap = 1;
constexpr std::uint8_t kAnswer = 0x80;
constexpr std::size_t kHeaderSize = 24;
constexpr std::uint8_t kUnsupportedVersion = 1;
// Places in an answer.
constexpr std::size_t kCodeAt = 3;
constexpr std::size_t kLifetimeAt = 4;
constexpr std::size_t kNonceAt = 24;
constexpr std::size_t kProtocolAt = 36;
constexpr std::size_t kPortAt = 40;
constexpr std::size_t kOuterPortAt = 42;
constexpr std::size_t kOuterAt = 44;

std::string text_of(std::uint8_t code) {
  constexpr std::array<const char*, 14> kTexts{
      "",
      "unsupported version",
      "not authorized; mappings may be switched off in its settings",
      "malformed request",
      "it maps no ports",
      "unsupported option",
      "malformed option",
      "its own line has no connection",
      "it has no room for one more mapping",
      "it maps no TCP ports",
      "this machine has too many mappings",
      "it cannot give this outer address",
      "a router in between has changed the address",
      "too many remote peers",
  };
  return code < kTexts.size() ? kTexts[code] : fmt::format("error {}", code);
}

}  // namespace

base::Bytes pack(const PortRequest& request, const Nonce& nonce) {
  base::Bytes bytes;
  append_big(bytes, kVersion);
  append_big(bytes, kMap);
  append_big(bytes, std::uint16_t{0});
  append_big(bytes, request.lifetime);
  base::append_little(bytes, request.own.mapped());
  base::append_little(bytes, nonce);
  append_big(bytes, kTcp);
  base::append_little(bytes, std::array<std::uint8_t, 3>{});
  append_big(bytes, request.port);
  append_big(bytes, request.outer_port);
  // "Any" also has a family.
  const bool any_v6 = request.outer.is_any() && request.own.is_v6();
  base::append_little(bytes, (any_v6 ? base::Ip::any_v6() : request.outer).mapped());
  return bytes;
}

PortReply unpack(base::ByteView bytes, const PortRequest& request, const Nonce& nonce) {
  if (bytes.size() < 4 || bytes.size() > kAnswerMax) return Foreign{};
  // A router that knows only NAT-PMP answers with version 0.
  if (load_big<std::uint8_t>(bytes, 0) != kVersion) return OtherVersion{};
  if (bytes.size() < kHeaderSize || bytes.size() % 4 != 0) return Foreign{};
  if (load_big<std::uint8_t>(bytes, 1) != (kAnswer | kMap)) return Foreign{};
  const auto code = load_big<std::uint8_t>(bytes, kCodeAt);
  if (code == kUnsupportedVersion) return OtherVersion{};
  if (bytes.size() < kSize) {
    // Only refusals may lack the refused request.
    return code == 0 ? PortReply(Foreign{}) : RouterRefusal{text_of(code)};
  }
  if (base::load_little<Nonce>(bytes, kNonceAt) != nonce ||
      load_big<std::uint8_t>(bytes, kProtocolAt) != kTcp ||
      load_big<std::uint16_t>(bytes, kPortAt) != request.port) {
    return Foreign{};
  }
  if (code != 0) return RouterRefusal{text_of(code)};
  return PortAnswer{
      .outer = *base::Ip::of_bytes(base::load_little<base::Ip::Bytes16>(bytes, kOuterAt)),
      .outer_port = load_big<std::uint16_t>(bytes, kOuterPortAt),
      .lifetime = load_big<std::uint32_t>(bytes, kLifetimeAt)};
}

}  // namespace pcp

namespace nat_pmp {
namespace {

constexpr std::uint8_t kVersion = 0;
constexpr std::uint8_t kAddress = 0;
constexpr std::uint8_t kMapTcp = 2;
constexpr std::uint8_t kAnswer = 128;
constexpr std::uint16_t kUnsupportedVersion = 1;
constexpr std::size_t kRefusalSize = 8;
constexpr std::size_t kAddressSize = 12;
constexpr std::size_t kMapSize = 16;

std::string text_of(std::uint16_t code) {
  constexpr std::array<const char*, 6> kTexts{
      "",
      "unsupported version",
      "not authorized; mappings may be switched off in its settings",
      "its own line has no connection",
      "it has no room for one more mapping",
      "it maps no ports",
  };
  return code < kTexts.size() ? kTexts[code] : fmt::format("error {}", code);
}

/// Nothing if it is a successful answer to `operation`, of this size.
std::optional<PortReply> look(base::ByteView bytes, std::uint8_t operation, std::size_t size) {
  if (bytes.size() < kRefusalSize || bytes.size() > kAnswerMax) return Foreign{};
  if (load_big<std::uint8_t>(bytes, 0) != kVersion) return Foreign{};
  if (load_big<std::uint8_t>(bytes, 1) != (kAnswer | operation)) return Foreign{};
  const auto code = load_big<std::uint16_t>(bytes, 2);
  if (code == kUnsupportedVersion) return OtherVersion{};
  if (code != 0) return RouterRefusal{text_of(code)};
  if (bytes.size() != size) return Foreign{};
  return std::nullopt;
}

}  // namespace

base::Bytes pack_address_request() { return {std::byte{kVersion}, std::byte{kAddress}}; }

base::Bytes pack(const PortRequest& request) {
  base::Bytes bytes;
  append_big(bytes, kVersion);
  append_big(bytes, kMapTcp);
  append_big(bytes, std::uint16_t{0});
  append_big(bytes, request.port);
  // A removal requests no port.
  append_big(bytes, request.lifetime == 0 ? std::uint16_t{0} : request.outer_port);
  append_big(bytes, request.lifetime);
  return bytes;
}

PortReply unpack_address(base::ByteView bytes) {
  if (auto other = look(bytes, kAddress, kAddressSize)) return std::move(*other);
  return PortAnswer{.outer = base::Ip::v4(load_big<std::uint32_t>(bytes, 8))};
}

PortReply unpack(base::ByteView bytes, const PortRequest& request) {
  if (auto other = look(bytes, kMapTcp, kMapSize)) return std::move(*other);
  if (load_big<std::uint16_t>(bytes, 8) != request.port) return Foreign{};
  return PortAnswer{.outer = {},
                    .outer_port = load_big<std::uint16_t>(bytes, 10),
                    .lifetime = load_big<std::uint32_t>(bytes, 12)};
}

}  // namespace nat_pmp

}  // namespace starling::io::router
