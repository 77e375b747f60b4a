// libFuzzer: any bytes as events for a peer's exchange: neighbours, their messages, steps, the
// outcomes of jobs on a real replica, which may fail. For any events, it keeps to its limits, names
// links that the replica has, and says nothing that others refuse.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.hpp"
#include "base/rng.hpp"
#include "exchange/core.hpp"
#include "exchange/job_queue.hpp"
#include "exchange/replica.hpp"
#include "tests/fuzz/clock.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/message_source.hpp"

using namespace starling;
using namespace starling::exchange;

namespace {

constexpr std::size_t kOthers = 12;  // more than may be in grace
constexpr std::size_t kElements = 32;
constexpr std::size_t kSizeMax = 4096;
constexpr std::uint64_t kTarget = 1000;

Config config_of(fuzz::Input& input) {
  constexpr std::array kModes{Mode::tracked, Mode::choco, Mode::dense};
  Config config{.mode = kModes[input.at_most(kModes.size() - 1)]};
  if (config.mode == Mode::dense) send_all(config);
  if (config.mode == Mode::tracked && input.flag()) config.momentum = 0.5;
  if (input.flag()) config.mirror = MirrorType::bfloat16;
  if (input.flag()) config.upload_limit = 0.001;
  if (input.flag()) config.cpu_share = 0.1;
  config.hash_every = static_cast<std::uint32_t>(1 + input.at_most(3));
  config.buffers_every = static_cast<std::uint32_t>(1 + input.at_most(3));
  return config;
}

Options options_of(fuzz::Input& input) {
  Options options{.config = config_of(input), .elements = kElements, .samples_target = kTarget};
  options.buffers = input.at_most(2);
  options.has_state = input.flag();
  if (!options.has_state) return options;
  options.step = {input.at_most(9)};
  options.samples = input.at_most(255);
  options.progress = static_cast<double>(input.at_most(10)) / 10;
  return options;
}

BufferSpec buffers_of(std::size_t count) {
  return {std::vector<float>(count, 1.0F), std::vector<float>(count, 0.0F)};
}

class World {
 public:
  explicit World(fuzz::Input input)
      : input_(input),
        options_(options_of(input_)),
        source_(input_, {.others = kOthers, .elements = kElements, .buffers = options_.buffers}),
        replica_(make_replica(std::vector<float>(kElements, 1.0F), options_.config,
                              buffers_of(options_.buffers))),
        step_(options_.step),
        samples_(options_.samples),
        progress_(options_.progress),
        core_(options_, base::Rng(input_.take<std::uint8_t>())) {}

  void run() {
    while (!input_.empty() && !failed_ && !clock_.is_over()) step();
  }

 private:
  using Step = void (World::*)();

  void step() {
    constexpr std::array<Step, 15> kSteps{
        &World::neighbour_up, &World::neighbour_up, &World::neighbour_down, &World::answer,
        &World::answer,       &World::answer,       &World::answer,         &World::work,
        &World::work,         &World::tell,         &World::tell,           &World::tell,
        &World::make_step,    &World::pass,         &World::something_else};
    (this->*kSteps[input_.at_most(kSteps.size() - 1)])();
  }
  void something_else() {
    constexpr std::array<Step, 8> kSteps{
        &World::receive,   &World::company,    &World::begin_settling, &World::arriving,
        &World::pass_long, &World::fail_a_job, &World::hand_over,      &World::vouch};
    (this->*kSteps[input_.at_most(kSteps.size() - 1)])();
  }

