// `starling bench codec`: the cost of an exchange for the trainer, compared with memcpy.
//
// Throughput counts the bytes that the formulas must touch, each float read or written once
// (src/exchange/README.md gives the reasons):
//   memcpy  read and write n                                            8 n bytes
//   encode  and hold back: read y, r and the mirror, write y and r     20 n
//   commit  of k links of 3 at once: read and write y and 2 k mirrors   8 n (1 + 2 k)
// Half of this for mirrors in bfloat16. With a momentum, a commit reads and writes k more vectors.
// All are measured in turns, memcpy first in each, in processor time. A ratio is the median over
// the turns, so other load on the machine affects both of its sides.
//
// On a GPU (--device) the vectors are in its memory, time is wall-clock time, and a plain pass over
// the vectors, which reads and writes two (16 n bytes), replaces memcpy.
#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "base/large_vector.hpp"
#include "base/rng.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "compute/program.hpp"
#include "compute/resident.hpp"
#include "exchange/replica.hpp"
#include "model/model.hpp"

namespace starling::peers {
namespace {

using delta::MirrorType;

/// The kinds of vectors of a link.
struct Kind {
  const char* name;  // after that of the size
  exchange::Averaging averaging;
};
const Kind kKinds[] = {
    {"", {}},
    {" bf16", {.mirror = MirrorType::bfloat16}},
    {" momentum", {.momentum = 0.9F, .momentum_step = 0.1F}},
};

constexpr std::size_t kSizes[] = {10'000'000, 100'000'000};
constexpr double kDensities[] = {0.01, 0.003};
constexpr std::uint8_t kLinks = 3;
constexpr std::size_t kTurnsMin = 5;

/// One for each link.
using Payloads = std::array<base::Bytes, kLinks>;

double seconds_on(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct CodecFigure {
  std::string name;
  double bytes = 0.0;  // per run
  std::function<void()> work;
  std::function<void()> before{};  // called before each run, not counted
  std::vector<double> seconds{};   // for each turn
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

// Approximately normal.
std::vector<float> noises(float scale) {
  base::Rng rng(kNoises);
  std::vector<float> values(kNoises);
  for (float& value : values) {
    value = scale * static_cast<float>(rng.uniform() + rng.uniform() + rng.uniform() - 1.5);
  }
  return values;
}

/// A replica with three neighbours that meets them for the first time.
class BenchReplica {
 public:
  BenchReplica(std::size_t n, const exchange::Averaging& averaging)
      : replica_(initial(n), 0.5F, {}, averaging) {}

  /// Moves it into the memory of a device other than the processor, together with the data that
  /// train() needs there: a walk by the host through the vectors takes a thousand times as long as
  /// the measured work.
  base::Status move_to(const std::string& device, const std::vector<float>& noise) {
    // Any model with this many parameters will do.
    model::Spec spec;
    spec.layers = {{.kind = model::LayerKind::linear, .out = kOutputs, .bias = false}};
    const auto inputs = static_cast<std::uint32_t>(replica_.size() / kOutputs);
    const auto model = model::build(spec, {.input = {inputs}, .outputs = kOutputs});
    if (!model) return base::fail(model.error());
    auto backend = compute::open_backend(device);
    if (!backend) return base::fail(backend.error());
    auto program = (*backend)->compile(model->graph, {.batch = 1});
    if (!program) return base::fail(program.error());
    program_ = std::move(*program);
    const auto resident =
        program_->move_to_device({.mirrors = replica_.averaging().mirror, .decays = {false}});
    if (!resident) return base::fail(resident.error());
    ASSERT(*resident != nullptr);
    memory_ = &(*resident)->replica();
    nothing_ = memory_->make_delta();
    base::LargeFloats values(replica_.size());
    replica_.read(values);
    for (auto& place : places_) {
      const auto made = memory_->add_mirror(base::LargeFloats(values));
      if (!made) return base::fail(made.error());
      place = *made;
      add_noise(values, noise, 0);
    }
    replica_.move_to(*memory_);
    return replica_.status();
  }

  base::Status open_links() {
    base::Status opened;
    for (std::uint8_t k = 0; opened && k < kLinks; ++k) opened = replica_.open_fresh(neighbour(k));
    return opened;
  }

  /// The effect of training between two exchanges, as far as they can see it; on a device, a move
  /// from one of two places to the other.
  void train(const std::vector<float>& noise, std::size_t turn) {
    if (memory_ == nullptr) return add_noise(replica_.trained(), noise, turn * 4099);
    const delta::ReplicaMemory::CommitStep step{.mine = places_[turn % std::size(places_)],
                                                .theirs = places_[(turn + 1) % std::size(places_)],
                                                .own = nothing_.get(),
                                                .their = nothing_.get(),
                                                .w = 1,
                                                .moves_mirrors = false};
    ASSERT(memory_->commit({&step, 1}));
    wait();
  }

  /// Reads and writes two vectors.
  void pass() {
    ASSERT(memory_->release());
    wait();
  }
  /// Waits until all is done: a look at few elements comes after it.
  void wait() {
    if (memory_ == nullptr) return;
    static_cast<void>(replica_.distance(neighbour(0), exchange::MirrorOf::mine));
    ASSERT(replica_.status());
  }
  exchange::Replica& replica() { return replica_; }

 private:
  static constexpr std::uint32_t kOutputs = 1000;

  static base::LargeFloats initial(std::size_t n) {
    const std::vector<float> noise = noises(1.0F);
    base::LargeFloats values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = noise[i * 31 % kNoises];
    return values;
  }

  static void add_noise(std::span<float> to, const std::vector<float>& noise, std::size_t shift) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] += noise[(i * 7 + i / kNoises * 9973 + shift) % kNoises];
    }
  }

