#include "peer/config.hpp"

#include <algorithm>
#include <utility>

#include "runfile/run_file.hpp"

namespace starling::peer {
namespace {

/// In samples: not 0, which would be never, for however small a part of a training set.
std::uint64_t evaluate_every(double epochs, std::uint64_t training_set) {
  if (epochs == 0) return 0;
  const double samples = epochs * static_cast<double>(training_set);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(samples));
}

/// Where labels or files are a peer's own, a slow peer may be the only one that has some.
bool weighs_by_speed(const runfile::RunFile& run_file) {
  const exchange::WeightRule rule = run_file.exchange.weight;
  if (rule != exchange::WeightRule::automatic) return rule == exchange::WeightRule::speed;
  return samples_are_alike(run_file);
}

}  // namespace

bool audits(const runfile::RunFile& run_file) {
  return !run_file.embedded && exchange::clips(run_file.exchange);
}

bool samples_are_alike(const runfile::RunFile& run_file) {
  const data::Split split = run_file.data.split;
  return !run_file.embedded && (split == data::Split::iid || split == data::Split::stratified);
}

Config core_config(const runfile::RunFile& run_file, std::string canonical,
                   const StartingPoint& start) {
  const wire::RunId run = runfile::run_id(canonical);
  Config config{.run = run,
                .canonical = std::move(canonical),
                .parameters_hash = start.parameters_hash,
                .parameter_count = start.parameters,
                .buffer_count = start.buffers,
                .target_samples = runfile::target_samples(run_file, start.training_set),
                .exchange = run_file.exchange,
                .membership = run_file.swarm,
                .relay = run_file.relay,
                .secure = run_file.security == runfile::Security::tls,
                .train = run_file.train,
                .trains = !run_file.embedded,
                .weighs_by_speed = weighs_by_speed(run_file),
                .peers = run_file.peers,
                .evaluate_every = evaluate_every(run_file.report.every, start.training_set),
                .evaluate_by_own_samples = run_file.data.split == data::Split::private_data,
                .evaluate_samples = run_file.report.samples,
                .checkpoint_every = run_file.checkpoint.every};
  if (exchange::uses_ring(run_file.exchange.mode)) config.membership.degree = run_file.peers - 1;
  if (run_file.run.target_accuracy > 0) config.target_accuracy = run_file.run.target_accuracy;
  return config;
}

Config relay_config(const wire::RunId& run, std::vector<std::string> join,
                    const reach::Config& relay) {
  Config config{.run = run, .parameter_count = 1, .target_samples = 1, .relay = relay};
  config.exchange.mode = exchange::Mode::none;
  config.membership.join = std::move(join);
  return config;
}

}  // namespace starling::peer