  base::PeerId neighbour() {
    return *std::next(neighbours_.begin(),
                      static_cast<std::ptrdiff_t>(input_.at_most(neighbours_.size() - 1)));
  }
  void neighbour_up() {
    const bool returns = input_.flag() && lost_;
    const base::PeerId peer = returns ? *lost_ : fuzz::id_of(source_.other());
    neighbours_.insert(peer);  // a link may take another one's place
    give(NeighbourUp{peer});
  }
  void neighbour_down() {
    if (neighbours_.empty() || input_.flag()) return;
    const base::PeerId peer = neighbour();
    neighbours_.erase(peer);
    lost_ = peer;
    give(NeighbourDown{peer, input_.at_most(3) == 3});
  }
  void receive() {
    if (neighbours_.empty()) return;
    const base::PeerId peer = neighbour();
    take(peer, source_.of_exchange(peer));
  }
  void answer() {
    if (said_.empty()) return;
    const Send send = std::move(said_.front());
    said_.pop_front();
    if (!neighbours_.contains(send.peer)) return;
    if (const auto message = source_.answer(send.peer, send.message)) take(send.peer, *message);
  }
  void take(const base::PeerId& peer, const wire::Message& message) {
    auto taken = fuzz::over_the_wire(message);
    if (!taken) return;
    const base::Duration took = std::chrono::milliseconds(input_.at_most(3));
    if (auto* delta = std::get_if<wire::Delta>(&*taken)) {
      give(Received{peer, std::move(*delta), took});
    } else if (auto* open = std::get_if<wire::LinkOpen>(&*taken)) {
      give(Received{peer, *open, took});
    } else if (auto* settle = std::get_if<wire::Settle>(&*taken)) {
      give(Received{peer, *settle, took});
    } else if (auto* keyframe = std::get_if<wire::Keyframe>(&*taken)) {
      give(Received{peer, std::move(*keyframe), took});
    }
  }
  void arriving() {
    if (!neighbours_.empty()) give(KeyframeArriving{neighbour(), 1024 * input_.at_most(255)});
  }

  void make_step() {
    if (phase_ != Phase::training) return;
    ++step_;
    samples_ += input_.at_most(32);
    for (float& value : replica_.trained()) value += 0.01F;
    if (input_.at_most(7) == 7) progress_ = static_cast<double>(input_.at_most(20)) / 20;
    give(Progressed{step_, samples_, progress_, std::chrono::milliseconds(input_.at_most(9))});
  }
  void vouch() {
    if (neighbours_.empty()) return;
    give(Vouched{neighbour(), input_.take<std::uint32_t>()});
  }
  void company() { give(Company{input_.flag()}); }
  // A peer says no more than that: once it has settled it ends.
  void begin_settling() {
    if (input_.at_most(7) != 7) return;
    phase_ = Phase::settling;
    give(phase_);
  }
  void pass() { pass(0.02 * input_.take<std::uint8_t>()); }
  void pass_long() { pass(2.0 * input_.take<std::uint8_t>()); }
  void pass(double seconds) {
    clock_.pass(core_, base::from_seconds(seconds), [this] {
      Outbox out;
      core_.expire(clock_.now(), out);
      act(out);
    });
  }

  // Jobs go to the replica's owner, wait there, are run, and their outcomes go back: all of this
  // takes time, and other events happen meanwhile.
  void hand_over() {
    if (port_.empty()) return;
    Job job = std::move(port_.front());
    port_.pop_front();
    queue_.push(std::move(job));
  }
  void work() {
    while (!port_.empty()) hand_over();
    const std::vector<Job> due = queue_.take(step_);
    for (Outcome& outcome : run_batch(due, replica_, step_))
      outcomes_.push_back(std::move(outcome));
    ASSERT(replica_.status().has_value(), "the processor's memory does not fail");
  }
  void tell() {
    if (outcomes_.empty()) return;
    Outcome outcome = std::move(outcomes_.front());
    outcomes_.pop_front();
    std::visit([this](auto& done) { take_time(done); }, outcome);
    give(event_of(std::move(outcome)));
  }
  template <class Done>
  void take_time(Done& done) {
    if constexpr (requires { done.took; }) {
      done.took = std::chrono::milliseconds(input_.at_most(2));
    }
  }

