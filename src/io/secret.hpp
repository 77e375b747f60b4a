// The secret that all peers of a swarm have and strangers do not: an end that does not prove it
// gets no link.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace starling::io {

class Secret {
 public:
  static constexpr std::size_t kSize = 32;

  /// Reads a file that create() made, or another one of 64 hexadecimal digits. Errors (run_file)
  /// name the file, what is wrong and what to do.
  [[nodiscard]] static base::Result<Secret> load(const std::string& path);
  /// The same for a swarm that may have none: nothing for an empty path.
  [[nodiscard]] static base::Result<std::optional<Secret>> load_if_any(const std::string& path);
  /// A new one, in a file that only its owner may read. Errors: data; usage if the file exists.
  [[nodiscard]] static base::Status create(const std::string& path);

  [[nodiscard]] base::ByteView bytes() const noexcept { return std::as_bytes(std::span(bytes_)); }

 private:
  Secret() = default;

  std::array<std::uint8_t, kSize> bytes_{};
};

}  // namespace starling::io
