// Signs this peer's record and judges others': handed in, so that the core knows no
// cryptography.
#pragma once

#include "base/bytes.hpp"
#include "base/peer_id.hpp"
#include "wire/messages.hpp"

namespace starling::membership {

/// On the core's thread; outlives the core.
class Signer {
 public:
  virtual ~Signer() = default;

  /// This peer's public key.
  [[nodiscard]] virtual wire::PublicKey key() const = 0;
  /// The id of the peer whose key that would be.
  [[nodiscard]] virtual base::PeerId owner_of(const wire::PublicKey& key) const = 0;
  /// This peer's signature of `bytes`: the same bytes give the same signature.
  [[nodiscard]] virtual wire::Signature sign(base::ByteView bytes) = 0;
  /// Whether `key` is the key of the peer `id`, and `signature` is its signature of `bytes`.
  [[nodiscard]] virtual bool verify(const base::PeerId& id, const wire::PublicKey& key,
                                    base::ByteView bytes, const wire::Signature& signature) = 0;
};

}  // namespace starling::membership
