// libFuzzer: any bytes as datagrams that a peer hears on its network, some of them with a correct
// checksum. Only others of the same run are reported, each with an address to dial; and the number
// of remembered senders stays within its limit.
#include "io/lan.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.hpp"
#include "base/ip.hpp"
#include "io/address.hpp"
#include "io/loop.hpp"
#include "tests/fuzz/input.hpp"

using namespace starling;

namespace {

io::Announcement own() {
  io::Announcement made{.port = 4000};
  made.run.bytes.fill(1);
  made.id.bytes.fill(1);
  return made;
}

void tell(const base::PeerId& peer, const std::string& address) {
  ASSERT(peer != own().id && io::parse_target(address).has_value());
}

/// One of a few runs, peers and ports.
io::Announcement some_announcement(fuzz::Input& input) {
  io::Announcement made = own();
  made.run.bytes[0] = static_cast<std::uint8_t>(input.at_most(7) == 7 ? 2 : 1);
  made.id.bytes[0] = input.take<std::uint8_t>();
  made.port = input.take<std::uint8_t>();
  return made;
}

base::Ip some_sender(fuzz::Input& input) {
  if (input.flag()) return base::Ip::v4(input.take<std::uint32_t>());
  const base::ByteView bytes = input.take_bytes(16);
  std::array<std::uint8_t, 16> raw{};
  std::ranges::transform(bytes, raw.begin(), std::to_integer<std::uint8_t>);
  return base::Ip::of_bytes(raw).value().on_interface(static_cast<unsigned>(input.at_most(2)));
}

void hear(fuzz::Input& input, io::Lan& lan, base::Time now) {
  const base::Ip from = some_sender(input);
  if (input.at_most(3) == 3) {
    const base::ByteView bytes = input.take_bytes(input.at_most(2 * io::kAnnouncementSize));
    if (const auto heard = io::unpack_announcement(bytes)) {
      ASSERT(std::ranges::equal(io::pack(*heard), bytes));
    }
    return lan.receive(bytes, from, now);
  }
  auto bytes = io::pack(some_announcement(input));
  if (input.rarely()) bytes[input.at_most(bytes.size() - 1)] ^= std::byte{1};
  lan.receive(bytes, from, now);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static io::Loop loop = io::Loop::create().value();
  fuzz::Input input(data, size);
  // To port 0 nothing can be announced: the network does not hear of this.
  auto lan = io::Lan::create(loop, own(), base::Ip::loopback(), 0, tell);
  ASSERT(lan.has_value());
  base::Time now{std::chrono::seconds(100)};
  while (!input.empty()) {
    hear(input, **lan, now);
    now += std::chrono::milliseconds(input.take<std::uint8_t>());
    ASSERT((*lan)->remembered() <= io::kLanPeersMax);
  }
  ASSERT(!(*lan)->diagnosis().empty());
  lan->reset();
  while (uv_run(loop.raw(), UV_RUN_NOWAIT) != 0) {
  }
  return 0;
}
