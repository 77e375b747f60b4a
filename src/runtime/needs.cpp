#include "runtime/needs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/integer.hpp"
#include "base/large_vector.hpp"
#include "delta/codec.hpp"
#include "delta/format.hpp"
#include "delta/select.hpp"
#include "exchange/jobs.hpp"
#include "report/format.hpp"
#include "train/trainer.hpp"

namespace starling::runtime {

using base::ErrorCode;
using base::fail;

namespace {

constexpr std::uint64_t kFloat = sizeof(float);

/// A delta for n elements, about: 1% over the entropy of its indices (what their codes need),
/// values, and a scale a block.
std::uint64_t delta_bytes(const exchange::Config& config, std::uint64_t n) {
  const double p = config.density;
  const double count = std::max(1.0, std::round(p * static_cast<double>(n)));
  const double rest = p < 1 ? (1 - p) * std::log2(1 - p) : 0;
  const double index_bits = -1.01 * (p * std::log2(p) + rest) / p;
  const double values = count * (index_bits + config.bits) / 8;
  const double scales = 4 * std::ceil(count / config.block);
  return delta::format::kHeaderBytes + static_cast<std::uint64_t>(values + scales);
}

std::uint64_t keyframe_bytes(std::uint64_t n) {
  namespace format = delta::format;
  return format::kHeaderBytes + n + kFloat * base::ceil_div(n, format::kDenseBlock);
}

/// Values that every backend must keep of a sample from the forward pass to the backward pass: the
/// inputs of ops with weights, each once, and a gradient as large as the largest result.
std::uint64_t least_activations(const compute::Graph& graph) {
  std::set<compute::ValueId> kept;
  std::uint64_t values = 0;
  std::uint64_t largest = 0;
  for (const compute::Op& op : graph.ops) {
    largest = std::max<std::uint64_t>(largest, compute::elements(op.out));
    if (compute::has_parameters(op) && kept.insert(op.inputs[0]).second) {
      values += compute::elements(op.in);
    }
  }
  return (values + largest) * kFloat;
}

std::uint64_t copies_of_optimizer(const train::Config& config) {
  return config.optimizer == train::Optimizer::adamw ? 2 : 1;
}

/// Gradients of the size of the parameters.
std::uint64_t copies_of_gradient(const train::Config& config) {
  return train::compile_options(config).batch < config.batch ? 2 : 1;
}

/// Of the outer optimizer: the start of the round and a momentum.
std::uint64_t outer_bytes(const runfile::RunFile& run_file, std::uint64_t n) {
  return run_file.exchange.mode == exchange::Mode::local ? 2 * n * kFloat : 0;
}

/// Of an exchange::Ring, at most: what is averaged, with the buffers behind it; the means of the
/// step before, as long as the next peer may lack some; and what came before this peer's own part.
std::uint64_t ring_bytes(const compute::Graph& graph) {
  return 3 * (graph.parameter_count + graph.buffer_count) * kFloat;
}

/// The number after `key` in a text of lines "key number".
std::optional<std::uint64_t> number_after(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t number = 0;
  while (file >> word) {
    if (word == key && file >> number) return number;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// Elements of the largest delta that a peer of this run is likely to make: of a late exchange, or
/// when it settles.
std::uint64_t largest_delta(const exchange::Config& config, std::uint64_t n) {
  const double factor = std::max(1.0, config.finish_factor);
  const double late = config.density * factor * exchange::kLagFactorMax;
  return delta::count_for(std::min(1.0, std::max(late, config.settle_density)), n);
}

constexpr std::uint64_t kElement = 2 * kFloat;  // of a delta: an index and a value

/// Bytes that deltas take in the machine's memory, about.
std::uint64_t deltas_in_memory(const runfile::RunFile& run_file, std::uint64_t n) {
  const std::uint64_t count = largest_delta(run_file.exchange, n);
  return kElement * ((2 * links_of(run_file) + 1) * count + delta::room_for(count, n));
}

/// Bytes that deltas take on a device, about: measure() has it from there.
std::uint64_t deltas_on_device(const runfile::RunFile& run_file, std::uint64_t n) {
  const bool narrow = run_file.exchange.mirror == delta::MirrorType::bfloat16;
  const bool moves = exchange::has_momentum(run_file.exchange);
  // Set aside for one: the replica's element, the momentum's and two mirrors'.
  const std::uint64_t committed = narrow ? 3 * kFloat : moves ? 4 * kFloat : 0;
  const std::uint64_t count = largest_delta(run_file.exchange, n);
  const std::uint64_t exact = (3 * links_of(run_file) + 1) * kElement * count +
                              kElement * delta::room_for(count, n) + 2 * committed * count +
                              2 * (n / 8);
  return exact + exact / 2;  // room grows by half more than is asked for
}

/// For a moment as many mirrors in the device's memory as there may be, and the largest deltas;
/// tells the bytes of these.
base::Result<std::uint64_t> reserve(delta::ReplicaMemory& memory,
                                    const runfile::RunFile& run_file) {
  const exchange::Config& config = run_file.exchange;
  const std::size_t n = memory.size();
  if (!exchange::uses_links(config.mode)) return 0;
  std::vector<delta::ReplicaMemory::MirrorId> mirrors;
  const auto reserve_all = [&]() -> base::Result<std::uint64_t> {
    while (mirrors.size() < 2 * links_of(run_file)) {
      const auto mirror = memory.add_mirror(base::LargeFloats(n));
      if (!mirror) return fail(mirror.error());
      mirrors.push_back(*mirror);
    }
    const std::size_t count = largest_delta(config, n);
    const bool moves = exchange::has_momentum(config);
    auto bytes = memory.reserve(count, delta::room_for(count, n), moves);
    std::vector<std::unique_ptr<delta::Delta>> deltas;
    while (bytes && deltas.size() < 3 * links_of(run_file)) {
      deltas.push_back(memory.make_delta());
      const auto taken = deltas.back()->reserve(count);
      bytes = taken ? base::Result<std::size_t>(*bytes + *taken) : taken;
    }
    if (!bytes) {
      return fail(bytes.error().in(
          fmt::format("deltas of {} elements (lower swarm.degree, exchange.density or "
                      "exchange.settle_density)",
                      count)));
    }
    for (std::size_t i = 0; moves && i < mirrors.size(); i += 2) {
      const auto room = memory.reserve_commit({.mine = mirrors[i],
                                               .theirs = mirrors[i + 1],
                                               .own = deltas.front().get(),
                                               .their = deltas.front().get(),
                                               .momentum = static_cast<float>(config.momentum)});
      if (!room) return fail(room.error());
    }
    return *bytes;
  };
  auto deltas = reserve_all();
  for (const auto mirror : mirrors) memory.free_mirror(mirror);
  return deltas;
}

}  // namespace

bool may_train_on_device(const runfile::RunFile& run_file) {
  return !exchange::uses_ring(run_file.exchange.mode) && train::can_train_on_device(run_file.train);
}

Needs estimate(const runfile::RunFile& run_file, const compute::Graph& graph, std::uint64_t data) {
  const std::uint64_t n = graph.parameter_count;
  Needs needs{.parameters = n, .buffers = graph.buffer_count, .data = data};
  needs.initial = n * kFloat;
  needs.replica = 2 * n * kFloat;
  const std::uint64_t optimizer = copies_of_optimizer(run_file.train);
  needs.training = (copies_of_gradient(run_file.train) + optimizer) * n * kFloat;
  needs.training += outer_bytes(run_file, n);
  needs.activations = train::compile_options(run_file.train).batch * least_activations(graph);
  needs.on_gpu = run_file.train.device != "cpu";
  needs.on_device = needs.on_gpu && may_train_on_device(run_file);
  needs.saving = (1 + (needs.on_device ? optimizer : 0)) * n * kFloat;
  needs.forward_flops = compute::forward_flops(graph);
  needs.training_flops = compute::training_flops(graph);
  if (exchange::uses_links(run_file.exchange.mode)) {
    const std::uint64_t wide =
        run_file.exchange.mirror == delta::MirrorType::float32 ? kFloat : kFloat / 2;
    const std::uint64_t link =
        n * (2 * wide + (exchange::has_momentum(run_file.exchange) ? kFloat : 0));
    needs.mirrors = links_of(run_file) * link;
    needs.grace = exchange::kGraceLinksMax * link;
    needs.exchange = delta_bytes(run_file.exchange, n);
    needs.keyframe = keyframe_bytes(n) + graph.buffer_count * kFloat;
    needs.deltas = needs.on_device ? deltas_on_device(run_file, n) : deltas_in_memory(run_file, n);
  } else if (exchange::uses_ring(run_file.exchange.mode)) {
    // A ring sends each part of the gradient 2 (P - 1) times in P parts.
    needs.exchange = 2 * (run_file.peers - 1) * (n * kFloat) / run_file.peers;
    needs.ring = ring_bytes(graph);
  }
  return needs;
}

base::Result<Needs> measure(const runfile::RunFile& run_file, const compute::Graph& graph,
                            Needs needs) {
  auto trainer = train::Trainer::create(graph, run_file.train);
  if (!trainer) return fail(trainer.error());
  if (needs.on_device) {
    const auto memory = trainer->move_to_device(run_file.exchange.mirror);
    if (!memory) return fail(memory.error());
    ASSERT(*memory != nullptr);
    const std::uint64_t known = needs.replica + needs.training;
    needs.activations = trainer->program_bytes() - std::min(trainer->program_bytes(), known);
    const auto deltas = reserve(**memory, run_file);
    if (!deltas) return fail(deltas.error());
    needs.deltas = *deltas;
  } else {
    needs.activations = trainer->program_bytes();
    needs.training = trainer->training_bytes() + outer_bytes(run_file, graph.parameter_count);
  }
  needs.compiled = true;
  needs.slow_ops = trainer->slow_ops();
  return needs;
}

std::optional<std::uint64_t> available_memory() {
  std::optional<std::uint64_t> available = number_after("/proc/meminfo", "MemAvailable:");
  if (available) *available *= 1024;
  // Where a container has a limit of its own, it sees the root of its control groups here.
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    // Pages of files that nobody maps are given back before the limit is felt.
    const auto cache = number_after("/sys/fs/cgroup/memory.stat", "inactive_file");
    const std::uint64_t held = *used - std::min(*used, cache.value_or(0));
    const std::uint64_t free = *limit - std::min(*limit, held);
    available = std::min(available.value_or(free), free);
  }
  return available;
}

std::uint32_t links_of(const runfile::RunFile& run_file) {
  return run_file.swarm.hub.empty() ? run_file.swarm.degree : 1;
}

base::Status check_memory(const Needs& needs, std::uint64_t available) {
  if (needs.memory() <= available) return {};
  const auto size = [](std::uint64_t bytes) { return report::format_bytes(bytes); };
  const std::uint64_t activations = needs.on_gpu ? 0 : needs.activations;
  const std::uint64_t links = needs.on_device ? 0 : needs.mirrors + needs.deltas;
  const std::uint64_t parameters = needs.initial + needs.saving + needs.ring +
                                   (needs.on_device ? 0 : needs.replica + needs.training);
  std::array<std::pair<std::uint64_t, std::string>, 4> parts{{
      {activations,
       fmt::format("train.batch or the model (activations take {})", size(activations))},
      {links, fmt::format("swarm.degree (mirrors and deltas take {})", size(links))},
      {parameters,
       fmt::format("the model's parameters (they, their gradient and the optimizer take {})",
                   size(parameters))},
      {needs.data, fmt::format("the data held in memory ({})", size(needs.data))},
  }};
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  const bool two = parts[1].first > needs.memory() / 4;
  return fail(ErrorCode::run_file,
              "a peer needs {}{} of memory, but {} are to be had on this machine: lower {}{}",
              needs.compiled ? "" : "at least ", size(needs.memory()), size(available),
              parts[0].second, two ? ", or " + parts[1].second : "");
}

}  // namespace starling::runtime
