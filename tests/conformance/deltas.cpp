// Deltas that are made and taken in a device's memory, against the same in the processor's.
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "checks.hpp"
#include "delta/codec.hpp"
#include "delta/golomb.hpp"
#include "delta/host_memory.hpp"
#include "delta/quantize.hpp"
#include "harness.hpp"
#include "tests/unit/delta/vectors.hpp"
#include "twins.hpp"

namespace starling::conformance {

using delta::MirrorType;
using delta::Options;
using delta::ReplicaMemory;

namespace {

/// A replica's memory here and on a device, with the same x and one mirror.
class Memories {
 public:
  Memories(const std::string& device, const compute::Graph& graph, MirrorType mirrors)
      : program_(compile(device, graph, 1)),
        here_(base::LargeFloats(graph.parameter_count), mirrors),
        there_(need(
            program_->move_to_device({.mirrors = mirrors, .decays = {true, true, true, true}}))) {
    for (std::size_t at = 0; at < 2; ++at) deltas_[at] = memory(at).make_delta();
  }

  [[nodiscard]] std::size_t size() const { return here_.size(); }

  void set(const std::vector<float>& x, const std::vector<float>& mirror) {
    for (std::size_t at = 0; at < 2; ++at) {
      if (is_set_) memory(at).free_mirror(mirrors_[at]);
      need(memory(at).write(x));
      mirrors_[at] = need(memory(at).add_mirror({mirror.begin(), mirror.end()}));
    }
    is_set_ = true;
  }

  /// The same from both: bytes and their decoded form, or an error; and the same is held back.
  base::Result<base::Bytes> encode(const Options& options,
                                   const std::optional<ReplicaMemory::HoldBack>& hold = {}) {
    base::Bytes bytes[2];
    base::Bytes again[2];  // from the same difference, as held back by then
    base::Status encoded[2];
    std::vector<float> trained[2];
    for (std::size_t at = 0; at < 2; ++at) {
      auto& source = memory(at).difference(mirrors_[at], hold);
      encoded[at] = delta::encode(source, options, scratch_, bytes[at], *deltas_[at]);
      if (encoded[at] && hold) {
        need(delta::encode(source, options, scratch_, again[at], *deltas_[at]));
      }
      trained[at].resize(size());
      need(memory(at).read(trained[at]));
    }
    BOOST_REQUIRE((bytes[0] == bytes[1]));
    BOOST_REQUIRE((again[0] == again[1]));
    BOOST_REQUIRE(same_bits(trained[0], trained[1]));
    check_alike(encoded);
    if (!encoded[0]) return base::fail(encoded[0].error());
    return bytes[0];
  }

  /// Whether both take it, as the same elements.
  bool decode(const base::Bytes& bytes) {
    const auto shape = delta::check(bytes, size());
    if (!shape) return false;
    base::Status decoded[2];
    for (std::size_t at = 0; at < 2; ++at) {
      decoded[at] = delta::decode(*shape, memory(at), *deltas_[at]);
    }
    check_alike(decoded);
    return decoded[0].has_value();
  }

 private:
  ReplicaMemory& memory(std::size_t at) {
    return at == 0 ? static_cast<ReplicaMemory&>(here_) : there_->replica();
  }

  void check_alike(const base::Status (&done)[2]) {
    BOOST_REQUIRE(done[0].has_value() == done[1].has_value());
    if (!done[0]) {
      BOOST_TEST(done[0].error().text == done[1].error().text);
      return;
    }
    delta::Elements elements[2];
    for (std::size_t at = 0; at < 2; ++at) {
      need(deltas_[at]->read(elements[at].indices, elements[at].values));
      BOOST_REQUIRE(deltas_[at]->size() == elements[at].size());
    }
    BOOST_REQUIRE((elements[0].indices == elements[1].indices));
    BOOST_REQUIRE(same_bits(elements[0].values, elements[1].values));
  }

  std::unique_ptr<compute::Program> program_;
  delta::HostMemory here_;
  compute::Resident* there_;
  std::array<ReplicaMemory::MirrorId, 2> mirrors_{};
  std::array<std::unique_ptr<delta::Delta>, 2> deltas_{};
  delta::Scratch scratch_;
  bool is_set_ = false;
};

constexpr std::array kBits{1, 2, 3, 4, 8};

/// A delta of every `step`th element, of which the last one is `last`.
base::Bytes delta_until(std::uint32_t last, std::uint32_t step, std::size_t n) {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t index = last % step; index <= last; index += step) indices.push_back(index);
  const delta::Shape shape{.bits = 1,
                           .golomb = 4,  // a divisor of 2
                           .block = 65535,
                           .n = static_cast<std::uint32_t>(n),
                           .count = static_cast<std::uint32_t>(indices.size())};
  base::Bytes bytes;
  delta::write_header(shape, bytes);
  delta::golomb_encode(indices, {.odd = 1, .shift = 1}, bytes);
  const float scale = 1;
  const auto scale_bytes = std::as_bytes(std::span(&scale, 1));
  bytes.insert(bytes.end(), scale_bytes.begin(), scale_bytes.end());
  bytes.resize(bytes.size() + delta::codes_bytes(indices.size(), 1));
  return bytes;
}

}  // namespace

