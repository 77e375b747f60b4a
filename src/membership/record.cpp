#include "membership/record.hpp"

#include <bit>
#include <span>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "base/endian.hpp"
#include "base/hash.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"

namespace starling::membership {
namespace {

using wire::MemberRecord;
using wire::MemberState;

// A signature of these bytes can be taken for nothing else.
constexpr std::string_view kContext = "starling member record 3";

// Of a version: incarnation, state, signature.
constexpr int kSignatureBits = 11;
constexpr int kStateBits = 2;
static_assert(kCounterMax <= std::uint64_t{1} << (64 - kSignatureBits - kStateBits));

// Strings have their length in front.
void put(base::Bytes& bytes, std::uint64_t value) { base::append_little(bytes, value); }

void put(base::Bytes& bytes, std::string_view text) {
  put(bytes, text.size());
  base::append(bytes, base::bytes_of(text.data(), text.size()));
}

std::size_t size_of(const MemberRecord& record) {
  std::size_t size = 192 + record.name.size();  // id, key, signature, fixed fields, table overhead
  for (const std::string& address : record.addresses) size += 16 + address.size();
  return size;
}

}  // namespace

base::Bytes signed_bytes(const MemberRecord& record) {
  base::Bytes bytes;
  bytes.reserve(256);
  put(bytes, kContext);
  for (const std::uint8_t byte : record.id.bytes) bytes.push_back(std::byte{byte});
  for (const std::uint8_t byte : record.key) bytes.push_back(std::byte{byte});
  put(bytes, record.name);
  put(bytes, record.addresses.size());
  for (const std::string& address : record.addresses) put(bytes, address);
  put(bytes, record.incarnation);
  put(bytes, record.state == MemberState::left ? 1 : 0);
  put(bytes, std::bit_cast<std::uint32_t>(record.speed));
  put(bytes, static_cast<std::uint64_t>(record.reach));
  put(bytes, record.has_replica ? 1 : 0);
  put(bytes, static_cast<std::uint64_t>(record.weight));
  put(bytes, std::uint64_t{record.batch});
  put(bytes, std::bit_cast<std::uint32_t>(record.lr));
  return bytes;
}

void sign(MemberRecord& record, Signer& signer) {
  record.key = signer.key();
  record.signature = signer.sign(signed_bytes(record));
}

bool is_genuine(const MemberRecord& record, Signer& signer) {
  return signer.verify(record.id, record.key, signed_bytes(record), record.signature);
}

std::uint64_t version_of(const MemberRecord& record) noexcept {
  const std::uint64_t state =
      counts_as_alive(record.state) ? 0 : static_cast<std::uint64_t>(record.state);
  const std::uint64_t mark =
      base::xxh3(std::as_bytes(std::span(record.signature))) >> (64 - kSignatureBits);
  return (record.incarnation << kStateBits | state) << kSignatureBits | mark;
}

std::uint64_t fingerprint(const base::PeerId& id, std::uint64_t version) noexcept {
  return base::xxh3(std::as_bytes(std::span(id.bytes)), version);
}

std::vector<wire::Gossip> to_gossip(std::vector<MemberRecord> records) {
  std::vector<wire::Gossip> messages;
  std::size_t bytes = 0;
  for (MemberRecord& record : records) {
    const std::size_t size = size_of(record);
    if (messages.empty() || messages.back().members.size() >= wire::kMembersPerGossip ||
        bytes + size > kGossipBytesMax || SIM_RARE(one_record_a_frame)) {
      messages.emplace_back();
      bytes = 0;
    }
    bytes += size;
    messages.back().members.push_back(std::move(record));
  }
  return messages;
}

}  // namespace starling::membership
