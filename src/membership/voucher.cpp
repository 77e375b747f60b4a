#include "membership/voucher.hpp"

#include <bit>
#include <string_view>

#include "base/bytes.hpp"
#include "base/endian.hpp"

namespace starling::membership {
namespace {

// A signature of these bytes can be taken for nothing else.
constexpr std::string_view kVoucherContext = "starling voucher 1";

constexpr int kRoundedBits = 5;

base::Bytes signed_bytes(std::uint64_t subject, std::uint64_t limit) {
  const base::ByteView context = base::bytes_of(kVoucherContext.data(), kVoucherContext.size());
  base::Bytes bytes(context.begin(), context.end());
  base::append_little(bytes, subject);
  base::append_little(bytes, limit);
  return bytes;
}

}  // namespace

wire::Voucher vouch(std::uint64_t subject, std::uint64_t limit, Signer& signer) {
  return {
      .limit = limit, .by = signer.key(), .signature = signer.sign(signed_bytes(subject, limit))};
}

bool is_genuine(const wire::Voucher& voucher, std::uint64_t subject, Signer& signer) {
  const base::PeerId by = signer.owner_of(voucher.by);
  return by.prefix() != subject &&
         signer.verify(by, voucher.by, signed_bytes(subject, voucher.limit), voucher.signature);
}

std::uint64_t rounded_up(std::uint64_t samples) noexcept {
  const int low = std::bit_width(samples) - kRoundedBits;
  if (low <= 0) return samples;
  const std::uint64_t unit = std::uint64_t{1} << low;
  return (samples + unit - 1) / unit * unit;
}

}  // namespace starling::membership