  std::unique_ptr<compute::Program> program_;
  exchange::Replica replica_;
  delta::ReplicaMemory* memory_ = nullptr;
  std::array<delta::ReplicaMemory::MirrorId, 2> places_{};
  std::unique_ptr<delta::Delta> nothing_;
};

void encode(exchange::Replica& replica, std::uint8_t link, const delta::Options& options,
            base::Bytes& out) {
  const auto stats = replica.encode(neighbour(link), options, out);
  ASSERT(stats.has_value());
}

// As in a peer: it has written its own payloads, checks and decodes the received ones, one per
// link, then commits the links in one pass.
void commit(exchange::Replica& replica, const Payloads& own, const base::Bytes& their,
            std::uint8_t links) {
  for (std::uint8_t k = 0; k < links; ++k) {
    const auto status =
        replica.stage({.peer = neighbour(k), .own = own[k], .their = their, .w = 0.25F});
    ASSERT(status.has_value());
  }
  replica.apply_staged();
}

// One turn after another, about `seconds` for each figure; the calls of `prepare`, and one turn
// before them, are not counted.
template <class Prepare>
void measure(std::vector<CodecFigure>& figures, double seconds, clockid_t clock,
             Prepare&& prepare) {
  const double enough = seconds * static_cast<double>(figures.size());
  double measured = 0.0;
  for (std::size_t turn = 0; turn <= kTurnsMin || measured < enough; ++turn) {
    prepare(turn);
    for (CodecFigure& figure : figures) {
      if (figure.before) figure.before();
      const double begin = seconds_on(clock);
      figure.work();
      const double took = seconds_on(clock) - begin;
      if (turn == 0) continue;
      figure.seconds.push_back(took);
      measured += took;
    }
  }
}

// Rates of the turns, in bytes a second.
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
    fmt::print("{:<32} {:>9.3f} {:>9.3f} {:>8.2f} {:>8.2f} {:>6.2f}\n", figure.name,
               *std::ranges::min_element(figure.seconds) * 1e3, median_of(figure.seconds) * 1e3,
               rate, copies, ratio);
  }
  std::fflush(stdout);
}

/// The reference for the other figures.
CodecFigure reference_figure(BenchReplica& subject, const std::string& of, bool on_gpu) {
  const std::size_t n = subject.replica().size();
  const auto elements = static_cast<double>(n);
  if (on_gpu) return {"pass " + of, 16.0 * elements, [&subject] { subject.pass(); }};
  return {"memcpy " + of, 8.0 * elements,
          [from = base::LargeFloats(n, 1.0F), to = base::LargeFloats(n), n]() mutable {
            std::memcpy(to.data(), from.data(), n * sizeof(float));
            asm volatile("" : : "r"(to.data()) : "memory");  // the copy is used
          }};
}

