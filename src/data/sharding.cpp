#include "data/sharding.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"

namespace starling::data {
namespace {

/// Uniform in (0, 1): never 0, so that its logarithm is finite.
double open_uniform(std::uint64_t bits) noexcept {
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

/// Standard normal draw (Box and Muller, 1958).
double normal(base::Rng& rng) noexcept {
  const double radius = std::sqrt(-2.0 * std::log(open_uniform(rng())));
  return radius * std::cos(2.0 * std::numbers::pi * open_uniform(rng()));
}

/// Logarithm of a Gamma(shape, 1) draw: G. Marsaglia and W. W. Tsang, "A simple method for
/// generating gamma variables" (ACM TOMS 26, 2000); below shape 1 by Gamma(shape + 1) U^(1/shape).
double log_gamma_draw(double shape, base::Rng& rng) noexcept {
  const double boosted = shape < 1.0 ? shape + 1.0 : shape;
  const double d = boosted - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal(rng);
    const double t = 1.0 + c * x;
    if (t <= 0.0) continue;
    const double v = t * t * t;
    if (std::log(open_uniform(rng())) >= 0.5 * x * x + d - d * v + d * std::log(v)) continue;
    const double log_draw = std::log(d * v);
    return shape < 1.0 ? log_draw + std::log(open_uniform(rng())) / shape : log_draw;
  }
}

/// Hash of a shard and a member.
std::uint64_t pair_hash(std::uint64_t seed, std::uint32_t shard, const base::PeerId& id) noexcept {
  std::array<std::byte, sizeof shard + sizeof id.bytes> key;
  for (std::size_t i = 0; i < sizeof shard; ++i) key[i] = static_cast<std::byte>(shard >> (8 * i));
  std::memcpy(key.data() + sizeof shard, id.bytes.data(), sizeof id.bytes);
  return base::xxh3(base::ByteView(key), seed);
}

}  // namespace

Shards::Shards(std::uint32_t samples, std::span<const std::int32_t> labels, const Config& config,
               std::uint64_t seed, bool holds_back)
    : split_(config.split), alpha_(config.alpha), seed_(seed), samples_(samples) {
  ASSERT(samples > 0 && config.shards > 0);
  base::Rng rng(seed);
  std::iota(samples_.begin(), samples_.end(), 0U);
  base::shuffle(samples_, rng);
  if (goes_by_labels(split_)) {
    ASSERT(labels.size() == samples);
    std::ranges::stable_sort(samples_, {}, [&](std::uint32_t sample) { return labels[sample]; });
  } else {
    cut(0, samples_.size(), config.shards);
  }
  if (split_ == Split::stratified) {
    deal(config.shards);
    sample_labels_ = labels;
  }
  if (split_ == Split::dirichlet) {
    for (std::size_t first = 0; first < samples_.size();) {
      const std::int32_t label = labels[samples_[first]];
      std::size_t end = first;
      while (end < samples_.size() && labels[samples_[end]] == label) ++end;
      cut(first, end - first, config.shards * (end - first) / samples_.size());
      labels_.resize(begins_.size(), label);
      first = end;
    }
  }
  begins_.push_back(samples_.size());
  held_.assign(begins_.begin() + 1, begins_.end());
  if (holds_back && samples >= kHeldBackFrom) hold_back();
}

// The same samples whatever shards there are, but for the first of each shard.
void Shards::hold_back() {
  const auto is_kept = [this](std::uint32_t sample) {
    std::uint64_t state = seed_ ^ (std::uint64_t{sample} << 32);
    return base::splitmix64(state) % kHeldBackOneIn != 0;
  };
  const auto at = [this](std::size_t i) {
    return samples_.begin() + static_cast<std::ptrdiff_t>(i);
  };
  for (std::size_t shard = 0; shard < held_.size(); ++shard) {
    const auto held =
        std::stable_partition(at(begins_[shard] + 1), at(begins_[shard + 1]), is_kept);
    held_[shard] = static_cast<std::size_t>(held - samples_.begin());
  }
}

// Cuts samples_[first, first + count) into about `parts` shards, whose sizes differ by at most one.
void Shards::cut(std::size_t first, std::size_t count, std::size_t parts) {
  parts = std::clamp<std::size_t>(parts, 1, count);
  for (std::size_t i = 0; i < parts; ++i) begins_.push_back(first + count * i / parts);
}

// Deals samples_ out to `parts` shards like cards.
void Shards::deal(std::size_t parts) {
  parts = std::min(parts, samples_.size());
  const std::vector<std::uint32_t> sorted = std::exchange(samples_, {});
  samples_.reserve(sorted.size());
  for (std::size_t part = 0; part < parts; ++part) {
    begins_.push_back(samples_.size());
    for (std::size_t i = part; i < sorted.size(); i += parts) samples_.push_back(sorted[i]);
  }
}

std::span<const std::uint32_t> Shards::samples(std::uint32_t shard) const noexcept {
  ASSERT(shard < count());
  return std::span(samples_).subspan(begins_[shard], held_[shard] - begins_[shard]);
}

template <class Part>
std::vector<std::uint32_t> Shards::gather(std::span<const std::uint32_t> owned, Part&& part) const {
  std::vector<std::uint32_t> every;
  if (owned.empty()) {
    every.resize(count());
    std::iota(every.begin(), every.end(), 0U);
    owned = every;
  }
  std::size_t size = 0;
  for (const std::uint32_t shard : owned) size += part(shard).size();
  std::vector<std::uint32_t> gathered;
  gathered.reserve(size);
  for (const std::uint32_t shard : owned) {
    const std::span<const std::uint32_t> samples = part(shard);
    gathered.insert(gathered.end(), samples.begin(), samples.end());
  }
  return gathered;
}

std::vector<std::uint32_t> Shards::samples_of(std::span<const std::uint32_t> owned) const {
  return gather(owned, [this](std::uint32_t shard) { return samples(shard); });
}

std::vector<std::uint32_t> Shards::held_back_of(std::span<const std::uint32_t> owned) const {
  return gather(owned, [this](std::uint32_t shard) {
    return std::span(samples_).subspan(held_[shard], begins_[shard + 1] - held_[shard]);
  });
}

std::int32_t Shards::label(std::uint32_t shard) const noexcept {
  ASSERT(shard < labels_.size(), "only a dirichlet shard has one label");
  return labels_[shard];
}

double log_label_share(std::uint64_t seed, std::int32_t label, const std::string& peer_name,
                       double alpha) {
  // The label is part of the hashed text: if it were mixed into the seed, another seed would draw
  // the same shares, of other labels.
  base::Rng rng(base::xxh3(fmt::format("label {} of {}", label, peer_name), seed));
  return log_gamma_draw(alpha, rng);
}

std::vector<std::uint32_t> shard_owners(const Shards& shards, std::span<const Member> members) {
  ASSERT(!members.empty());
  std::vector<std::uint32_t> owners(shards.count(), 0);
  std::vector<double> best(shards.count(), std::numeric_limits<double>::infinity());
  for (std::uint32_t m = 0; m < members.size(); ++m) {
    const Member& member = members[m];
    ASSERT(member.weight > 0.0);
    const double log_weight = std::log(member.weight);
    std::int32_t drawn = -1;  // shards of one label follow each other
    double log_share = 0;
    for (std::uint32_t shard = 0; shard < shards.count(); ++shard) {
      double log_here = log_weight;
      if (shards.split() == Split::dirichlet) {
        const std::int32_t label = shards.label(shard);
        if (label != drawn) {
          drawn = label;
          log_share = log_label_share(shards.seed(), label, member.name, shards.alpha());
        }
        log_here += log_share;
      }
      // The largest -w / ln(u) is the smallest ln(-ln(u)) - ln(w).
      const double u = open_uniform(pair_hash(shards.seed(), shard, member.id));
      const double cost = std::log(-std::log(u)) - log_here;
      if (cost < best[shard] || (cost == best[shard] && member.id < members[owners[shard]].id)) {
        best[shard] = cost;
        owners[shard] = m;
      }
    }
  }
  return owners;
}

std::vector<std::uint32_t> owned_shards(const Shards& shards, std::span<const Member> members,
                                        const base::PeerId& self) {
  std::vector<std::uint32_t> owned;
  if (shards.split() == Split::private_data) {
    owned.resize(shards.count());
    std::iota(owned.begin(), owned.end(), 0U);
    return owned;
  }
  const std::vector<std::uint32_t> owners = shard_owners(shards, members);
  for (std::uint32_t shard = 0; shard < shards.count(); ++shard) {
    if (members[owners[shard]].id == self) owned.push_back(shard);
  }
  return owned;
}

}  // namespace starling::data
