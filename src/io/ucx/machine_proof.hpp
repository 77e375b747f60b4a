// Shows another process that this one is of the same machine and user, and on the same network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace starling::io::ucx {

/// Knowledge of a key in a file that its user alone may read, and of the number of the network
/// namespace: containers may share one and not the other.
class MachineProof {
 public:
  static constexpr std::size_t kSize = 32;
  using Bytes = std::array<std::uint8_t, kSize>;

  /// With the key of this machine and user, which is made where there is none: machine.key in
  /// $XDG_RUNTIME_DIR/starling, or else in /tmp/starling-UID. Error (network): a folder or file
  /// there belongs to somebody else, or others may use it.
  [[nodiscard]] static base::Result<MachineProof> open();
  /// The same in this folder, which is made where there is none.
  [[nodiscard]] static base::Result<MachineProof> open(const std::string& folder);

  /// HMAC-SHA256 of what makes the link unique (as keying material exported from its TLS session)
  /// and names who proves: the other end could send a proof back otherwise.
  [[nodiscard]] Bytes of(base::ByteView text) const;
  /// Whether another end's proof of this is right, in the same time for all that are wrong.
  [[nodiscard]] bool accepts(base::ByteView text, base::ByteView proof) const;

 private:
  MachineProof() = default;

  std::array<std::uint8_t, kSize> key_{};
  std::uint64_t network_ = 0;
};

}  // namespace starling::io::ucx
