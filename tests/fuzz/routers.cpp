// libFuzzer: any bytes as a router's answers about a port, as reports to the peer of the process
// that asks it, and as a proxy's answers before it connects. All of them are strangers.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.hpp"
#include "io/mapping_reports.hpp"
#include "io/proxy.hpp"
#include "io/proxy_tunnel.hpp"
#include "io/router/line.hpp"
#include "io/router/messages.hpp"
#include "tests/fuzz/input.hpp"

using namespace starling;

namespace {

void read_answer(base::ByteView bytes) {
  const io::router::PortRequest request{};
  static_cast<void>(io::router::pcp::unpack(bytes, request, {}));
  static_cast<void>(io::router::nat_pmp::unpack_address(bytes));
  static_cast<void>(io::router::nat_pmp::unpack(bytes, request));
}

void read_line(base::ByteView bytes) {
  const auto line = io::router::read_line(base::text_of(bytes));
  if (!line) return;
  const auto again = io::router::read_line(io::router::write_line(*line));
  ASSERT(again.has_value() && *again == *line);
}

void read_reports(fuzz::Input input) {
  io::MappingReports reports;
  base::Time now{std::chrono::seconds(1)};
  while (!input.empty()) {
    now += std::chrono::seconds(input.take<std::uint8_t>());
    const base::ByteView bytes = input.take_bytes(input.take<std::uint8_t>());
    const bool taken = reports.take(bytes, now).has_value();
    for (const std::string& note : reports.take_notes()) ASSERT(!note.empty());
    ASSERT(reports.mapped().size() <= 2 && reports.addresses().size() <= 2, "one of a family");
    if (!taken) reports.start_over();
    reports.expire(now);
    const auto due = reports.next_deadline();
    ASSERT(!due || *due > now, "what is over is dropped");
  }
}

void read_proxy(fuzz::Input input) {
  constexpr const char* kProxies[] = {"socks5://192.0.2.1:1", "socks5://user:word@192.0.2.1:1",
                                      "http://192.0.2.1:1", "http://user:word@192.0.2.1:1"};
  const auto proxy = io::parse_proxy(kProxies[input.at_most(3)]);
  ASSERT(proxy.has_value());
  io::ProxyTunnel tunnel(*proxy, {input.flag() ? "peer.example" : "2001:db8::1", 4000});
  base::Bytes said;
  tunnel.output(said);
  const std::size_t piece = 1 + input.at_most(63);
  while (!input.empty() && !tunnel.established()) {
    const auto taken = tunnel.receive(input.take_bytes(piece));
    if (!taken) return ASSERT(!taken.error().text.empty());
    tunnel.output(said);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.at_most(3)) {
    case 0:
      read_answer(input.rest());
      break;
    case 1:
      read_line(input.rest());
      break;
    case 2:
      read_reports(input);
      break;
    default:
      read_proxy(input);
  }
  return 0;
}
