// libFuzzer: any bytes as a text of a person or a file, or a datagram of the network: of a peer, a
// router, a proxy, the process that maps a port. The first byte says which. What is taken and
// written again is the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.hpp"
#include "base/ip.hpp"
#include "base/port_range.hpp"
#include "base/printable.hpp"
#include "io/address.hpp"
#include "io/lan.hpp"
#include "io/mapping_reports.hpp"
#include "io/proxy.hpp"
#include "io/proxy_tunnel.hpp"
#include "io/router/messages.hpp"
#include "peer/invite.hpp"
#include "peer/run_file.hpp"
#include "sim/scenario.hpp"
#include "tests/fuzz/input.hpp"

using namespace starling;

namespace {

void fuzz_invite(const std::string& text) {
  const auto invite = peer::parse_invite(text);
  if (!invite) return;
  ASSERT(!invite->addresses.empty() && invite->addresses.size() <= peer::kInviteAddressesMax);
  const auto again = peer::parse_invite(peer::to_string(*invite));
  ASSERT(again.has_value() && *again == *invite);
}

void fuzz_run_file(const std::string& text) {
  const auto run_file = peer::parse_run_file(text, "run.toml");
  if (!run_file) return ASSERT(!run_file.error().text.empty());
  const std::string written = peer::to_toml(*run_file);
  const auto again = peer::parse_run_file(written, "run.toml");
  ASSERT(again.has_value() && peer::to_toml(*again) == written);
  static_cast<void>(peer::shared_toml(*run_file));
  static_cast<void>(peer::named_files(*run_file));
}

void fuzz_scenario(const std::string& text) {
  const auto scenario = sim::parse_scenario(text, "scenario.toml");
  if (!scenario) return;
  const std::string written = sim::to_toml(*scenario);
  const auto again = sim::parse_scenario(written, "scenario.toml");
  ASSERT(again.has_value() && sim::to_toml(*again) == written);
}

void fuzz_address(const std::string& text) {
  if (const auto parsed = io::parse_address(text)) {
    const auto again = io::parse_address(io::to_string(*parsed));
    ASSERT(again.has_value() && again->host == parsed->host && again->port == parsed->port);
  }
  static_cast<void>(io::parse_target(text));
  static_cast<void>(io::choose_proxy(text));
  static_cast<void>(base::parse_port_range(text, 1));
  if (const auto ip = base::Ip::parse(text)) {
    const auto again = base::Ip::parse(to_string(*ip));
    ASSERT(again && *again == *ip);
  }
  static_cast<void>(base::printable(text, base::kShownMax));
}

void fuzz_announcement(base::ByteView bytes) {
  const auto announcement = io::unpack_announcement(bytes);
  if (!announcement) return;
  const auto packed = io::pack(*announcement);
  ASSERT(std::equal(packed.begin(), packed.end(), bytes.begin(), bytes.end()));
}

void fuzz_router(base::ByteView bytes) {
  const io::router::PortRequest request{};
  static_cast<void>(io::router::pcp::unpack(bytes, request, {}));
  static_cast<void>(io::router::nat_pmp::unpack_address(bytes));
  static_cast<void>(io::router::nat_pmp::unpack(bytes, request));
  io::MappingReports reports;
  if (!reports.take(bytes, base::Time{})) return;
  static_cast<void>(reports.addresses());
  for (const std::string& note : reports.take_notes()) ASSERT(!note.empty());
}

void fuzz_proxy(fuzz::Input input) {
  const auto proxy =
      io::parse_proxy(input.flag() ? "socks5://user:word@192.0.2.1:1" : "http://192.0.2.1:1");
  ASSERT(proxy.has_value());
  io::ProxyTunnel tunnel(*proxy, {"peer.example", 4000});
  base::Buffer said;
  tunnel.output(said);
  const std::size_t piece = 1 + input.at_most(63);
  while (!input.empty() && !tunnel.established()) {
    if (!tunnel.receive(input.take_bytes(piece))) return;
    tunnel.output(said);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.at_most(6)) {
    case 0:
      fuzz_invite(input.text());
      break;
    case 1:
      fuzz_run_file(input.text());
      break;
    case 2:
      fuzz_scenario(input.text());
      break;
    case 3:
      fuzz_address(input.text());
      break;
    case 4:
      fuzz_announcement(input.rest());
      break;
    case 5:
      fuzz_router(input.rest());
      break;
    default:
      fuzz_proxy(input);
      break;
  }
  return 0;
}
