#include "sim/learner.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/hash.hpp"
#include "base/rng.hpp"
#include "compute/program.hpp"
#include "data/array_set.hpp"
#include "data/batch_stream.hpp"
#include "data/dataset.hpp"
#include "data/held_back.hpp"
#include "data/loader.hpp"
#include "delta/format.hpp"
#include "model/model.hpp"
#include "peer/buffers.hpp"
#include "runfile/build_model.hpp"
#include "train/optimizer.hpp"
#include "train/weights.hpp"

namespace starling::sim {
namespace {

using base::fail;

/// Used if no run file is given.
constexpr const char* kRunText = R"([run]
name = "simulated"
samples = 1
[model]
input = [16]
layers = [{ type = "linear", out = 8 }, { type = "relu" }, { type = "linear", out = 4 }]
[train]
lr = 0.05
batch = 16
[exchange]
density = 0.05
settle_density = 0.5
[report]
every = 0
[checkpoint]
every = 10
)";

// --- a bowl ---

/// f(x) = mean of h (x - c)^2 / 2. The gradient has noise, and at each peer an individual slant,
/// which cancels in the average over many peers: c is the lowest point for all together. Buffers,
/// if wanted, are means and variances in turn; each peer permanently sees slightly different ones.
class Bowl final : public Task {
 public:
  Bowl(std::uint32_t elements, std::uint32_t buffer_count, std::uint64_t seed)
      : curvature_(elements) {
    base::Rng rng(seed);
    for (std::uint32_t i = 0; i < elements; ++i) {
      curvature_[i] = static_cast<float>(0.5 + rng.uniform());
      optimum.push_back(static_cast<float>(2 * rng.uniform() - 1));
      initial.push_back(static_cast<float>(2 * rng.uniform() - 1));
    }
    for (std::uint32_t i = 0; i < buffer_count; ++i) {
      buffers.initial.push_back(is_variance(i) ? 1.0F : 0.0F);
      buffers.least.push_back(is_variance(i) ? 0.0F : -delta::format::kMagnitudeMax);
    }
  }
  static constexpr bool is_variance(std::size_t buffer) { return buffer % 2 == 1; }
  [[nodiscard]] std::unique_ptr<peer::Learner> learner(const base::PeerId& id,
                                                       peer::Conduct* conduct) override;
  [[nodiscard]] bool samples_are_alike() const override { return false; }

 private:
  friend class BowlLearner;
  std::vector<float> curvature_;
};

class BowlLearner final : public peer::Learner {
 public:
  BowlLearner(const Bowl& bowl, std::uint64_t seed)
      : bowl_(bowl), rng_(seed), batch_(bowl.run_file.train.batch) {
    for (std::size_t i = 0; i < bowl.optimum.size(); ++i) {
      slant_.push_back(static_cast<float>(rng_.uniform() - 0.5) * kSlant);
    }
    for (std::size_t i = 0; i < bowl.buffers.initial.size(); ++i) {
      seen_.push_back(static_cast<float>(rng_.uniform()));
    }
  }

  base::Result<peer::Trained> step(exchange::Replica& replica, float lr) override {
    const std::span<float> y = replica.trained();
    const double loss = evaluate_all(y);
    see(y, replica.buffers().values());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] -= lr * slope(y[i], i);
    return peer::Trained{batch_, static_cast<float>(loss)};
  }
  base::Result<peer::BatchGradient> gradient(exchange::Replica& replica) override {
    const std::span<const float> y = replica.trained();
    see(y, replica.buffers().values());
    gradient_.resize(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) gradient_[i] = slope(y[i], i);
    return peer::BatchGradient{{batch_, static_cast<float>(evaluate_all(y))}, gradient_};
  }
  base::Status apply(exchange::Replica& replica, std::span<const float> gradient,
                     float lr) override {
    const std::span<float> y = replica.trained();
    for (std::size_t i = 0; i < y.size(); ++i) y[i] -= lr * gradient[i];
    return {};
  }
  base::Status begin_evaluation(const exchange::Replica& replica, std::uint32_t samples) override {
    evaluated_.resize(replica.size());
    replica.read(evaluated_);
    whole_ = samples == 0;
    return {};
  }
  base::Result<std::optional<peer::Evaluated>> evaluate() override {
    const double loss = evaluate_all(evaluated_);
    return peer::Evaluated{.samples = 1, .whole = whole_, .accuracy = 1 / (1 + loss), .loss = loss};
  }
  bool begin_audit(std::uint32_t) override { return true; }
  base::Result<double> audit(std::span<const float> x, std::span<const float>) override {
    return evaluate_all(x);
  }
  void set_data(std::vector<std::uint32_t>, std::uint32_t batch) override { batch_ = batch; }

