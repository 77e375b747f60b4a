// Signatures for simulated swarms: cheap, deterministic, and no proof of anything. They tell bytes
// that were changed from those that were signed, which is what a simulated network can do to them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hash.hpp"
#include "membership/signer.hpp"

namespace starling::membership {

class SimulatedSigner final : public Signer {
 public:
  explicit SimulatedSigner(const base::PeerId& id) : id_(id) {}

  [[nodiscard]] wire::PublicKey key() const override { return key_of(id_); }
  [[nodiscard]] base::PeerId owner_of(const wire::PublicKey& key) const override { return {key}; }
  [[nodiscard]] wire::Signature sign(base::ByteView bytes) override { return mark(id_, bytes); }
  [[nodiscard]] bool verify(const base::PeerId& id, const wire::PublicKey& key,
                            base::ByteView bytes, const wire::Signature& signature) override {
    return key == key_of(id) && signature == mark(id, bytes);
  }

 private:
  // A peer's id takes the place of its key.
  static wire::PublicKey key_of(const base::PeerId& id) { return id.bytes; }

  static wire::Signature mark(const base::PeerId& id, base::ByteView bytes) {
    const std::uint64_t hash = base::xxh3(bytes, id.prefix());
    wire::Signature signature{};
    for (std::size_t i = 0; i < 8; ++i) signature[i] = static_cast<std::uint8_t>(hash >> (8 * i));
    return signature;
  }

  base::PeerId id_;
};

}  // namespace starling::membership
