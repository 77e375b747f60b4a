#include "io/ucx/filter.hpp"

#include <cstdint>

#include "base/assert.hpp"
#include "base/endian.hpp"

namespace starling::io::ucx {
namespace {

// In a socket filter, negative offsets lead to the network header (SKF_NET_OFF): the packet itself
// begins at TCP.
constexpr std::uint32_t kNetwork = static_cast<std::uint32_t>(SKF_NET_OFF);
constexpr std::uint32_t kSourceV4 = kNetwork + 12;
constexpr std::uint32_t kSourceV6 = kNetwork + 8;
constexpr std::uint32_t kWholePacket = 0xffffffff;

std::uint32_t word(const base::Ip& ip, std::size_t index) {
  return base::load_big<std::uint32_t>(std::as_bytes(ip.bytes()), 4 * index);
}

sock_filter load(std::uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter give(std::uint32_t bytes) { return BPF_STMT(BPF_RET | BPF_K, bytes); }
// Continues with the next instruction if the loaded word is `value`, otherwise skips some.
sock_filter unless(std::uint32_t value, std::uint8_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip);
}

}  // namespace

std::vector<sock_filter> filter_for(bool v6, std::span<const base::Ip> allowed) {
  ASSERT(allowed.size() <= kAllowedMax);
  constexpr std::size_t kWords = 4;
  static_assert(kAllowedMax * (2 * kWords + 1) + 5 <= BPF_MAXINSNS);
  std::vector<sock_filter> program;
  // Packets of the other family never come here, but an IPv6 socket that also takes IPv4 would read
  // its header at the wrong place: so the version is checked.
  program.push_back(BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kNetwork));
  program.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v6 ? 0x60U : 0x40U, 1, 0));
  program.push_back(give(0));
  if (!v6) program.push_back(load(kSourceV4));
  for (const base::Ip& ip : allowed) {
    if (ip.is_v6() != v6) continue;
    if (!v6) {
      program.push_back(unless(word(ip, 0), 1));
    } else {
      for (std::size_t i = 0; i < kWords; ++i) {
        program.push_back(load(kSourceV6 + 4 * static_cast<std::uint32_t>(i)));
        program.push_back(unless(word(ip, i), static_cast<std::uint8_t>(2 * (kWords - 1 - i) + 1)));
      }
    }
    program.push_back(give(kWholePacket));
  }
  program.push_back(give(0));
  ASSERT(program.size() <= BPF_MAXINSNS);
  return program;
}

}  // namespace starling::io::ucx
