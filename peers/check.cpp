// starling check: what a run file asks for, before anything is started.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/result.hpp"
#include "commands.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "model/model.hpp"
#include "peer/run_file.hpp"
#include "problem.hpp"
#include "report/format.hpp"
#include "train/trainer.hpp"
#include "train/weights.hpp"
#include "wire/delta_format.hpp"

namespace starling::peers {
namespace {

using base::ErrorCode;
using base::fail;

/// A delta for n elements in bytes, about: 1% over the entropy of its indices (what their codes
/// need), values, and a scale a block.
std::uint64_t delta_bytes(const exchange::Config& config, std::size_t n) {
  const double p = config.density;
  const double count = std::max(1.0, std::round(p * static_cast<double>(n)));
  const double rest = p < 1 ? (1 - p) * std::log2(1 - p) : 0;
  const double index_bits = -1.01 * (p * std::log2(p) + rest) / p;
  const double values = count * (index_bits + config.bits) / 8;
  const double scales = 4 * std::ceil(count / config.block);
  return wire::delta_format::kHeaderBytes + static_cast<std::uint64_t>(values + scales);
}

/// What a peer of the run needs, in bytes.
struct Needs {
  std::uint64_t parameters = 0;
  std::uint64_t compute = 0;   ///< activations, gradient, optimizer
  std::uint64_t replica = 0;   ///< y, r and the initial parameters
  std::uint64_t mirrors = 0;   ///< two a link
  std::uint64_t data = 0;      ///< samples, and batches filled ahead
  std::uint64_t exchange = 0;  ///< sent by one end in one exchange
  bool allreduce = false;      ///< exchange is what a peer sends a step

  [[nodiscard]] std::uint64_t memory() const { return compute + replica + mirrors + data; }
};

base::Result<Needs> needs_of(const peer::RunFile& run_file, const data::Dataset& dataset,
                             const model::Model& model) {
  auto trainer = train::Trainer::create(model.graph, run_file.train);
  if (!trainer) return fail(trainer.error());
  const std::uint64_t n = model.parameter_count();
  const bool allreduce = run_file.exchange.mode == exchange::Mode::allreduce;
  Needs needs{.parameters = n, .compute = trainer->memory_bytes(), .allreduce = allreduce};
  needs.replica = 3 * n * sizeof(float);
  needs.data = dataset.memory_bytes() +
               data::Loader::kPool * run_file.train.batch * dataset.format().batch_bytes();
  if (run_file.exchange.mode == exchange::Mode::tracked) {
    needs.mirrors = std::uint64_t{2} * run_file.swarm.degree * n * sizeof(float);
    needs.exchange = delta_bytes(run_file.exchange, n);
  } else if (allreduce) {
    // A ring sends each part of the gradient 2 (P - 1) times in P parts.
    needs.exchange = 2 * (run_file.peers - 1) * (n * sizeof(float)) / run_file.peers;
  }
  return needs;
}

void print_text(const peer::RunFile& run_file, const data::Dataset& dataset,
                const model::Model& model, const Needs& needs) {
  using report::format_bytes;
  fmt::print("run {}: {} samples of {} over the swarm\n\n{}\n", run_file.run.name,
             peer::target_samples(run_file, dataset.train->size()), run_file.data.source,
             model.table());
  fmt::print("parameters  {} ({}){}\n", report::format_count(needs.parameters),
             format_bytes(needs.parameters * sizeof(float)),
             run_file.init.empty() ? "" : ", which start as in " + run_file.init);
  fmt::print("memory      {} a peer: compute {}, replica {}, mirrors {}, data {}\n",
             format_bytes(needs.memory()), format_bytes(needs.compute), format_bytes(needs.replica),
             format_bytes(needs.mirrors), format_bytes(needs.data));
  if (needs.allreduce) {
    fmt::print("all-reduce  about {} sent by a peer in every step\n", format_bytes(needs.exchange));
  } else if (needs.exchange != 0) {
    fmt::print("exchange    about {} each way, every {} steps on each link\n",
               format_bytes(needs.exchange), run_file.exchange.every);
  } else {
    fmt::print("exchange    none\n");
  }
}

void print_json(const peer::RunFile& run_file, const data::Dataset& dataset,
                const model::Model& model, const Needs& needs) {
  nlohmann::json layers = nlohmann::json::array();
  for (const compute::Op& op : model.graph.ops) {
    layers.push_back({{"type", compute::name_of(op)}, {"in", op.in}, {"out", op.out}});
  }
  const nlohmann::json out{
      {"run", run_file.run.name},
      {"target_samples", peer::target_samples(run_file, dataset.train->size())},
      {"layers", layers},
      {"parameters", needs.parameters},
      {"exchange_bytes", needs.exchange},
      {"memory_bytes",
       {{"total", needs.memory()},
        {"compute", needs.compute},
        {"replica", needs.replica},
        {"mirrors", needs.mirrors},
        {"data", needs.data}}}};
  fmt::print("{}\n", out.dump(2));
}

/// Memory of this machine in bytes; 0 where it cannot be told.
std::uint64_t machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
             : 0;
}

base::Status check(const CheckOptions& options) {
  const auto run_file = peer::read_run_file(options.run_file, options.set);
  if (!run_file) return fail(run_file.error());
  const auto problem = load_problem(*run_file, options.run_file, {});
  if (!problem) return fail(problem.error());
  if (!run_file->init.empty()) {
    const auto start = train::initial_weights(problem->model, run_file->run.seed, run_file->init);
    if (!start) return fail(start.error());
  }
  const auto needs = needs_of(*run_file, problem->dataset, problem->model);
  if (!needs) return fail(needs.error());
  if (options.json) {
    print_json(*run_file, problem->dataset, problem->model, *needs);
  } else {
    print_text(*run_file, problem->dataset, problem->model, *needs);
  }
  const std::uint64_t memory = machine_memory();
  if (memory != 0 && needs->memory() > memory) {
    return fail(ErrorCode::run_file,
                "{}: a peer needs {}, this machine has {}: make the model, train.batch or "
                "swarm.degree smaller",
                options.run_file, report::format_bytes(needs->memory()),
                report::format_bytes(memory));
  }
  return {};
}

}  // namespace

int run_check(const CheckOptions& options) {
  const auto checked = check(options);
  if (checked) return 0;
  fmt::print(stderr, "starling check: {}\n", checked.error().text);
  return base::exit_code(checked.error().code);
}

}  // namespace starling::peers
