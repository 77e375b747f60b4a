// libFuzzer: any bytes as a person's input: an invite, an address, a proxy, a range of ports.
// Accepted input stays the same when it is written and read again.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/assert.hpp"
#include "base/ip.hpp"
#include "base/port_range.hpp"
#include "base/printable.hpp"
#include "io/address.hpp"
#include "io/proxy.hpp"
#include "runfile/invite.hpp"
#include "tests/fuzz/input.hpp"

using namespace starling;

namespace {

void read_invite(const std::string& text) {
  const auto invite = runfile::parse_invite(text);
  if (!invite) return ASSERT(!invite.error().text.empty());
  ASSERT(!invite->addresses.empty() && invite->addresses.size() <= runfile::kInviteAddressesMax);
  const auto again = runfile::parse_invite(to_string(*invite));
  ASSERT(again.has_value() && *again == *invite);
  static_cast<void>(runfile::invite_word(text));
}

void read_address(const std::string& text) {
  if (const auto parsed = io::parse_address(text)) {
    const auto again = io::parse_address(io::to_string(*parsed));
    ASSERT(again.has_value() && *again == *parsed);
    static_cast<void>(io::numeric_address(*parsed));
  }
  static_cast<void>(io::parse_target(text));
  if (const auto ip = base::Ip::parse(text)) ASSERT(base::Ip::parse(ip->text()) == ip);
  if (const auto at = base::parse_ip_port(text)) {
    ASSERT(base::parse_ip_port(base::to_string(*at)) == at);
  }
}

void read_proxy(const std::string& text) {
  const auto none = [](const char*) { return std::optional<std::string>(); };
  const auto proxy = io::choose_proxy(text, none);
  if (!proxy || !*proxy) return;
  ASSERT(!(*proxy)->name().empty() && (*proxy)->at.port != 0);
  static_cast<void>((*proxy)->serves({"peer.example", 4000}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::Input(data, size).text();
  read_invite(text);
  read_address(text);
  read_proxy(text);
  static_cast<void>(base::parse_port_range(text, 1));
  static_cast<void>(base::printable(text, base::kShownMax));
  return 0;
}
