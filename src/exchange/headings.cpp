#include "exchange/headings.hpp"

#include <algorithm>
#include <cstdint>

#include "base/rng.hpp"
#include "exchange/clip.hpp"

namespace starling::exchange {

void Headings::add(const delta::Elements& own, const delta::Elements& their) {
  add(own, own_);
  add(their, their_);
  exchanges_ = std::min(exchanges_ + 1, kExchangesMin);
}

void Headings::add(const delta::Elements& delta, Sketch& sketch) {
  constexpr float kKept = 0.9F;  // of what was told before
  sketch.resize(kPlaces);
  for (float& sum : sketch) sum *= kKept;
  for (std::size_t i = 0; i < delta.indices.size(); ++i) {
    std::uint64_t drawn = delta.indices[i];
    const std::uint64_t hash = base::splitmix64(drawn);
    const bool is_negative = hash >> 63U != 0;
    sketch[hash % kPlaces] += is_negative ? -delta.values[i] : delta.values[i];
  }
}

double Headings::cosine() const {
  if (exchanges_ < kExchangesMin) return 0;
  double product = 0;
  for (std::size_t i = 0; i < kPlaces; ++i) product += double{own_[i]} * double{their_[i]};
  const double norms = norm_of(own_) * norm_of(their_);
  return norms > 0 ? product / norms : 0;
}

}  // namespace starling::exchange