 private:
  void see(std::span<const float> x, std::span<float> buffers) const {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const float seen = Bowl::is_variance(i) ? seen_[i] : x[i % x.size()] + seen_[i] - 0.5F;
      buffers[i] += kMomentum * (seen - buffers[i]);
    }
  }
  float slope(float x, std::size_t i) {
    constexpr float kNoise = 0.2F;
    const auto noise = static_cast<float>(rng_.uniform() - 0.5) * kNoise;
    return bowl_.curvature_[i] * (x - bowl_.optimum[i]) + slant_[i] + noise;
  }
  [[nodiscard]] double evaluate_all(std::span<const float> x) const {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double off = static_cast<double>(x[i]) - static_cast<double>(bowl_.optimum[i]);
      sum += 0.5 * static_cast<double>(bowl_.curvature_[i]) * off * off;
    }
    return sum / static_cast<double>(x.size());
  }

  /// Each peer's bowl is shifted a little: alone the peer ends elsewhere.
  static constexpr float kSlant = 0.2F;
  static constexpr float kMomentum = 0.02F;  ///< of the buffers

  const Bowl& bowl_;
  base::Rng rng_;
  std::uint32_t batch_;
  std::vector<float> slant_;
  std::vector<float> seen_;  ///< 0 to 1: of the buffers
  std::vector<float> gradient_;
  std::vector<float> evaluated_;  ///< x
  bool whole_ = false;            ///< the evaluation is of the whole test set
};

std::unique_ptr<peer::Learner> Bowl::learner(const base::PeerId& id, peer::Conduct*) {
  return std::make_unique<BowlLearner>(*this, data::Loader::peer_seed(run_file.run.seed, id));
}

// --- nothing ---

/// Steps that only count, so that peers tell each other their progress.
class IdleLearner final : public peer::Learner {
 public:
  static constexpr std::uint32_t kBatch = 1;

  base::Result<peer::Trained> step(exchange::Replica&, float) override { return kStep; }
  base::Result<peer::BatchGradient> gradient(exchange::Replica& replica) override {
    gradient_.resize(replica.size());
    return peer::BatchGradient{kStep, gradient_};
  }
  base::Status apply(exchange::Replica&, std::span<const float>, float) override { return {}; }
  base::Status begin_evaluation(const exchange::Replica&, std::uint32_t samples) override {
    whole_ = samples == 0;
    return {};
  }
  base::Result<std::optional<peer::Evaluated>> evaluate() override {
    return peer::Evaluated{.samples = 1, .whole = whole_, .accuracy = 0, .loss = 1};
  }
  void set_data(std::vector<std::uint32_t>, std::uint32_t) override {}

 private:
  static constexpr peer::Trained kStep{.samples = kBatch, .loss = 1.0F};

  std::vector<float> gradient_;
  bool whole_ = false;
};

class Idle final : public Task {
 public:
  Idle() { initial.assign(2, 0.5F); }
  [[nodiscard]] std::unique_ptr<peer::Learner> learner(const base::PeerId&,
                                                       peer::Conduct*) override {
    return std::make_unique<IdleLearner>();
  }
  [[nodiscard]] bool samples_are_alike() const override { return true; }
};

// --- a network ---

/// A model on a data set. One compiled program serves all peers: it has no parameters of its own.
class Network final : public Task {
 public:
  Network(data::Dataset loaded, model::Model built)
      : data(std::move(loaded)), model(std::move(built)) {}
  [[nodiscard]] std::unique_ptr<peer::Learner> learner(const base::PeerId& id,
                                                       peer::Conduct* conduct) override;
  [[nodiscard]] bool samples_are_alike() const override {
    return peer::samples_are_alike(run_file);
  }

  data::Dataset data;
  model::Model model;
  std::unique_ptr<compute::Backend> backend;
  std::unique_ptr<compute::Program> program;
};

class NetworkLearner final : public peer::Learner {
 public:
  NetworkLearner(Network& network, const data::SampleSet& samples, std::uint64_t seed)
      : network_(network),
        stream_(samples, *network.shards, network.run_file.data.augmentation,
                network.run_file.train.batch, seed),
        held_back_(samples, *network_.shards, seed),
        rule_(network.run_file.train, network.model.graph),
        gradient_(network.initial.size()) {}

