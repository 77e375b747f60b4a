// Vouchers: a peer's signature that another one may have trained so many samples. What nobody
// vouches for is not counted.
#pragma once

#include <cstdint>

#include "membership/signer.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// For the peer with this prefix, by the owner of `signer`.
[[nodiscard]] wire::Voucher vouch(std::uint64_t subject, std::uint64_t limit, Signer& signer);

/// Whether another peer than the subject has signed it for the subject.
[[nodiscard]] bool is_genuine(const wire::Voucher& voucher, std::uint64_t subject, Signer& signer);

/// The next number of five significant bits, `samples` or above: so peers that vouch for the same
/// one often say the same.
[[nodiscard]] std::uint64_t rounded_up(std::uint64_t samples) noexcept;

}  // namespace starling::membership
