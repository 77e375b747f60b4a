#include "base/hasher.hpp"

#define XXH_STATIC_LINKING_ONLY  // the state as a complete type
#include <xxhash.h>

namespace starling::base {

struct Hasher::State {
  XXH3_state_t xxh3;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh3); }
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::update(ByteView bytes) noexcept {
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::uint64_t Hasher::digest() const noexcept { return XXH3_64bits_digest(&state_->xxh3); }

}  // namespace starling::base
