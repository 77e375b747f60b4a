// `starling bench codec`: what an exchange costs the trainer, against memcpy in the same run.
//
// Throughput counts the bytes that the formulas must touch, each float read or written once:
//   memcpy  read and write n                                             8 n bytes
//   encode  read y, r and the mirror                                    12 n bytes
//   commit  of k links of 3 at once: read and write y, r and 2 k mirrors,
//           read the mirrors `mine` of the other links for their mean   16 n (1 + k) + 4 n (3 - k)
#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "base/rng.hpp"
#include "commands.hpp"
#include "exchange/replica.hpp"

namespace starling::peers {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSizes[] = {1'200'000, 10'000'000};
constexpr double kDensities[] = {0.01, 0.003};
constexpr std::uint8_t kLinks = 3;
constexpr std::size_t kRunsMin = 5;

struct Timing {
  double best = 0.0;    // seconds
  double median = 0.0;  // seconds
};

struct CodecFigure {
  std::string name;
  Timing timing;
  double bytes = 0.0;  // a run
};

double gigabytes_per_second(const CodecFigure& figure) {
  return figure.bytes / figure.timing.median * 1e-9;
}

// Runs `work` for about `seconds`, once before without counting.
template <class Work>
Timing measure(double seconds, Work&& work) {
  work();
  std::vector<double> runs;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (runs.size() < kRunsMin || Clock::now() < end) {
    const auto begin = Clock::now();
    work();
    runs.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::ranges::sort(runs);
  return {.best = runs.front(), .median = runs[runs.size() / 2]};
}

std::string size_name(std::size_t n) {
  return fmt::format("{:.3g}M", static_cast<double>(n) * 1e-6);
}

base::PeerId neighbour(std::uint8_t number) {
  base::PeerId id;
  id.bytes[0] = number;
  return id;
}

// A replica with three neighbours that has trained since it met them.
exchange::Replica trained_replica(std::size_t n) {
  base::Rng rng(n);
  std::vector<float> initial(n);
  const auto noise = [&rng] {
    return static_cast<float>(rng.uniform() + rng.uniform() + rng.uniform() - 1.5);
  };
  for (float& value : initial) value = noise();
  exchange::Replica replica(initial, 0.5F);
  for (std::uint8_t k = 0; k < kLinks; ++k) replica.open_fresh(neighbour(k));
  for (float& value : replica.trained()) value += 0.01F * noise();
  return replica;
}

CodecFigure bench_memcpy(std::size_t n, double seconds) {
  const std::vector<float> from(n, 1.0F);
  std::vector<float> to(n);
  const Timing timing = measure(seconds, [&] {
    std::memcpy(to.data(), from.data(), n * sizeof(float));
    asm volatile("" : : "r"(to.data()) : "memory");  // the copy is used
  });
  return {"memcpy " + size_name(n), timing, 8.0 * static_cast<double>(n)};
}

CodecFigure bench_encode(exchange::Replica& replica, const delta::Options& options,
                         double seconds) {
  base::Buffer out;
  const Timing timing = measure(seconds, [&] {
    const auto stats = replica.encode(neighbour(0), options, out);
    ASSERT(stats.has_value());
  });
  return {fmt::format("encode {} {:g}%", size_name(replica.size()), options.density * 100.0),
          timing, 12.0 * static_cast<double>(replica.size())};
}

// Checks and decodes both payloads of each link, then commits the links in one pass.
CodecFigure bench_commit(exchange::Replica& replica, const delta::Options& options,
                         std::uint8_t links, double seconds) {
  base::Buffer payload;
  const auto stats = replica.encode(neighbour(0), options, payload);
  ASSERT(stats.has_value());
  const Timing timing = measure(seconds, [&] {
    for (std::uint8_t k = 0; k < links; ++k) {
      const auto status =
          replica.stage({.peer = neighbour(k), .own = payload, .their = payload, .w = 0.25F});
      ASSERT(status.has_value());
    }
    replica.apply_staged();
  });
  return {fmt::format("commit {} {:g}% {} link{}", size_name(replica.size()),
                      options.density * 100.0, links, links == 1 ? "" : "s"),
          timing,
          (16.0 * (1.0 + links) + 4.0 * (kLinks - links)) * static_cast<double>(replica.size())};
}

void print(const CodecFigure& figure, double reference, bool json) {
  const double rate = gigabytes_per_second(figure);
  if (json) {
    const nlohmann::json line{{"name", figure.name},
                              {"value", rate},
                              {"unit", "GB/s"},
                              {"reference", reference},
                              {"ratio", rate / reference}};
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{:<26} {:>9.3f} {:>9.3f} {:>8.2f} {:>8.2f} {:>6.2f}\n", figure.name,
               figure.timing.best * 1e3, figure.timing.median * 1e3, rate, reference,
               rate / reference);
  }
  std::fflush(stdout);
}

}  // namespace

int bench_codec(const BenchOptions& options) {
  if (!options.json) {
    fmt::print("4-bit values, one core; reference: memcpy of the same n in this run\n");
    fmt::print("{:<26} {:>9} {:>9} {:>8} {:>8} {:>6}\n", "", "best ms", "median ms", "GB/s",
               "memcpy", "ratio");
  }
  for (const std::size_t n : kSizes) {
    const CodecFigure copy = bench_memcpy(n, options.seconds);
    const double reference = gigabytes_per_second(copy);
    print(copy, reference, options.json);
    exchange::Replica replica = trained_replica(n);
    for (const double density : kDensities) {
      const delta::Options coding{.density = density, .bits = 4, .block = 128};
      print(bench_encode(replica, coding, options.seconds), reference, options.json);
      print(bench_commit(replica, coding, 1, options.seconds), reference, options.json);
      print(bench_commit(replica, coding, kLinks, options.seconds), reference, options.json);
    }
  }
  return 0;
}

}  // namespace starling::peers
