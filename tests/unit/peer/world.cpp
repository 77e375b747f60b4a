#include "world.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <boost/test/unit_test.hpp>

#include "base/hash.hpp"
#include "data/array_set.hpp"
#include "data/held_back.hpp"
#include "peer/model_learner.hpp"
#include "train/trainer.hpp"

namespace starling::peer::testing {
namespace {

constexpr std::uint32_t kPixels = 16;
constexpr std::uint32_t kClasses = 4;
constexpr std::uint32_t kTrainingSamples = 512;
constexpr std::size_t kStranger = std::numeric_limits<std::size_t>::max();
constexpr base::Duration kDialTime = std::chrono::milliseconds(1);

std::unique_ptr<const data::SampleSet> make_set(std::uint32_t count, std::uint64_t seed,
                                                std::vector<data::Storage>& storage) {
  base::Rng rng(seed);
  base::Bytes pixels;
  data::Answers answers{.classes = kClasses};
  for (std::uint32_t n = 0; n < count; ++n) {
    answers.labels.push_back(static_cast<std::int32_t>(rng.below(kClasses)));
    for (std::uint32_t i = 0; i < kPixels; ++i) {
      const bool bright = static_cast<std::int32_t>(i / kClasses) == answers.labels.back();
      pixels.push_back(static_cast<std::byte>((bright ? 128 : 0) + rng.below(128)));
    }
  }
  storage.emplace_back(std::move(pixels));
  return data::ArraySet::make({.blocks = {{storage.back().view().data(), kPixels, count}},
                               .shape = {kPixels},
                               .normalisation = {{.mean = 0.4, .std = 0.3}}},
                              std::move(answers), "problem")
      .value();
}

data::Dataset make_data(std::uint64_t seed) {
  data::Dataset made;
  made.train = make_set(kTrainingSamples, seed, made.storage);
  made.test = make_set(200, seed + 1, made.storage);
  return made;
}

model::Model make_model(bool batch_norm) {
  using Kind = model::LayerKind;
  model::Spec spec{.input = {kPixels}};
  spec.layers.push_back({.kind = Kind::linear, .out = 8});
  if (batch_norm) spec.layers.push_back({.kind = Kind::batch_norm});
  spec.layers.push_back({.kind = Kind::relu});
  spec.layers.push_back({.kind = Kind::linear, .out = kClasses});
  return model::build(spec, kClasses).value();
}

/// As a link carries it.
wire::Message through_the_wire(const wire::Message& message) {
  const base::Bytes bytes = wire::encode(message);
  base::ByteView stream(bytes);
  wire::FrameReader reader(1 << 20);
  return *wire::decode(std::move(*reader.read(stream).value())).value();
}

}  // namespace

Problem::Problem(std::uint64_t seed, bool batch_norm)
    : data(make_data(seed)),
      shards(kTrainingSamples, data.train->labels(), {.shards = 64}, seed),
      model(make_model(batch_norm)),
      initial(model.initial_parameters(seed)),
      buffers(buffer_spec(model.graph, model.initial_buffers())) {}

std::unique_ptr<Worker> Problem::worker(data::Loader& loader, Saver saver,
                                        const Resume& resume) const {
  auto trainer = train::Trainer::create(model.graph, training).value();
  return std::make_unique<Worker>(
      std::make_unique<ModelLearner>(std::move(trainer), loader,
                                     data::HeldBack(*data.train, shards, 1), *data.test),
      exchange::Replica(initial, 0.5F, buffers), std::move(saver), resume.step, resume.samples);
}

Config config_for(const Problem& problem, exchange::Mode mode) {
  Config config{.canonical = "run.name = \"problem\"\n",
                .parameters_hash = base::xxh3(std::as_bytes(std::span(problem.initial))),
                .parameter_count = problem.initial.size(),
                .buffer_count = problem.buffers.initial.size(),
                .target_samples = 8192,
                .train = problem.training,
                .evaluate_every = 4096,
                .evaluate_samples = 50};
  config.run = base::xxh3_128(config.canonical);
  config.exchange.mode = mode;
  config.exchange.density = 0.1;
  config.exchange.settle_density = 0.5;
  config.membership.wait_for = 1;
  return config;
}

std::string World::address_of(std::size_t index) { return "peer-" + std::to_string(index) + ":1"; }

std::size_t World::add(Config config, std::vector<std::string> join, Resume resume,
                       std::optional<std::size_t> former) {
  config.membership.join = std::move(join);
  return start(std::move(config), false, std::move(resume), former);
}

std::size_t World::add_relay(const wire::RunId& run, std::vector<std::string> join) {
  return start(relay_config(run, std::move(join), reach::kRelayConfig), true, {}, {});
}

std::size_t World::start(Config config, bool relay, Resume resume,
                         std::optional<std::size_t> former) {
  const std::size_t index = peers_.size();
  auto added = std::make_unique<Peer>();
  Peer& peer = *added;
  for (std::uint8_t& byte : peer.id.bytes) byte = static_cast<std::uint8_t>(rng_.below(256));
  if (former) peer.id = peers_[*former]->id;
  peer.loader = std::make_unique<data::Loader>(
      *problem.data.train, problem.shards, problem.training.batch,
      data::Loader::peer_seed(seed_, peer.id), std::span<const std::uint32_t>{});
  const auto save = [&peer](const Snapshot& snapshot) -> base::Status {
    if (peer.disk_full) return base::fail(base::ErrorCode::data, "no space left");
    peer.saved.push_back({.step = snapshot.step,
                          .samples = snapshot.samples,
                          .progress = snapshot.progress,
                          .counters = {snapshot.counters.begin(), snapshot.counters.end()},
                          .addresses = {}});
    return {};
  };
  peer.worker = problem.worker(*peer.loader, save, resume);
  const wire::MemberRecord self{.id = peer.id,
                                .name = "peer-" + std::to_string(index),
                                .addresses = {address_of(index)},
                                .incarnation = index + 1,
                                .has_replica = !relay};
  peer.signer = std::make_unique<membership::SimulatedSigner>(peer.id);
  peer.core = std::make_unique<Core>(std::move(config), self, problem.shards, std::move(resume),
                                     *peer.signer, rng_.fork());
  peers_.push_back(std::move(added));
  give(index, Start{});
  return index;
}

void World::add_swarm(std::size_t count, const Config& config) {
  while (size() < count) {
    add(config, size() == 0 ? std::vector<std::string>{} : std::vector{address_of(0)});
  }
}

void World::give(std::size_t index, Event event) {
  Peer& peer = *peers_[index];
  if (!peer.alive) return;
  Outbox out;
  peer.core->handle(std::move(event), now(), out);
  act(index, out);
}

void World::slow_down(std::size_t index, int times) { peers_[index]->job_time = times * kJobTime; }

void World::kill(std::size_t index) {
  peers_[index]->alive = false;
  close_all(index, membership::LossReason::reset);
}

void World::reset(std::size_t index, base::LinkId link) {
  close(index, link, membership::LossReason::reset);
}

base::LinkId World::connect_stranger(std::size_t to, const base::PeerId& id,
                                     const std::string& observed) {
  const base::LinkId link = network_.end({network_.connect(kStranger, to), 1}).link;
  give(to, LinkUp{link, id, false, "stranger:1", observed});
  return link;
}

// The next event or deadline; false: there is none.
bool World::step() {
  std::optional<base::Time> next = network_.next();
  std::optional<std::size_t> due;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i]->alive) continue;
    const auto deadline = peers_[i]->core->next_deadline();
    if (!deadline || (next && *next <= *deadline)) continue;
    next = deadline;
    due = i;
  }
  if (!next) return false;
  if (due) {
    Outbox out;
    network_.go_to(*next);
    peers_[*due]->core->expire(now(), out);
    act(*due, out);
  } else {
    network_.run_next();
  }
  return true;
}

