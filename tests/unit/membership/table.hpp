// A table of counters with a signer of its own, and vouchers of somebody else.
#pragma once

#include <cstdint>

#include "membership/progress.hpp"
#include "membership/simulated_signer.hpp"
#include "membership/voucher.hpp"

namespace starling::membership::testing {

/// A peer whose id has this prefix.
inline base::PeerId peer(std::uint64_t prefix) {
  base::PeerId id;
  for (std::size_t i = 0; i < 8; ++i) {
    id.bytes[i] = static_cast<std::uint8_t>(prefix >> (56 - 8 * i));
  }
  return id;
}

inline wire::Voucher voucher(std::uint64_t subject, std::uint64_t limit, std::uint64_t by = 77) {
  SimulatedSigner signer(peer(by));
  return vouch(subject, limit, signer);
}

struct OwnSigner {
  SimulatedSigner signer;
};

struct Table : private OwnSigner, public ProgressTable {
  explicit Table(std::uint64_t own)
      : OwnSigner{SimulatedSigner(peer(own))},
        ProgressTable(own, std::chrono::seconds(1), OwnSigner::signer) {}
};

}  // namespace starling::membership::testing
