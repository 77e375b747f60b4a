// Encoding against a plain version of the format, one element and one bit at a time: with any
// vector registers, the codec's bytes are these.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <boost/test/unit_test.hpp>

#include "delta/codec.hpp"
#include "delta/golomb.hpp"
#include "delta/quantize.hpp"
#include "delta/source.hpp"
#include "vectors.hpp"

using namespace starling;
using base::Bytes;
using base::Rng;
using delta::Elements;
using delta::kCodesPerRun;
using delta::Options;
using namespace delta::format;

namespace {

constexpr float kLeast = std::numeric_limits<float>::denorm_min();

Elements plain_select(const std::vector<float>& difference, std::size_t count) {
  std::vector<std::uint32_t> order(difference.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::fabs(difference[a]) > std::fabs(difference[b]);
  });
  order.resize(std::min(count, order.size()));
  std::erase_if(order, [&](std::uint32_t i) { return difference[i] == 0.0F; });
  std::sort(order.begin(), order.end());
  Elements chosen{.indices = order, .values = {}};
  for (const std::uint32_t i : order) chosen.values.push_back(difference[i]);
  return chosen;
}

int plain_level(float value, float scale, int bits) {
  const float level = std::fabs(value) / scale + 0.5F;
  return static_cast<int>(std::clamp(level, 1.0F, static_cast<float>(level_max(bits))));
}

struct Sums {
  double value_level = 0;
  double level_level = 0;
  [[nodiscard]] double gain() const { return value_level * (value_level / level_level); }
};

// Sums in eight lanes, one after another.
Sums plain_sums(std::span<const float> values, float scale, int bits) {
  std::array<double, 8> value_level{};
  std::array<double, 8> level_level{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double level = plain_level(values[i], scale, bits);
    value_level[i % 8] += level * static_cast<double>(std::fabs(values[i]));
    level_level[i % 8] += level * level;
  }
  Sums sums;
  for (const double lane : value_level) sums.value_level += lane;
  for (const double lane : level_level) sums.level_level += lane;
  return sums;
}

float full_scale(std::span<const float> values, int bits) {
  float largest = 0.0F;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return std::max(largest / static_cast<float>(level_max(bits)), kLeast);
}

float plain_scale(std::span<const float> values, int bits) {
  const float most = kMagnitudeMax / static_cast<float>(level_max(bits));
  const auto bounded = [&](const Sums& sums) {
    const auto scale = static_cast<float>(sums.value_level / sums.level_level);
    return std::clamp(scale, kLeast, most);
  };
  const bool searched = bits > 1 && bits < 8;
  float largest = 0.0F;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  const float full = largest / static_cast<float>(level_max(bits));
  Sums best;
  double gain = -1.0;
  for (const float part : {1.0F, 0.8F, 0.62F, 0.45F, 0.3F}) {
    const Sums sums = plain_sums(values, std::max(full * part, kLeast), bits);
    if (sums.gain() > gain) {
      gain = sums.gain();
      best = sums;
    }
    if (!searched) break;
  }
  for (int round = 0; searched && round < 2; ++round) {
    const Sums sums = plain_sums(values, bounded(best), bits);
    if (!(sums.gain() > best.gain())) break;
    best = sums;
  }
  return bounded(best);
}

// Bytes that grow bit by bit, the lowest first.
class Bits {
 public:
  void put(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      if (size_ % 8 == 0) bytes.push_back(std::byte{0});
      bytes.back() |= static_cast<std::byte>((value >> i & 1) << size_++ % 8);
    }
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  Bytes bytes;

 private:
  std::size_t size_ = 0;
};

void put_index(Bits& bits, std::uint32_t gap, std::uint32_t golomb) {
  // As they stand in delta/format.hpp.
  static const std::array<std::vector<std::string>, 4> kPrefixes{
      {{""},
       {"0", "10", "11"},
       {"00", "01", "10", "110", "111"},
       {"00", "010", "011", "100", "101", "110", "111"}}};
  const std::uint32_t divisor = golomb_divisor(golomb);
  for (std::uint32_t i = 0; i < gap / divisor; ++i) bits.put(0, 1);
  bits.put(1, 1);
  const std::uint32_t remainder = gap % divisor;
  const int shift = static_cast<int>(golomb_shift(golomb));
  for (const char bit : kPrefixes[golomb % 4][remainder >> shift]) bits.put(bit == '1' ? 1 : 0, 1);
  bits.put(remainder & ((1U << shift) - 1), shift);
}

