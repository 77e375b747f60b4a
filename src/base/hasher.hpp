// XXH3 of bytes that do not lie in one piece.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.hpp"

namespace starling::base {

/// Takes bytes piece by piece; digest() is xxh3() of all of them together.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  void update(ByteView bytes) noexcept;
  [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace starling::base
