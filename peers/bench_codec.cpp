// `starling bench codec`: what an exchange costs the trainer, against memcpy.
//
// Throughput counts the bytes that the formulas must touch, each float read or written once
// (src/exchange/README.md says why it is these):
//   memcpy     read and write n                                                 8 n bytes
//   encode     read y, r and the mirror                                        12 n
//   hold back  what one delta left out: read y, r and the mirror, write y, r   20 n
//   commit     of k links of 3 at once: read and write y and 2 k mirrors        8 n (1 + 2 k)
// Of mirrors in bfloat16 half.
// All are measured in turns, memcpy first in each, by the time of the processor: a ratio is the
// median over the turns, so what else the machine does weighs on both sides of it.
#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "base/large_vector.hpp"
#include "base/rng.hpp"
#include "commands.hpp"
#include "exchange/replica.hpp"

namespace starling::peers {
namespace {

using exchange::MirrorType;

constexpr std::size_t kSizes[] = {10'000'000, 100'000'000};
constexpr double kDensities[] = {0.01, 0.003};
constexpr std::uint8_t kLinks = 3;
constexpr std::size_t kTurnsMin = 5;

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct CodecFigure {
  std::string name;
  double bytes = 0.0;  // a run
  std::function<void()> work;
  std::vector<double> seconds{};  // of each turn
};

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string size_name(std::size_t n) {
  return fmt::format("{:.3g}M", static_cast<double>(n) * 1e-6);
}

base::PeerId neighbour(std::uint8_t number) {
  base::PeerId id;
  id.bytes[0] = number;
  return id;
}

constexpr std::size_t kNoises = std::size_t{1} << 16;

// Near enough to normal.
std::vector<float> noises(float scale) {
  base::Rng rng(kNoises);
  std::vector<float> values(kNoises);
  for (float& value : values) {
    value = scale * static_cast<float>(rng.uniform() + rng.uniform() + rng.uniform() - 1.5);
  }
  return values;
}

// A replica with three neighbours that meets them for the first time.
exchange::Replica new_replica(std::size_t n, MirrorType mirror) {
  const std::vector<float> noise = noises(1.0F);
  base::LargeFloats initial(n);
  for (std::size_t i = 0; i < n; ++i) initial[i] = noise[i * 31 % kNoises];
  exchange::Replica replica(initial, 0.5F, {}, {.mirror = mirror});
  for (std::uint8_t k = 0; k < kLinks; ++k) replica.open_fresh(neighbour(k));
  return replica;
}

// What training does between two exchanges, as far as they can see it.
void train(exchange::Replica& replica, const std::vector<float>& noise, std::size_t turn) {
  const std::span<float> y = replica.trained();
  const std::size_t shift = turn * 4099;
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] += noise[(i * 7 + i / kNoises * 9973 + shift) % kNoises];
}

void encode(exchange::Replica& replica, const delta::Options& options, base::Buffer& out) {
  const auto stats = replica.encode(neighbour(0), options, out);
  ASSERT(stats.has_value());
}

// Checks and decodes both payloads of each link, then commits the links in one pass.
void commit(exchange::Replica& replica, const base::Buffer& payload, std::uint8_t links) {
  for (std::uint8_t k = 0; k < links; ++k) {
    const auto status =
        replica.stage({.peer = neighbour(k), .own = payload, .their = payload, .w = 0.25F});
    ASSERT(status.has_value());
  }
  replica.apply_staged();
}

// One turn after another, about `seconds` for each figure; `prepare` each, and one turn before
// them, are not counted.
template <class Prepare>
void measure(std::vector<CodecFigure>& figures, double seconds, Prepare&& prepare) {
  const double enough = seconds * static_cast<double>(figures.size());
  double measured = 0.0;
  for (std::size_t turn = 0; turn <= kTurnsMin || measured < enough; ++turn) {
    prepare(turn);
    for (CodecFigure& figure : figures) {
      const double begin = processor_seconds();
      figure.work();
      const double took = processor_seconds() - begin;
      if (turn == 0) continue;
      figure.seconds.push_back(took);
      measured += took;
    }
  }
}

// Rates of the turns, bytes a second.
std::vector<double> rates(const CodecFigure& figure) {
  std::vector<double> values;
  for (const double seconds : figure.seconds) values.push_back(figure.bytes / seconds);
  return values;
}

void print(const CodecFigure& figure, const CodecFigure& reference, bool json) {
  const std::vector<double> ours = rates(figure);
  const std::vector<double> theirs = rates(reference);
  std::vector<double> ratios(ours.size());
  std::ranges::transform(ours, theirs, ratios.begin(), std::divides<>());
  const double rate = median_of(ours) * 1e-9;
  const double copies = median_of(theirs) * 1e-9;
  const double ratio = median_of(ratios);
  if (json) {
    const nlohmann::json line{{"name", figure.name},
                              {"value", rate},
                              {"unit", "GB/s"},
                              {"reference", copies},
                              {"ratio", ratio},
                              {"turns", ours.size()},
                              {"seconds", median_of(figure.seconds)}};
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{:<24} {:>9.3f} {:>9.3f} {:>8.2f} {:>8.2f} {:>6.2f}\n", figure.name,
               *std::ranges::min_element(figure.seconds) * 1e3, median_of(figure.seconds) * 1e3,
               rate, copies, ratio);
  }
  std::fflush(stdout);
}