template <class T>
void put(Bytes& out, T value) {
  out.resize(out.size() + sizeof value);
  std::memcpy(out.data() + out.size() - sizeof value, &value, sizeof value);
}

// Of many a sample, evenly spread.
std::vector<std::uint32_t> plain_gaps(const std::vector<std::uint32_t>& indices) {
  std::vector<std::uint32_t> gaps;
  const std::size_t looked = std::min<std::size_t>(2048, indices.size());
  for (std::size_t i = 0; i < looked; ++i) {
    const std::size_t j = i * indices.size() / looked;
    gaps.push_back(j == 0 ? indices[0] : indices[j] - indices[j - 1] - 1);
  }
  return gaps;
}

Bytes plain_encode(const std::vector<float>& difference, const Options& options) {
  const Elements chosen =
      plain_select(difference, delta::count_for(options.density, difference.size()));
  const std::uint32_t golomb =
      delta::golomb_parameter(plain_gaps(chosen.indices), chosen.size(), difference.size());
  Bytes out;
  put(out, static_cast<std::uint8_t>(kVersion << 4 | (options.bits - 1)));
  put(out, static_cast<std::uint8_t>(golomb));
  put(out, static_cast<std::uint16_t>(options.block));
  put(out, static_cast<std::uint32_t>(difference.size()));
  put(out, static_cast<std::uint32_t>(chosen.size()));
  Bits indices;
  std::uint32_t next = 0;
  for (std::size_t j = 0; j < chosen.size(); ++j) {
    if (j > 0 && j % kCodesPerRun == 0) put(out, static_cast<std::uint32_t>(indices.size()));
    put_index(indices, chosen.indices[j] - next, golomb);
    next = chosen.indices[j] + 1;
  }
  out.insert(out.end(), indices.bytes.begin(), indices.bytes.end());
  Bits codes;
  for (std::size_t begin = 0; begin < chosen.size(); begin += options.block) {
    const std::size_t size = std::min<std::size_t>(options.block, chosen.size() - begin);
    const auto values = std::span(chosen.values).subspan(begin, size);
    const float scale = plain_scale(values, options.bits);
    put(out, scale);
    for (const float value : values) {
      codes.put(static_cast<std::uint64_t>(plain_level(value, scale, options.bits) - 1),
                options.bits - 1);
      codes.put(std::signbit(value) ? 1 : 0, 1);
    }
  }
  out.insert(out.end(), codes.bytes.begin(), codes.bytes.end());
  return out;
}

