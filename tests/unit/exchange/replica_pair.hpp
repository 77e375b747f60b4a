// Replicas of one process, wired to each other without a network.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/bytes.hpp"
#include "base/rng.hpp"
#include "exchange/replica.hpp"

namespace starling::exchange::test {

inline base::PeerId peer(std::uint8_t number) {
  base::PeerId id;
  id.bytes[0] = number;
  return id;
}

/// Bit for bit.
inline bool same(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(base::bytes_of(a), base::bytes_of(b));
}

/// Sum of four uniforms: near enough to normal, and the same everywhere.
inline float noise(base::Rng& rng) {
  return static_cast<float>(rng.uniform() + rng.uniform() + rng.uniform() + rng.uniform() - 2.0) *
         1.7F;
}

inline std::vector<float> noises(std::size_t n, base::Rng& rng, float scale = 1.0F) {
  std::vector<float> values(n);
  for (float& value : values) value = scale * noise(rng);
  return values;
}

/// A local step: the same change to y and, since r stays, to x.
inline void train(Replica& replica, base::Rng& rng, float scale) {
  for (float& value : replica.trained()) value += scale * noise(rng);
}

inline std::vector<float> x_of(const Replica& replica) {
  std::vector<float> x(replica.size());
  replica.read(x);
  return x;
}

/// A delta by itself at a step boundary.
inline void encode(Replica& replica, const base::PeerId& to, const delta::Options& options,
                   base::Bytes& out) {
  const auto stats = replica.encode(to, options, out);
  BOOST_REQUIRE_MESSAGE(stats.has_value(), (stats ? std::string() : stats.error().text));
}

inline delta::Elements decoded(const base::Bytes& bytes, std::size_t n) {
  delta::Elements elements;
  BOOST_REQUIRE(delta::decode(bytes, n, elements).has_value());
  return elements;
}

/// `values` and a delta.
inline std::vector<float> with_delta(std::vector<float> values, const base::Bytes& bytes) {
  const delta::Elements delta = decoded(bytes, values.size());
  for (std::size_t k = 0; k < delta.size(); ++k) values[delta.indices[k]] += delta.values[k];
  return values;
}

inline void commit(Replica& replica, const CommitJob& job) {
  const auto status = replica.stage(job);
  BOOST_REQUIRE_MESSAGE(status.has_value(), (status ? std::string() : status.error().text));
  replica.apply_staged();
}

/// One exchange between a (peer ia) and b (peer ib); `parts`: those of a.
inline void meet(Replica& a, const base::PeerId& ia, Replica& b, const base::PeerId& ib, float w,
                 const delta::Options& options, const delta::EndParts& parts = {}) {
  base::Bytes qa;
  base::Bytes qb;
  encode(a, ib, options, qa);
  encode(b, ia, options, qb);
  commit(a, {.peer = ib, .own = qa, .their = qb, .w = w, .parts = parts});
  const delta::EndParts of_b{parts.their, parts.own, parts.their_share, parts.own_share};
  commit(b, {.peer = ia, .own = qb, .their = qa, .w = w, .parts = of_b});
}

inline bool mirrors_equal(const Replica& a, const base::PeerId& ia, const Replica& b,
                          const base::PeerId& ib) {
  return a.mirror_hash(ib, MirrorOf::mine) == b.mirror_hash(ia, MirrorOf::theirs) &&
         a.mirror_hash(ib, MirrorOf::theirs) == b.mirror_hash(ia, MirrorOf::mine);
}

/// |a - b| / |a|
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double away = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    away += d * d;
    norm += static_cast<double>(a[i]) * static_cast<double>(a[i]);
  }
  return std::sqrt(away / norm);
}

}  // namespace starling::exchange::test