  base::Result<peer::Trained> step(exchange::Replica& replica, float lr) override {
    const auto made = gradient(replica);
    if (!made) return fail(made.error());
    rule_.apply(replica.trained(), gradient_, lr);
    return made->batch;
  }
  base::Result<peer::BatchGradient> gradient(exchange::Replica& replica) override {
    stream_.next(batch_);
    const auto loss = network_.program->forward_backward(
        replica.trained(), replica.buffers().values(), batch_.view(), batch_.seed, gradient_);
    if (!loss) return fail(loss.error());
    if (!std::isfinite(*loss)) return fail(base::ErrorCode::diverged, "the loss is not finite");
    return peer::BatchGradient{{batch_.count, *loss}, gradient_};
  }
  base::Status apply(exchange::Replica& replica, std::span<const float> gradient,
                     float lr) override {
    rule_.apply(replica.trained(), gradient, lr);
    return {};
  }
  base::Status begin_evaluation(const exchange::Replica& replica, std::uint32_t samples) override {
    x_.resize(replica.size());
    replica.read(x_);
    const auto buffers = replica.buffers().values();
    buffers_.assign(buffers.begin(), buffers.end());
    wanted_ = samples;
    return {};
  }
  base::Result<std::optional<peer::Evaluated>> evaluate() override {
    const data::SampleSet& test = *network_.data.test;
    const std::uint32_t count = wanted_ == 0 ? test.size() : std::min(wanted_, test.size());
    compute::Evaluation sum;
    const std::uint32_t batch = network_.run_file.train.batch;
    for (std::uint32_t done = 0; done < count; done += batch) {
      test.fill_spread(done, std::min(batch, count - done), count, tested_);
      const auto piece = network_.program->evaluate(x_, buffers_, tested_.view());
      if (!piece) return fail(piece.error());
      sum += *piece;
    }
    return peer::Evaluated{
        .samples = count,
        .whole = wanted_ == 0,
        .accuracy = static_cast<double>(sum.correct) / static_cast<double>(sum.count),
        .loss = sum.loss_sum / static_cast<double>(sum.count)};
  }
  bool begin_audit(std::uint32_t samples) override {
    const std::uint32_t batch = network_.run_file.train.batch;
    audited_.resize((samples + batch - 1) / batch);
    return std::ranges::all_of(audited_, [&](data::BatchBuffer& piece) {
      const std::uint32_t wanted = std::min(samples, batch);
      samples -= wanted;
      return held_back_.next(wanted, piece);
    });
  }
  base::Result<double> audit(std::span<const float> x, std::span<const float> buffers) override {
    compute::Evaluation sum;
    for (const data::BatchBuffer& samples : audited_) {
      const auto piece = network_.program->evaluate(x, buffers, samples.view());
      if (!piece) return fail(piece.error());
      sum += *piece;
    }
    return sum.loss_sum / static_cast<double>(sum.count);
  }
  void set_data(std::vector<std::uint32_t> owned, std::uint32_t batch) override {
    stream_.set_shards(owned);
    held_back_.set_shards(owned);
    stream_.set_batch(batch);
  }
  train::UpdateRule* rule() noexcept override { return &rule_; }

 private:
  Network& network_;
  data::BatchStream stream_;
  data::HeldBack held_back_;
  train::UpdateRule rule_;
  std::vector<float> gradient_;
  data::BatchBuffer batch_;
  std::vector<data::BatchBuffer> audited_;  ///< samples that replicas are tried on
  data::BatchBuffer tested_;
  std::vector<float> x_;  ///< for the evaluation, like buffers_
  std::vector<float> buffers_;
  std::uint32_t wanted_ = 0;  ///< samples of the test set; 0: all
};

std::unique_ptr<peer::Learner> Network::learner(const base::PeerId& id, peer::Conduct* conduct) {
  const data::SampleSet& samples = conduct != nullptr ? conduct->samples(*data.train) : *data.train;
  return std::make_unique<NetworkLearner>(*this, samples,
                                          data::Loader::peer_seed(run_file.run.seed, id));
}

/// Four kinds of 16 pixels: a bright quarter in noise.
base::Result<std::unique_ptr<const data::SampleSet>> make_quarters(
    std::uint32_t count, std::uint64_t seed, std::vector<data::Storage>& storage) {
  constexpr std::uint32_t kPixels = 16;
  constexpr std::uint32_t kKinds = 4;
  base::Rng rng(seed);
  base::Bytes pixels;
  data::Answers answers{.classes = kKinds};
  for (std::uint32_t n = 0; n < count; ++n) {
    answers.labels.push_back(static_cast<std::int32_t>(rng.below(kKinds)));
    for (std::uint32_t i = 0; i < kPixels; ++i) {
      const bool bright = static_cast<std::int32_t>(i / kKinds) == answers.labels.back();
      pixels.push_back(static_cast<std::byte>((bright ? 70 : 0) + rng.below(186)));
    }
  }
  auto made = data::ArraySet::make({.blocks = {{pixels.data(), kPixels, count}},
                                    .shape = {kPixels},
                                    .normalisation = {{.mean = 0.4, .std = 0.3}}},
                                   std::move(answers), "quarters");
  if (!made) return fail(made.error());
  storage.emplace_back(std::move(pixels));
  return std::move(*made);
}