void deltas_are_those_of_the_host(const std::string& device) {
  constexpr std::uint64_t kSeed = 71;
  base::Rng rng(kSeed);
  for (const auto& [inputs, width] :
       {std::pair(3U, 2U), std::pair(20U, 30U), std::pair(200U, 250U)}) {
    for (const MirrorType mirrors : {MirrorType::float32, MirrorType::bfloat16}) {
      Memories memories(device, layers(inputs, width), mirrors);
      for (const auto& input : delta::test::inputs(memories.size(), rng)) {
        const bool from_zero = rng.below(2) == 0;
        memories.set(input.values, from_zero ? std::vector<float>(memories.size())
                                             : delta::test::normals(memories.size(), rng, 1e-3F));
        for (const int bits : kBits) {
          const Options options{.density = std::pow(10.0, -3 * rng.uniform()),
                                .bits = bits,
                                .block = static_cast<std::uint32_t>(1 + rng.below(300))};
          BOOST_TEST_CONTEXT("seed " << kSeed << ", " << memories.size() << " elements, "
                                     << input.name << ", density " << options.density << ", bits "
                                     << bits << ", block " << options.block) {
            const base::Bytes bytes = need(memories.encode(options));
            BOOST_TEST(memories.decode(bytes));
            const ReplicaMemory::HoldBack hold{.keep = 0.75F, .gain = 0.2F};
            BOOST_TEST((need(memories.encode(options, hold)) == bytes));
            // Once more, with the part held back now.
            BOOST_TEST(memories.decode(need(memories.encode(options, hold))));
            BOOST_TEST(memories.decode(need(memories.encode({.density = 1, .bits = bits}))));
          }
        }
      }
    }
  }
}

void deltas_of_large_replicas_are_those_of_the_host(const std::string& device) {
  // On a GPU enough that its kernels take rounds, copies several pieces, and codes several blocks.
  const compute::Graph graph = device.starts_with("cuda:") ? layers(3000, 6600) : layers(600, 500);
  constexpr std::uint64_t kSeed = 74;
  base::Rng rng(kSeed);
  for (const MirrorType mirrors : {MirrorType::float32, MirrorType::bfloat16}) {
    Memories memories(device, graph, mirrors);
    std::vector<float> equal = delta::test::normals(memories.size(), rng);
    for (float& value : equal) value = value < 0 ? -1.0F : 1.0F;
    for (const auto& x : {delta::test::normals(memories.size(), rng), equal}) {
      memories.set(x, std::vector<float>(memories.size()));
      for (const double density : {1.0, 0.1, 0.003}) {
        BOOST_TEST_CONTEXT("seed " << kSeed << ", density " << density) {
          const ReplicaMemory::HoldBack hold{.keep = 0.75F, .gain = 0.2F};
          BOOST_TEST(memories.decode(need(memories.encode({.density = density}, hold))));
        }
      }
    }
  }
}

void what_is_not_finite_is_told_as_by_the_host(const std::string& device) {
  base::Rng rng(72);
  Memories memories(device, layers(200, 250), MirrorType::float32);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 2e30F}) {
    std::vector<float> x = delta::test::normals(memories.size(), rng);
    x[4242] = bad;
    memories.set(x, std::vector<float>(memories.size()));
    const auto bytes = memories.encode({.density = 0.01});
    BOOST_REQUIRE(!bytes.has_value());
    BOOST_TEST(bytes.error().text.find("4242") != std::string::npos);
    x[4242] = 1e30F;
    memories.set(x, std::vector<float>(memories.size()));
    BOOST_TEST(memories.encode({.density = 0.01}).has_value());
  }
}

void indices_end_where_the_replica_does(const std::string& device) {
  Memories memories(device, layers(200, 250), MirrorType::float32);
  const auto n = static_cast<std::uint32_t>(memories.size());
  for (const std::uint32_t step : {n / 2, 100U, 7U, 3U}) {
    BOOST_TEST_CONTEXT("every " << step << "th element") {
      BOOST_TEST(memories.decode(delta_until(n - 1, step, n)));
      BOOST_TEST(!memories.decode(delta_until(n, step, n)));
      BOOST_TEST(!memories.decode(delta_until(2 * n, step, n)));
    }
  }
}

void deltas_with_wrong_bits_are_judged_as_by_the_host(const std::string& device) {
  constexpr std::uint64_t kSeed = 73;
  base::Rng rng(kSeed);
  Memories memories(device, layers(20, 300), MirrorType::float32);
  std::size_t refused = 0;
  std::size_t taken = 0;
  for (int round = 0; round < 60; ++round) {
    memories.set(delta::test::normals(memories.size(), rng), std::vector<float>(memories.size()));
    const Options options{.density = rng.below(2) == 0 ? 0.05 : 0.9,
                          .bits = kBits[rng.below(kBits.size())]};
    const base::Bytes good = need(memories.encode(options));
    for (int variant = 0; variant < 50; ++variant) {
      base::Bytes bad = good;
      // Most of them hit starts and codes.
      const std::size_t reach = rng.below(4) == 0 ? bad.size() : 20 + bad.size() / 3;
      for (std::uint64_t flips = 1 + rng.below(3); flips > 0; --flips) {
        bad[rng.below(reach)] ^= std::byte{1} << static_cast<int>(rng.below(8));
      }
      if (rng.below(8) == 0) bad.erase(bad.begin() + 20, bad.begin() + 21);
      BOOST_TEST_CONTEXT("seed " << kSeed << ", round " << round << ", variant " << variant) {
        ++(memories.decode(bad) ? taken : refused);
      }
    }
  }
  BOOST_TEST(refused > 1000U);
  BOOST_TEST(taken > 100U);
}

}  // namespace starling::conformance