bool World::run_until(base::Duration limit, const std::function<bool()>& done) {
  const base::Time end = now() + limit;
  while (!done()) {
    if (now() >= end || !step()) return false;
  }
  return true;
}

bool World::run_to_the_end(base::Duration limit) {
  return run_until(limit, [&] {
    return std::ranges::all_of(peers_, [](const auto& p) { return !p->alive || p->finished; });
  });
}

void World::act(std::size_t index, Outbox& out) {
  Peer& peer = *peers_[index];
  for (Action& action : out) {
    BOOST_REQUIRE(!peer.finished);  // that is the last action
    if (const auto* to = std::get_if<Dial>(&action)) {
      dial(index, to->address);
    } else if (const auto* sent = std::get_if<Send>(&action)) {
      send(index, sent->link, sent->message);
    } else if (const auto* closed = std::get_if<Close>(&action)) {
      peer.closed.push_back(closed->link);
      close(index, closed->link, membership::LossReason::closed);
    } else if (auto* run = std::get_if<Run>(&action)) {
      peer.worker->submit(std::move(run->job));
      if (!std::exchange(peer.working, true))
        network_.after(peer.job_time, [this, index] { work(index); });
    } else if (const auto* note = std::get_if<base::LogEntry>(&action)) {
      if (note->severity == base::Severity::warning) peer.warnings.push_back(note->text);
    } else if (const auto* report = std::get_if<Report>(&action)) {
      if (report->evaluated) ++peer.reports;
      if (!report->evaluated) peer.timed_reports.push_back(now());
    } else if (auto* remember = std::get_if<Remember>(&action)) {
      peer.remembered = std::move(remember->addresses);
    } else if (auto* refused = std::get_if<Refused>(&action)) {
      peer.refused = std::move(*refused);
    } else if (auto* finished = std::get_if<Finished>(&action)) {
      peer.finished = std::move(*finished);
      close_all(index, membership::LossReason::closed);
    }
  }
}