base::Result<data::Dataset> make_all_quarters(std::uint64_t seed) {
  data::Dataset dataset;
  auto train = make_quarters(2048, seed, dataset.storage);
  if (!train) return fail(train.error());
  auto test = make_quarters(500, seed + 1, dataset.storage);
  if (!test) return fail(test.error());
  dataset.train = std::move(*train);
  dataset.test = std::move(*test);
  return dataset;
}

base::Result<std::unique_ptr<Network>> make_network(runfile::RunFile& run_file, Problem problem) {
  if (problem != Problem::model) {
    if (run_file.data.augmentation.any()) {
      return fail(base::ErrorCode::run_file,
                  "data.crop and data.flip change images, but the simulator's own data "
                  "has none: leave them out, or name a run file");
    }
    run_file.data.shards = std::min(run_file.data.shards, 64U);
  }
  auto dataset = problem == Problem::model
                     ? data::load(run_file.data, model::context_of(run_file.model))
                     : make_all_quarters(run_file.run.seed);
  if (!dataset) return fail(dataset.error());
  auto built = runfile::build_model(run_file, dataset->format());
  if (!built) return fail(built.error());
  auto task = std::make_unique<Network>(std::move(*dataset), std::move(*built));
  auto start = train::initial_weights(task->model, run_file.run.seed, run_file.init);
  if (!start) return fail(start.error());
  task->initial = std::move(start->weights.parameters);
  task->buffers = peer::buffer_spec(task->model.graph, std::move(start->weights.buffers));
  auto backend = compute::open_backend(run_file.train.device);
  if (!backend) return fail(backend.error());
  task->backend = std::move(*backend);
  auto program = task->backend->compile(task->model.graph, {.batch = run_file.train.batch});
  if (!program) return fail(program.error());
  task->program = std::move(*program);
  const data::SampleSet& train = *task->data.train;
  task->shards = std::make_unique<data::Shards>(train.size(), train.labels(), run_file.data,
                                                run_file.run.seed, peer::audits(run_file));
  return task;
}

peer::Config core_config(const Task& task, std::uint64_t training_set) {
  return peer::core_config(task.run_file, runfile::canonical(task.run_file, {}),
                           {.parameters_hash = base::xxh3(std::as_bytes(std::span(task.initial))),
                            .parameters = task.initial.size(),
                            .buffers = task.buffers.initial.size(),
                            .training_set = training_set});
}

/// How often an entry happens, or a little more.
double turns_of(const Entry& entry, double duration) {
  if (!entry.every) return 1;
  const double end = std::min(entry.until.value_or(duration), duration);
  return 1 + std::max(0.0, end - entry.at) / *entry.every;
}

/// Samples for a run that is at most half done when the scenario ends.
std::uint64_t endless_samples(const Scenario& scenario, std::uint32_t batch) {
  double peers = scenario.count;
  for (const Entry& entry : scenario.timeline) {
    if (entry.kind == Kind::join) peers += turns_of(entry, scenario.duration) * entry.count;
  }
  peers = std::min(peers, static_cast<double>(kPeersMax));
  const double speed = *std::ranges::max_element(scenario.speeds);
  const double steps = peers * speed * scenario.duration * 1000 / scenario.sim.step_ms;
  return static_cast<std::uint64_t>(2 * steps * batch) + 1;
}

}  // namespace

base::Result<std::unique_ptr<Task>> make_task(const Scenario& scenario) {
  auto run_file = scenario.run_file.empty()
                      ? runfile::parse_run_file(kRunText, "the simulator's run file", scenario.set)
                      : runfile::read_run_file(scenario.run_file, scenario.set);
  if (!run_file) return fail(run_file.error());
  // The machine's devices must not show in a trace.
  run_file->train.device = "cpu";
  const Problem problem = scenario.sim.problem;
  if (problem == Problem::none) run_file->train.batch = IdleLearner::kBatch;
  if (scenario.run_file.empty() && run_file->run.samples == 1) {
    run_file->run.samples = endless_samples(scenario, run_file->train.batch);
  }
  std::unique_ptr<Task> task;
  std::uint64_t training_set = std::uint64_t{1} << 20;
  if (problem == Problem::none) {
    run_file->exchange.mode = exchange::Mode::none;
    task = std::make_unique<Idle>();
  } else if (problem == Problem::quadratic) {
    task = std::make_unique<Bowl>(scenario.sim.elements, scenario.sim.buffers, run_file->run.seed);
  } else {
    auto network = make_network(*run_file, problem);
    if (!network) return fail(network.error());
    training_set = (*network)->data.train->size();
    task = std::move(*network);
  }
  if (task->shards == nullptr) {
    task->shards = std::make_unique<data::Shards>(1, std::span<const std::int32_t>{},
                                                  data::Config{.shards = 1}, 1);
  }
  task->run_file = std::move(*run_file);
  task->config = core_config(*task, training_set);
  return task;
}

}  // namespace starling::sim