  /// Like a device without room for a job: it changes nothing.
  void fail_a_job() {
    while (!port_.empty()) hand_over();
    const std::vector<Job> due = queue_.take(step_);
    for (const Job& job : due) {
      auto outcome = failure_of(job);
      if (!outcome) outcome = exchange::run(job, replica_, step_);
      if (outcome) outcomes_.push_back(std::move(*outcome));
    }
  }
  static std::optional<Outcome> failure_of(const Job& job) {
    const base::Error error{base::ErrorCode::no_room, "no room"};
    if (const auto* encode = std::get_if<EncodeJob>(&job)) {
      return Encoded{.peer = encode->peer,
                     .tag = encode->tag,
                     .exchange = encode->exchange,
                     .status = base::fail(error)};
    }
    if (const auto* commit = std::get_if<CommitJob>(&job)) {
      return Committed{.peer = commit->peer,
                       .tag = commit->tag,
                       .exchange = commit->exchange,
                       .result = CommitResult::failed,
                       .error = error,
                       .again = *commit};
    }
    if (const auto* open = std::get_if<OpenJob>(&job)) {
      return Opened{open->peer, open->tag, base::fail(error), *open};
    }
    return std::nullopt;
  }

  void give(Event event) {
    if (failed_) return;
    Outbox out;
    core_.handle(std::move(event), clock_.now(), out);
    act(out);
  }
  void act(Outbox& out) {
    for (Action& action : out) {
      std::visit([this](auto& value) { perform(value); }, action);
    }
    // The peer ends a link at once if requested.
    for (const base::PeerId& peer : std::exchange(banned_, {})) {
      if (neighbours_.erase(peer) == 1) give(NeighbourDown{peer, true});
    }
    require_bounds();
  }
  void require_bounds() const {
    base::Bounds bounds;
    core_.add_bounds(neighbours_.size(), bounds);
    core_.add_timers(clock_.now(), bounds);
    fuzz::require(bounds);
    ASSERT(core_.open_links() <= neighbours_.size());
    ASSERT(core_.links().size() <= neighbours_.size() + kGraceLinksMax);
  }

  void perform(Send& send) {
    ASSERT(neighbours_.contains(send.peer), "it speaks with neighbours");
    ASSERT(fuzz::over_the_wire(send.message).has_value(), "others take what it says");
    source_.note(send.peer, send.message);
    said_.push_back(std::move(send));
    if (said_.size() > 2 * kOthers) said_.pop_front();
  }
  void perform(Run& run) {
    const base::PeerId peer = peer_of(run.job);
    if (!make_room(port_, run.job, [](const Job& job) { return &job; })) return;
    port_.push_back(std::move(run.job));
    const auto waiting = std::ranges::count(port_, peer, peer_of);
    ASSERT(waiting <= static_cast<std::ptrdiff_t>(kLinkJobsMax), "a link's jobs are few");
  }
  void perform(const Misbehaved& who) { banned_.push_back(who.peer); }
  void perform(const NoRoom& who) { banned_.push_back(who.peer); }
  void perform(const Settled&) {
    ASSERT(!std::exchange(settled_, true), "it settles once");
    ASSERT(phase_ == Phase::settling, "it settles in its time");
  }
  void perform(const base::LogEntry& said) { ASSERT(!said.text.empty()); }
  void perform(const Failed& failed) {
    ASSERT(failed.error.code == base::ErrorCode::diverged, "nothing else can end this peer");
    failed_ = true;
  }

  fuzz::Input input_;
  Options options_;
  fuzz::MessageSource source_;
  fuzz::Clock clock_;
  Replica replica_;
  base::StepNumber step_;
  std::uint64_t samples_;
  double progress_;
  Phase phase_ = Phase::training;
  std::set<base::PeerId> neighbours_;
  std::optional<base::PeerId> lost_;  ///< the last one
  std::vector<base::PeerId> banned_;
  std::deque<Send> said_;  ///< that is not answered yet
  std::deque<Job> port_;
  JobQueue queue_;
  std::deque<Outcome> outcomes_;
  bool settled_ = false;
  bool failed_ = false;
  Core core_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size <= kSizeMax) World(fuzz::Input(data, size)).run();
  return 0;
}