void World::work(std::size_t index) {
  Peer& peer = *peers_[index];
  if (!peer.alive || peer.finished) return;
  std::vector<Outcome> outcomes;
  peer.working = peer.worker->work(outcomes);
  if (peer.working) network_.after(peer.job_time, [this, index] { work(index); });
  for (Outcome& outcome : outcomes) {
    if (tamper) tamper(index, outcome);
    if (const auto* evaluated = std::get_if<Evaluated>(&outcome)) peer.evaluated = *evaluated;
    give(index, std::move(outcome));
  }
}

void World::dial(std::size_t index, const std::string& address) {
  network_.after(kDialTime, [this, index, address] {
    for (std::size_t to = 0; to < peers_.size(); ++to) {
      if (address_of(to) != address || !peers_[to]->alive || peers_[to]->finished) continue;
      const std::size_t connection = network_.connect(index, to);
      for (const int side : {0, 1}) bring_up({connection, side}, address);
      return;
    }
    give(index, DialFailed{address, "nobody is there", false});
  });
}

void World::bring_up(const Place& place, const std::string& address) {
  network_.after(kDialTime, [this, place, address] {
    const auto& end = network_.end(place);
    const std::size_t other = network_.end(place.across()).peer;
    const bool dialed = place.side == 0;
    give(end.peer, LinkUp{end.link, peers_[other]->id, dialed, dialed ? address : "somewhere:1",
                          address_of(other)});
  });
}

// Longer than bringing a link up takes, so that nothing arrives before.
base::Duration World::draw_delay() { return std::chrono::microseconds(1100 + rng_.below(2000)); }

void World::send(std::size_t index, base::LinkId link, const wire::Message& message) {
  const auto from = network_.find(index, link);
  if (!from) return;
  if (network_.end(from->across()).peer == kStranger) {
    peers_[index]->told_strangers.push_back(through_the_wire(message));
    return;
  }
  network_.carry(*from, draw_delay(),
                 [this, to = from->across(), received = through_the_wire(message)] {
                   give(network_.end(to).peer, Received{network_.end(to).link, received});
                 });
}

void World::take_down(const Place& place, membership::LossReason reason) {
  if (!network_.close(place)) return;
  const auto& end = network_.end(place);
  if (end.peer != kStranger) give(end.peer, LinkDown{end.link, reason, "the link ended"});
}

void World::close(std::size_t index, base::LinkId link, membership::LossReason reason) {
  const auto from = network_.find(index, link);
  if (!from) return;
  network_.after({}, [this, place = *from, reason] { take_down(place, reason); });
  network_.carry(*from, draw_delay(),
                 [this, place = from->across(), reason] { take_down(place, reason); });
}

void World::close_all(std::size_t index, membership::LossReason reason) {
  for (const auto& [link, place] : network_.links(index)) close(index, link, reason);
}

std::vector<float> World::replica(std::size_t index) const {
  std::vector<float> x(problem.initial.size());
  peers_[index]->worker->replica().read(x);
  return x;
}

const exchange::Buffers& World::buffers(std::size_t index) const {
  return peers_[index]->worker->replica().buffers();
}

double World::spread() const {
  std::vector<std::vector<float>> all;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const bool relays = !peers_[i]->core->membership().self().has_replica;
    if (peers_[i]->finished && !relays) all.push_back(replica(i));
  }
  std::vector<double> mean(problem.initial.size());
  double norm = 0;
  for (std::size_t e = 0; e < mean.size(); ++e) {
    for (const auto& x : all) mean[e] += x[e] / static_cast<double>(all.size());
    norm += mean[e] * mean[e];
  }
  double most = 0;
  for (const auto& x : all) {
    double distance = 0;
    for (std::size_t e = 0; e < mean.size(); ++e) distance += (x[e] - mean[e]) * (x[e] - mean[e]);
    most = std::max(most, distance);
  }
  return std::sqrt(most / norm);
}

bool ended(World& world, std::size_t index, EndReason reason) {
  const auto& finished = world.peer(index).finished;
  return finished && finished->reason == reason;
}

bool failed_with(World& world, std::size_t index, base::ErrorCode code) {
  return ended(world, index, EndReason::failed) && world.peer(index).finished->error.code == code;
}

}  // namespace starling::peer::testing
