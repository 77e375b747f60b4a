#include "io/router/line.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "base/enum_names.hpp"
#include "base/parse_number.hpp"
#include "base/printable.hpp"

namespace starling::io::router {
namespace {

using base::ErrorCode;
using base::fail;

constexpr base::EnumNames<Protocol, 3> kProtocols{
    {{"pcp", Protocol::pcp}, {"nat-pmp", Protocol::nat_pmp}, {"upnp", Protocol::upnp}}};

/// Cuts off the text before the next space.
std::string_view take_word(std::string_view& text) {
  const auto end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

base::Result<Line> read_mapping(std::string_view rest) {
  Mapping mapping;
  const auto protocol = base::value_of(take_word(rest), kProtocols);
  if (!protocol) return fail(ErrorCode::protocol, "an unknown protocol");
  mapping.protocol = *protocol;
  const auto outer = base::parse_ip_port(take_word(rest));
  if (!outer || outer->ip.is_any() || outer->port == 0) {
    return fail(ErrorCode::protocol, "no address");
  }
  mapping.outer = *outer;
  const auto seconds = base::parse_number<std::uint32_t>(rest);
  if (!seconds) return fail(ErrorCode::protocol, "no lifetime");
  mapping.lifetime = std::chrono::seconds(*seconds);
  if (mapping.lifetime < kLifetimeMin || mapping.lifetime > kLifetimeMax) {
    return fail(ErrorCode::protocol, "a lifetime that is not believed");
  }
  return Line(mapping);
}

}  // namespace

const char* to_string(Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::pcp:
      return "PCP";
    case Protocol::nat_pmp:
      return "NAT-PMP";
    case Protocol::upnp:
      return "UPnP";
  }
  return "?";
}

std::string write_line(const Line& line) {
  if (const auto* mapping = std::get_if<Mapping>(&line)) {
    return fmt::format("mapped {} {} {}", base::name_of(mapping->protocol, kProtocols),
                       to_string(mapping->outer),
                       std::chrono::floor<std::chrono::seconds>(mapping->lifetime).count());
  }
  const auto& unmapped = std::get<Unmapped>(line);
  return fmt::format("none {} {}", unmapped.v4 ? "ipv4" : "ipv6",
                     base::printable(unmapped.why, kWhyMax));
}

base::Result<Line> read_line(std::string_view text) {
  if (text.size() > kLineMax) return fail(ErrorCode::protocol, "a line that is too long");
  const std::string_view kind = take_word(text);
  if (kind == "mapped") return read_mapping(text);
  if (kind != "none") return fail(ErrorCode::protocol, "an unknown word");
  const std::string_view family = take_word(text);
  if (family != "ipv4" && family != "ipv6") return fail(ErrorCode::protocol, "an unknown family");
  if (text.empty()) return fail(ErrorCode::protocol, "no reason");
  return Line(Unmapped{family == "ipv4", base::printable(text, kWhyMax)});
}

}  // namespace starling::io::router