void bench_size(std::size_t n, MirrorType mirror, const BenchOptions& options) {
  const auto elements = static_cast<double>(n);
  const double of_mirror = mirror == MirrorType::float32 ? sizeof(float) : sizeof(base::BFloat16);
  const std::string kind = mirror == MirrorType::float32 ? "" : " bf16";
  const base::LargeFloats from(n, 1.0F);
  base::LargeFloats to(n);
  exchange::Replica replica = new_replica(n, mirror);
  const std::vector<float> noise = noises(0.01F);
  std::vector<base::Buffer> payloads(std::size(kDensities));
  std::vector<CodecFigure> figures{
      {"memcpy " + size_name(n) + kind, 8.0 * elements, [&] {
         std::memcpy(to.data(), from.data(), n * sizeof(float));
         asm volatile("" : : "r"(to.data()) : "memory");  // the copy is used
       }}};
  for (std::size_t i = 0; i < std::size(kDensities); ++i) {
    const delta::Options coding{.density = kDensities[i], .bits = 4, .block = 128};
    const auto name = [&](std::string_view what) {
      return fmt::format("{} {}{} {:g}%", what, size_name(n), kind, kDensities[i] * 100.0);
    };
    base::Buffer& payload = payloads[i];
    figures.push_back({name("encode"), (8.0 + of_mirror) * elements,
                       [&replica, &payload, coding] { encode(replica, coding, payload); }});
    figures.push_back(
        {name("hold back"), (16.0 + of_mirror) * elements, [&replica] { replica.hold_back(); }});
    for (const std::uint8_t links : {std::uint8_t{1}, kLinks}) {
      const double bytes = 8.0 + 4.0 * of_mirror * links;
      figures.push_back({name("commit") + fmt::format(" {} link{}", links, links == 1 ? "" : "s"),
                         bytes * elements,
                         [&replica, &payload, links] { commit(replica, payload, links); }});
    }
  }
  measure(figures, options.seconds, [&](std::size_t turn) { train(replica, noise, turn); });
  for (const CodecFigure& figure : figures) print(figure, figures[0], options.json);
}

}  // namespace

int bench_codec(const BenchOptions& options) {
  if (!options.json) {
    fmt::print("4-bit values, one core; reference: memcpy of the same n in the same turns\n");
    fmt::print("{:<24} {:>9} {:>9} {:>8} {:>8} {:>6}\n", "", "best ms", "median ms", "GB/s",
               "memcpy", "ratio");
  }
  for (const std::size_t n : kSizes) {
    for (const MirrorType mirror : {MirrorType::float32, MirrorType::bfloat16}) {
      bench_size(n, mirror, options);
    }
  }
  return 0;
}

}  // namespace starling::peers