base::Status bench_size(std::size_t n, const Kind& kind, const BenchOptions& options) {
  const bool on_gpu = options.device != "cpu";
  const auto elements = static_cast<double>(n);
  const bool is_half = kind.averaging.mirror == MirrorType::bfloat16;
  const double of_mirror = is_half ? sizeof(base::BFloat16) : sizeof(float);
  const double of_link = 4.0 * of_mirror + (kind.averaging.momentum > 0 ? 8.0 : 0.0);
  BenchReplica subject(n, kind.averaging);
  const std::vector<float> noise = noises(0.01F);
  if (on_gpu) {
    if (auto moved = subject.move_to(options.device, noise); !moved) return moved;
  }
  if (auto opened = subject.open_links(); !opened) return opened;
  exchange::Replica& replica = subject.replica();
  base::Bytes payload;  // of the last measured encode
  Payloads own;
  std::vector<CodecFigure> figures{reference_figure(subject, size_name(n) + kind.name, on_gpu)};
  for (std::size_t i = 0; i < std::size(kDensities); ++i) {
    const delta::Options coding{.density = kDensities[i], .bits = 4, .block = 128};
    const auto name = [&](std::string_view what) {
      return fmt::format("{} {}{} {:g}%", what, size_name(n), kind.name, kDensities[i] * 100.0);
    };
    figures.push_back({name("encode"), (16.0 + of_mirror) * elements,
                       [&replica, &payload, coding] { encode(replica, 0, coding, payload); }});
    for (const std::uint8_t links : {std::uint8_t{1}, kLinks}) {
      const double bytes = 8.0 + of_link * links;
      figures.push_back({name("commit") + fmt::format(" {} link{}", links, links == 1 ? "" : "s"),
                         bytes * elements,
                         [&subject, &payload, &own, links] {
                           commit(subject.replica(), own, payload, links);
                           subject.wait();
                         },
                         [&replica, &own, coding, links] {
                           for (std::uint8_t k = 0; k < links; ++k) {
                             encode(replica, k, coding, own[k]);
                           }
                         }});
    }
  }
  const clockid_t clock = on_gpu ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
  measure(figures, options.seconds, clock, [&](std::size_t turn) { subject.train(noise, turn); });
  for (const CodecFigure& figure : figures) print(figure, figures[0], options.json);
  return {};
}

}  // namespace

int bench_codec(const BenchOptions& asked) {
  const auto device = compute::open_device(asked.device);
  if (!device) return complain("bench codec", device.error().in("--device " + asked.device));
  BenchOptions options = asked;
  options.device = device->name;  // the choice for "auto"
  std::vector<std::size_t> sizes(std::begin(kSizes), std::end(kSizes));
  if (!options.only.empty()) {
    std::erase_if(sizes, [&](std::size_t n) { return size_name(n) != options.only; });
  }
  if (sizes.empty()) {
    std::string names;
    for (const std::size_t n : kSizes) names += " " + size_name(n);
    return complain("bench codec", {base::ErrorCode::usage,
                                    fmt::format("--only: there is no size '{}'; there are:{}",
                                                options.only, names)});
  }
  if (!options.json) {
    const bool on_gpu = options.device != "cpu";
    fmt::print("4-bit values, {}; reference: {} of the same n in the same turns\n",
               on_gpu ? options.device : "one core", on_gpu ? "a plain pass" : "memcpy");
    fmt::print("{:<32} {:>9} {:>9} {:>8} {:>8} {:>6}\n", "", "best ms", "median ms", "GB/s",
               on_gpu ? "pass" : "memcpy", "ratio");
  }
  for (const std::size_t n : sizes) {
    for (const Kind& kind : kKinds) {
      if (auto done = bench_size(n, kind, options); !done) {
        return complain("bench codec", done.error());
      }
    }
  }
  return 0;
}

}  // namespace starling::peers