double error_of(std::span<const float> values, float scale, int bits) {
  double sum = 0;
  for (const float value : values) {
    const double sent = static_cast<double>(plain_level(value, scale, bits)) * scale;
    sum += (std::fabs(value) - sent) * (std::fabs(value) - sent);
  }
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(plain)

BOOST_AUTO_TEST_CASE(bytes_are_those_of_the_plain_version) {
  constexpr std::uint64_t kSeed = 91;
  Rng rng(kSeed);
  delta::DifferenceSource source;
  delta::Scratch scratch;
  delta::HostDelta own;
  Bytes bytes;
  for (int round = 0; round < 120; ++round) {
    const std::size_t n = 1 + rng.below(std::size_t{1} << (1 + rng.below(17)));
    const double density = std::pow(10.0, -3.5 * rng.uniform());
    const int bits = std::array{1, 2, 3, 4, 8}[rng.below(5)];
    const auto block = static_cast<std::uint32_t>(1 + rng.below(400));
    auto base = delta::test::normals(n, rng);
    const auto offset = delta::test::normals(n, rng, 1e-2F);
    auto mirror = delta::test::normals(n, rng);
    const bool with_offset = rng.below(2) == 0;
    const bool in_halves = rng.below(2) == 0;
    std::vector<base::BFloat16> halves(n);
    if (in_halves) {
      base::narrow(mirror, halves);
      base::widen(halves, mirror);
    }
    for (std::size_t i = 0; i < n; i += 1 + rng.below(8)) {
      const std::array special{0.0F, -0.0F, kLeast, -1e-40F, 1e30F, -7e29F, 1.0F, mirror[i]};
      base[i] = special[rng.below(special.size())];
      if (rng.below(2) == 0) mirror[i] = 0.0F;
    }
    std::vector<float> difference(n);
    for (std::size_t i = 0; i < n; ++i) {
      const float x = with_offset ? base[i] + offset[i] : base[i];
      difference[i] = x - mirror[i];
      if (std::fabs(difference[i]) > kMagnitudeMax) {
        base[i] = mirror[i];
        difference[i] = (with_offset ? base[i] + offset[i] : base[i]) - mirror[i];
      }
    }
    base::narrow(mirror, halves);
    const delta::MirrorView view = in_halves
                                       ? delta::MirrorView(std::span<const base::BFloat16>(halves))
                                       : delta::MirrorView(mirror);
    const Options options{.density = density, .bits = bits, .block = block};
    BOOST_TEST_CONTEXT("seed " << kSeed << ", round " << round << ", n " << n << ", density "
                               << density << ", bits " << bits << ", block " << block) {
      source.read({.base = base, .offset = {}, .mirror = view});
      if (with_offset) source.read({.base = base, .offset = offset, .mirror = view});
      BOOST_REQUIRE(delta::encode(source, options, scratch, bytes, own));
      BOOST_REQUIRE((bytes == plain_encode(difference, options)));
      Elements back;
      BOOST_REQUIRE(delta::decode(bytes, n, back).has_value());
      BOOST_REQUIRE((back.indices == own.elements().indices));
      BOOST_REQUIRE((back.values == own.elements().values));
      const Elements& chosen = source.chosen();
      BOOST_REQUIRE((back.indices == chosen.indices));
      for (std::size_t j = 0; j < back.size(); ++j) {
        const auto in_block = std::span(chosen.values).subspan(j / block * block);
        const float scale =
            plain_scale(in_block.first(std::min<std::size_t>(block, in_block.size())), bits);
        const auto level = static_cast<float>(plain_level(chosen.values[j], scale, bits));
        const float sign = std::signbit(chosen.values[j]) ? -1.0F : 1.0F;
        BOOST_REQUIRE(back.values[j] == sign * level * scale);
        if (j > 600) break;  // the scale is searched anew for each
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(no_scale_leaves_more_than_the_one_that_reaches_the_largest_value) {
  constexpr std::uint64_t kSeed = 92;
  Rng rng(kSeed);
  for (const auto& input : delta::test::inputs(40000, rng)) {
    const Elements chosen = plain_select(input.values, 4000);
    for (const int bits : {1, 2, 3, 4, 8}) {
      for (const std::size_t block : {std::size_t{1}, std::size_t{16}, std::size_t{128}}) {
        double ours = 0;
        double full = 0;
        double best = 0;
        for (std::size_t begin = 0; begin < chosen.size(); begin += block) {
          const auto values =
              std::span(chosen.values).subspan(begin, std::min(block, chosen.size() - begin));
          const float reach = full_scale(values, bits);
          const double error = error_of(values, delta::sparse_scale(values, bits), bits);
          const double error_full = error_of(values, reach, bits);
          const double rounding = 1e-12 * error_of(values, kLeast, 1);
          BOOST_REQUIRE(error <= error_full * (1 + 1e-6) + rounding);
          double least = error_full;
          for (float part = 0.1F; part < 1.1F; part += 0.01F) {
            least = std::min(least, error_of(values, std::max(part * reach, kLeast), bits));
          }
          ours += error;
          full += error_full;
          best += least;
        }
        BOOST_TEST_CONTEXT("seed " << kSeed << ", " << input.name << ", bits " << bits << ", block "
                                   << block << ": error " << ours << ", of the scale "
                                   << "that reaches the largest " << full << ", of the best "
                                   << best) {
          BOOST_TEST(ours <= full * (1 + 1e-6) + 1e-9);
          if (bits > 1 && bits < 8) BOOST_TEST(ours <= 1.25 * best + 1e-9);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
