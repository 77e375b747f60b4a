#include "sim/processes.hpp"

#include <array>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"

namespace starling::sim {
namespace {

/// The largest error of a machine's wall clock when a process starts, in seconds; less than kStart.
constexpr std::int64_t kClockOff = 100;
/// Timers that may fire while time stands still; if there are more, a core asks for the same one
/// for ever.
constexpr std::uint32_t kWakesInPlaceMax = 10'000;

/// Names of peer::Event's alternatives, for people.
constexpr std::array kEventNames{
    "start",   "link up", "link down",  "dial failed", "found",      "moved",        "receives",
    "outcome", "leave",   "checkpoint", "arriving",    "unreadable", "circuit ended"};
static_assert(kEventNames.size() == std::variant_size_v<peer::Event>);
constexpr std::array kMessageNames{
    "Hello",      "Refuse",         "Neighbour",    "Gossip",         "Heartbeat",
    "LinkOpen",   "Keyframe",       "Delta",        "Reduce",         "Bye",
    "Reconcile",  "RunFileRequest", "RunFileReply", "ReduceReceived", "DialBack",
    "DialedBack", "Introduce",      "Circuit",      "Settle"};
static_assert(kMessageNames.size() == std::variant_size_v<wire::Message>);
constexpr std::array kOutcomeNames{
    "step done",     "gradient", "outer gradient", "outer step done", "evaluated",
    "not evaluated", "saved",    "failed",         "notice",          "exchange"};
static_assert(kOutcomeNames.size() == std::variant_size_v<peer::Outcome>);

std::uint64_t link_number(base::LinkId link) {
  return (std::uint64_t{link.slot} << 32) | link.generation;
}

/// The part of an event that goes into the trace's hash, in addition to its kind.
std::uint64_t digest_of(const peer::Event& event) {
  if (const auto* up = std::get_if<peer::LinkUp>(&event)) {
    return link_number(up->link) ^ up->peer.prefix();
  }
  if (const auto* down = std::get_if<peer::LinkDown>(&event)) return link_number(down->link);
  if (const auto* outcome = std::get_if<peer::Outcome>(&event)) {
    const auto* step = std::get_if<peer::StepDone>(outcome);
    return step == nullptr ? outcome->index()
                           : (step->step.value << 32) ^ std::bit_cast<std::uint32_t>(step->loss);
  }
  return 0;
}

std::string text_of(const peer::Event& event) {
  std::string name = kEventNames[event.index()];
  if (const auto* up = std::get_if<peer::LinkUp>(&event)) {
    return fmt::format("{} {} with {} at {}{}", name, up->link.slot, up->peer.brief(), up->observed,
                       up->dialed ? ", dialed" : "");
  }
  if (const auto* down = std::get_if<peer::LinkDown>(&event)) {
    return fmt::format("{} {}: {}", name, down->link.slot, down->text);
  }
  if (const auto* failed = std::get_if<peer::DialFailed>(&event)) {
    return fmt::format("{} {}: {}", name, failed->address, failed->text);
  }
  if (const auto* received = std::get_if<peer::Received>(&event)) {
    return fmt::format("{} {} on link {}", name, kMessageNames[received->message.index()],
                       received->link.slot);
  }
  if (const auto* outcome = std::get_if<peer::Outcome>(&event)) {
    return fmt::format("{}: {}", name, kOutcomeNames[outcome->index()]);
  }
  return name;
}

}  // namespace

void Processes::start(Node& node, bool twin) {
  if (node.is_up()) return;
  // A peer ends at once if it cannot write its identity.
  node.waits_for_room = node.folder.full;
  if (node.waits_for_room) {
    shared_.trace.line(fmt::format("peer-{} cannot start: its disk is full", node.number));
    return;
  }
  ++node.life;
  node.state = NodeState::running;
  // The machine's faults continue; the stop applied to another process.
  std::erase_if(node.faults,
                [&](std::size_t i) { return shared_.plan.events[i].kind == Kind::stop; });
  node.started = shared_.agenda.now();
  node.finished.reset();
  node.held.clear();
  node.links.clear();
  node.wake_at.reset();
  node.working = false;
  node.dials = 0;
  node.sent_bytes = 0;
  begin_incarnation(node, twin);
  const Task& task = shared_.task;
  peer::Config config = node.relay ? peer::relay_config({}, {}, reach::kRelayConfig) : task.config;
  config.membership.join.insert(config.membership.join.end(), node.join.begin(), node.join.end());
  peer::Resume resume{.addresses = node.folder.addresses()};
  if (const Checkpoint* saved = node.folder.newest_whole(); saved != nullptr) {
    resume.step = saved->step;
    resume.samples = saved->samples;
    resume.progress = saved->progress;
    resume.weight = saved->weight.value_or(wire::kNoWeight);
    resume.counters = saved->counters;
  }
  node.worker.reset();  // before the conduct that it may have
  node.conduct.reset();
  if (const auto& attack = shared_.plan.peers[node.peer].attack) {
    node.conduct = shared_.make_conduct(
        *attack, [this] { return shared_.agenda.seconds(); },
        shared_.plan.seed + (std::uint64_t{node.life} << 32) + node.number);
    node.conduct->arrange(config);
  }
  node.worker = make_worker(node, resume);
  wire::MemberRecord self{.id = node.id,
                          .name = shared_.plan.peers[node.peer].name,
                          .addresses = addresses_.own(node),
                          .incarnation = node.incarnation,
                          .has_replica = !node.relay};
  node.signer = std::make_unique<membership::SimulatedSigner>(node.id);
  node.core = std::make_unique<peer::Core>(std::move(config), std::move(self), *task.shards, resume,
                                           *node.signer, shared_.rng.fork());
  shared_.observer->started(node);
  give(node, peer::Start{});
}

// Sets the clocks of its machine, and the incarnation that it takes from one of them.
void Processes::begin_incarnation(Node& node, bool twin) {
  const base::Time now = shared_.agenda.now();
  // Monotonic clocks of different machines are unrelated.
  node.clock.set(base::Time(std::chrono::seconds(1 + shared_.rng.below(1'000'000))), now);
  // As the system's clock gives it, in seconds; at another start that clock may be set back.
  const auto off = static_cast<std::int64_t>(clocks_.below(2 * kClockOff + 1)) - kClockOff;
  const auto wall = static_cast<std::int64_t>(base::seconds(now.time_since_epoch())) + off;
  node.incarnation = static_cast<std::uint64_t>(wall) + (twin ? 1 : 0);
}

std::unique_ptr<TimedWorker> Processes::make_worker(Node& node, const peer::Resume& resume) {
  Task& task = shared_.task;
  const double step_ms = shared_.plan.scenario.sim.step_ms;
  auto learner = task.learner(node.id, node.conduct.get());
  exchange::Config exchange = task.run_file.exchange;
  if (node.conduct) {
    learner = node.conduct->learner(std::move(learner));
    node.conduct->arrange(exchange);
  }
  auto worker = std::make_unique<TimedWorker>(
      std::move(learner),
      exchange::make_replica(task.initial, exchange, task.buffers, task.samples_are_alike()),
      node.folder, resume.step, resume.samples, base::from_seconds(step_ms / 1000),
      task.run_file.train.batch, node.conduct.get());
  if (worker->replica().averaging().clips) {
    worker->begin_audits(task.samples_are_alike());
  }
  return worker;
}

void Processes::kill(Node& node) {
  shared_.observer->killed(node);
  node.up_seconds += base::seconds(shared_.agenda.now() - node.started);
  node.state = NodeState::down;
  links_.close_all(node, true);  // by its machine
  node.links.clear();
  node.held.clear();
  node.core.reset();
  node.worker.reset();
}

void Processes::stop(Node& node) {
  node.state = NodeState::stopped;
  // The current job does not go on meanwhile.
  ++node.work;
  if (node.working) node.work_left = node.work_ends - shared_.agenda.now();
}

void Processes::resume(Node& node) {
  node.state = NodeState::running;
  const std::uint32_t life = node.life;
  if (node.working) end_work_after(node, node.work_left);
  while (!node.held.empty() && node.life == life && node.state == NodeState::running) {
    peer::Event event = std::move(node.held.front());
    node.held.pop_front();
    give(node, std::move(event));
  }
  if (node.state == NodeState::running && node.life == life) {
    node.wake_at.reset();
    schedule(node);
  }
}

void Processes::set_rate(Node& node, double rate) {
  node.clock.set_rate(rate, shared_.agenda.now());
  node.wake_at.reset();
  schedule(node);
}

void Processes::schedule(Node& node) {
  if (node.state != NodeState::running) return;
  const auto deadline = node.core->next_deadline();
  if (!deadline) return;
  const base::Time when = node.clock.when(*deadline, shared_.agenda.now());
  if (node.wake_at && *node.wake_at <= when) return;
  node.wake_at = when;
  shared_.agenda.at(when, Wake{node.this_life()});
}

void Processes::happen(const Wake& wake) {
  const base::Time now = shared_.agenda.now();
  Node* const node = shared_.find(wake.of);
  if (node == nullptr || node->wake_at != now) return;
  node->wake_at.reset();
  if (node->state != NodeState::running) return;
  wakes_in_place_ = last_wake_ == now ? wakes_in_place_ + 1 : 0;
  last_wake_ = now;
  if (wakes_in_place_ > kWakesInPlaceMax && shared_.breach.empty()) {
    return shared_.breaks(
        fmt::format("a timer of peer-{} fires for ever at one moment", node->peer));
  }
  const base::Time local = node->clock.at(now);
  const auto deadline = node->core->next_deadline();
  if (deadline && *deadline <= local) {
    shared_.trace.event(node->number, 0, 0);
    if (shared_.trace.is_read()) shared_.trace.line(fmt::format("peer-{} timer", node->number));
    peer::Outbox out;
    node->core->expire(local, out);
    act(*node, out);
    shared_.observer->touched(*node);
  }
  schedule(*node);
}

void Processes::give(Node& node, peer::Event event) {
  if (node.state == NodeState::stopped) {
    node.held.push_back(std::move(event));
    return;
  }
  if (node.state != NodeState::running) return;
  shared_.trace.event(node.number, static_cast<std::uint32_t>(event.index()) + 1, digest_of(event));
  if (shared_.trace.is_read()) {
    shared_.trace.line(fmt::format("peer-{} {}", node.number, text_of(event)));
  }
  peer::Outbox out;
  node.core->handle(std::move(event), node.clock.at(shared_.agenda.now()), out);
  act(node, out);
  if (node.state != NodeState::running) return;
  shared_.observer->touched(node);
  schedule(node);
}

void Processes::act(Node& node, peer::Outbox& out) {
  const auto take = [&](auto& action) {
    if constexpr (requires { links_.act(node, action); }) {
      links_.act(node, action);
    } else if constexpr (requires { dialing_.act(node, action); }) {
      dialing_.act(node, action);
    } else {
      act(node, action);
    }
  };
  for (peer::Action& action : out) std::visit(take, action);
}

void Processes::act(Node& node, peer::Run& action) {
  note_opening(node, action.job);
  node.worker->submit(std::move(action.job));
  if (!node.working) begin_work(node);
}

void Processes::act(Node& node, const base::LogEntry& action) {
  if (shared_.trace.is_read()) {
    shared_.trace.line(fmt::format("peer-{}   \"{}\"", node.number, action.text));
  }
  shared_.observer->noticed(node, action);
}

void Processes::act(Node& node, const peer::Refused& action) {
  shared_.breaks(
      fmt::format("peer-{} was refused at {}: of one run all are", node.peer, action.address));
}

void Processes::act(Node& node, peer::Finished& action) {
  node.finished = std::move(action);
  shared_.observer->finished(node);
  node.up_seconds += base::seconds(shared_.agenda.now() - node.started);
  node.state = NodeState::finished;
  links_.close_all(node, false);
}

// Both ends identify the link on which they set their mirrors by its connection.
void Processes::note_opening(Node& node, const peer::Job& job) {
  const auto* exchange = std::get_if<exchange::Job>(&job);
  const auto* open = exchange == nullptr ? nullptr : std::get_if<exchange::OpenJob>(exchange);
  if (open == nullptr) return;
  const base::Time local = node.clock.at(shared_.agenda.now());
  for (const auto& neighbour : node.core->membership().neighbours(local)) {
    const auto place = links_.find(node, neighbour.link);
    if (neighbour.peer != open->peer || !place) continue;
    node.worker->ledger().opens_on(open->peer,
                                   (std::uint64_t{place->slot} << 32) | place->generation);
  }
}

void Processes::begin_work(Node& node) {
  if (node.state != NodeState::running || node.working) return;
  const auto takes = node.worker->begin();
  if (!takes) return;
  node.working = true;
  end_work_after(node, base::from_seconds(base::seconds(*takes) / node.speed));
}

void Processes::end_work_after(Node& node, base::Duration delay) {
  node.work_ends = shared_.agenda.now() + delay;
  shared_.agenda.after(delay, Work{node.this_life(), ++node.work});
}

void Processes::happen(const Work& work) {
  Node* const node = shared_.find(work.of);
  if (node == nullptr || node->work != work.serial) return;
  ASSERT(node->state == NodeState::running);
  node->working = false;
  for (peer::Outcome& outcome : node->worker->finish()) {
    const auto* step = std::get_if<peer::StepDone>(&outcome);
    if (step != nullptr) shared_.observer->stepped(*node, step->samples);
    give(*node, std::move(outcome));
    if (shared_.find(work.of) == nullptr) return;
  }
  begin_work(*node);
}

}  // namespace starling::sim
