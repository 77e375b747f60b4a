// Proves to another process that this one has the same machine and user, and the same network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace starling::io::ucx {

/// Knowledge of a key in a file that only its user may read, and of the number of the network
/// namespace: containers may share one and not the other.
class MachineProof {
 public:
  static constexpr std::size_t kSize = 32;
  using Bytes = std::array<std::uint8_t, kSize>;

  /// With the key of this machine and user, which is made if there is none: machine.key in
  /// $XDG_RUNTIME_DIR/starling, or else in /tmp/starling-UID. Error (network): a folder or file
  /// there belongs to another user, or others may use it.
  [[nodiscard]] static base::Result<MachineProof> open();
  /// The same in this folder, which is made if there is none.
  [[nodiscard]] static base::Result<MachineProof> open(const std::string& folder);

  /// HMAC-SHA256 of a text that identifies the link (such as keying material exported from its TLS
  /// session) and names the prover: otherwise the other end could send a proof back.
  [[nodiscard]] Bytes of(base::ByteView text) const;
  /// Whether another end's proof of this text is right, in constant time.
  [[nodiscard]] bool accepts(base::ByteView text, base::ByteView proof) const;

 private:
  MachineProof() = default;

  std::array<std::uint8_t, kSize> key_{};
  std::uint64_t network_ = 0;
};

}  // namespace starling::io::ucx
