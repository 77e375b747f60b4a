// libFuzzer: any bytes as events for a whole peer, or for a relay: links, messages, dials,
// circuits, the outcomes of jobs, time. For any events, the core goes on and keeps to its limits,
// says nothing that others refuse, and nothing at all once it has finished.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.hpp"
#include "base/rng.hpp"
#include "data/sharding.hpp"
#include "exchange/replica.hpp"
#include "membership/simulated_signer.hpp"
#include "peer/core.hpp"
#include "peer/learner.hpp"
#include "sim/folder.hpp"
#include "sim/timed_worker.hpp"
#include "tests/fuzz/clock.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/message_source.hpp"

using namespace starling;
using namespace starling::peer;
using exchange::Mode;

namespace {

constexpr std::size_t kOthers = 6;
constexpr std::size_t kLinksMax = 16;
constexpr std::size_t kElements = 32;
constexpr std::size_t kSizeMax = 4096;
constexpr std::uint32_t kBatch = 8;
constexpr std::uint32_t kSamples = 64;
constexpr char kSeenAt[] = "203.0.113.9:4000";

/// Each step moves the replica a little, and is as good as the last.
class StillLearner final : public Learner {
 public:
  base::Result<Trained> step(exchange::Replica& replica, float) override {
    for (float& value : replica.trained()) value += 0.01F;
    return Trained{batch_, 1.0F};
  }
  base::Result<BatchGradient> gradient(exchange::Replica& replica) override {
    gradient_.assign(replica.size(), 0.5F);
    return BatchGradient{{batch_, 1.0F}, gradient_};
  }
  base::Status apply(exchange::Replica& replica, std::span<const float> gradient, float) override {
    const auto y = replica.trained();
    for (std::size_t i = 0; i < y.size(); ++i) y[i] -= 0.01F * gradient[i];
    return {};
  }
  base::Status begin_evaluation(const exchange::Replica&, std::uint32_t) override { return {}; }
  base::Result<std::optional<Evaluated>> evaluate() override {
    return Evaluated{.samples = kSamples, .accuracy = 0.5, .loss = 1.0};
  }
  void set_data(std::vector<std::uint32_t>, std::uint32_t batch) override { batch_ = batch; }

 private:
  std::uint32_t batch_ = kBatch;
  std::vector<float> gradient_;
};

Config peer_config(fuzz::Input& input) {
  constexpr std::array kModes{Mode::tracked,   Mode::tracked, Mode::choco, Mode::dense,
                              Mode::allreduce, Mode::local,   Mode::none};
  Config config{.run = fuzz::kRun,
                .canonical = "run.name = y\n",
                .shared_run_file = input.flag() ? "a run file" : "",
                .parameters_hash = fuzz::kParametersHash,
                .parameter_count = kElements,
                .buffer_count = input.at_most(1) * 2,
                .target_samples = 100 * (1 + input.at_most(9)),
                .secure = !input.rarely(),
                .peers = 2,
                .lan = input.flag(),
                .step_interval = std::chrono::milliseconds(100)};
  config.train.batch = kBatch;
  config.exchange.mode = kModes[input.at_most(kModes.size() - 1)];
  if (config.exchange.mode == Mode::dense) exchange::send_all(config.exchange);
  config.evaluate_every = 64 * input.at_most(2);
  config.checkpoint_every = std::chrono::seconds(10 * input.at_most(2));
  if (input.rarely()) config.target_accuracy = 0.5;
  if (input.rarely()) config.require_peers = std::chrono::seconds(60);
  if (input.flag()) config.membership.join = {fuzz::address_of(1)};
  return config;
}

Config config_of(bool relay, fuzz::Input& input) {
  if (!relay) return peer_config(input);
  return relay_config(input.flag() ? fuzz::kRun : wire::RunId{}, {fuzz::address_of(1)},
                      reach::kRelayConfig);
}

Resume resume_of(fuzz::Input& input) {
  if (!input.rarely()) return {};
  Resume resume{.step = {1 + input.at_most(9)}, .samples = input.at_most(200)};
  resume.progress = static_cast<double>(input.at_most(10)) / 10;
  resume.counters = {{fuzz::id_of(1).prefix(), input.number(99)}};
  resume.addresses = {fuzz::address_of(2), fuzz::address_of(3)};
  return resume;
}

exchange::BufferSpec buffers_of(std::size_t count) {
  return {std::vector<float>(count, 1.0F), std::vector<float>(count, 0.0F)};
}

class World {
 public:
  explicit World(fuzz::Input input)
      : input_(input),
        relay_(input_.at_most(7) == 7),
        config_(config_of(relay_, input_)),
        resume_(resume_of(input_)),
        source_(input_,
                {.others = kOthers, .elements = kElements, .buffers = config_.buffer_count}),
        signer_(fuzz::id_of(0)),
        worker_(std::make_unique<StillLearner>(),
                exchange::make_replica(std::vector<float>(kElements, 1.0F), config_.exchange,
                                       buffers_of(config_.buffer_count)),
                folder_, resume_.step, resume_.samples, std::chrono::milliseconds(50), kBatch),
        core_(config_, fuzz::plain_record(0, !relay_), shards_, resume_, signer_,
              base::Rng(input_.take<std::uint8_t>())) {}

  void run() {
    give(Start{});
    while (!input_.empty() && !finished_ && !clock_.is_over()) {
      step();
      end_what_is_closed();
    }
    look();
  }

 private:
  using Step = void (World::*)();

  struct Link {
    base::PeerId peer;
    base::LinkId via;  ///< over a circuit: the link with the relay
    bool closed = false;
  };
  using Links = std::map<base::LinkId, Link>;
  /// One that the core has opened or relays.
  struct Circuit {
    base::LinkId link;
    std::uint32_t number = 0;
    base::PeerId peer;
    bool dialer = false;
    bool relayed = false;
    base::LinkId other{};  ///< relayed: the other leg
    base::LinkId up{};     ///< the link over it
  };

  void step() {
    constexpr std::array<Step, 16> kSteps{
        &World::link_up, &World::link_up,   &World::receive,       &World::answer,
        &World::answer,  &World::answer,    &World::answer,        &World::answer,
        &World::work,    &World::work,      &World::work,          &World::pass_a_little,
        &World::pass,    &World::link_down, &World::circuit_steps, &World::something_else};
    (this->*kSteps[input_.at_most(kSteps.size() - 1)])();
  }
  void something_else() {
    constexpr std::array<Step, 9> kSteps{
        &World::dial_failed, &World::found, &World::moved, &World::arriving, &World::unreadable,
        &World::checkpoint,  &World::disk,  &World::jump,  &World::leave};
    (this->*kSteps[input_.at_most(kSteps.size() - 1)])();
  }

  Links::iterator any_link() {
    return std::next(links_.begin(),
                     static_cast<std::ptrdiff_t>(input_.at_most(links_.size() - 1)));
  }
  base::LinkId new_link(const base::PeerId& peer, base::LinkId via) {
    const base::LinkId link{++last_link_, 1};
    links_[link] = {.peer = peer, .via = via};
    return link;
  }

  void link_up() {
    if (links_.size() >= kLinksMax) return;
    const std::size_t from = input_.rarely() ? 0 : source_.other();
    LinkUp up{.peer = fuzz::id_of(from), .address = kSeenAt, .observed = kSeenAt};
    up.dialed = !dials_.empty() && input_.flag();
    if (up.dialed) up.address = take_dial();
    up.link = new_link(up.peer, {});
    greet(up, from);
  }
  // With the Hello that is due from its other end, and sometimes another one.
  void greet(const LinkUp& up, std::size_t from) {
    give(up);
    if (from == 0 || input_.at_most(7) == 7) return;
    take(up.link, source_.hello(input_.rarely() ? source_.other() : from));
    if (input_.flag()) take(up.link, wire::Neighbour{wire::NeighbourKind::urgent_request});
  }
  std::string take_dial() {
    const std::size_t at = input_.at_most(dials_.size() - 1);
    std::swap(dials_[at], dials_.back());
    std::string address = std::move(dials_.back());
    dials_.pop_back();
    return address;
  }
  void dial_failed() {
    if (dials_.empty()) return;
    give(DialFailed{.address = take_dial(),
                    .text = "no answer",
                    .own = input_.rarely(),
                    .no_route = input_.at_most(7) == 7,
                    .turned_away = input_.rarely()});
  }
  void link_down() {
    if (!links_.empty()) end(any_link()->first, any_reason());
  }
  membership::LossReason any_reason() {
    return input_.one_from(membership::LossReason::reset, membership::LossReason::relay);
  }
  // Links over a link end after it.
  void end(base::LinkId link, membership::LossReason reason) {
    if (links_.erase(link) == 1) give(LinkDown{link, reason, "gone"});
    while (true) {
      const auto over = std::ranges::find_if(circuits_, [&](const Circuit& circuit) {
        return circuit.link == link || (circuit.relayed && circuit.other == link);
      });
      if (over == circuits_.end()) return;
      end_circuit(over);
    }
  }

  void receive() {
    if (links_.empty()) return;
    const auto [link, state] = *any_link();
    take(link, source_.any(state.peer));
  }
  void answer() {
    if (said_.empty()) return;
    const Send send = std::move(said_.front());
    said_.erase(said_.begin());
    const auto link = links_.find(send.link);
    if (link == links_.end()) return;
    if (const auto message = source_.answer(link->second.peer, send.message)) {
      take(send.link, *message);
    }
  }
  void take(base::LinkId link, const wire::Message& message) {
    const auto found = links_.find(link);
    if (found == links_.end() || found->second.closed) return;
    if (auto taken = fuzz::over_the_wire(message)) give(Received{link, std::move(*taken)});
  }
  void arriving() {
    if (links_.empty()) return;
    give(Arriving{any_link()->first, input_.take<std::uint8_t>(), 1024 * input_.at_most(255)});
  }
  void unreadable() {
    if (!links_.empty() && input_.at_most(3) == 3) {
      give(Unreadable{any_link()->first, "no message"});
    }
  }

  void circuit_steps() {
    if (circuits_.empty()) return;
    const auto at =
        circuits_.begin() + static_cast<std::ptrdiff_t>(input_.at_most(circuits_.size() - 1));
    if (input_.at_most(3) == 3) return end_circuit(at);
    if (at->relayed || at->up.valid() || links_.size() >= kLinksMax) return;
    const LinkUp up{.link = new_link(at->peer, at->link),
                    .peer = at->peer,
                    .dialed = at->dialer,
                    .address = "",
                    .via = at->link};
    at->up = up.link;
    greet(up, at->peer.bytes[0] - std::size_t{1});
  }
  void end_circuit(std::vector<Circuit>::iterator at) {
    const Circuit circuit = *at;
    circuits_.erase(at);
    if (circuit.up.valid()) end(circuit.up, membership::LossReason::reset);
    const bool second = circuit.relayed && input_.flag();
    give(CircuitEnded{circuit.link, circuit.number, second ? 9U : 0U});
  }

  void found() { give(Found{fuzz::id_of(source_.other()), source_.address()}); }
  void moved() { give(Moved{{source_.address()}, wire::Reachability::unknown}); }
  void checkpoint() { give(Checkpoint{}); }
  void disk() { folder_.full = input_.rarely(); }
  void leave() {
    if (input_.at_most(7) == 7) give(Leave{});
  }

  void jump() { clock_.jump(base::from_seconds(input_.take<std::uint8_t>())); }
  void pass_a_little() { pass(0.02 * input_.take<std::uint8_t>()); }
  void pass() { pass(1.0 * input_.take<std::uint8_t>()); }
  void pass(double seconds) {
    clock_.pass(core_, base::from_seconds(seconds), [this] {
      Outbox out;
      core_.expire(clock_.now(), out);
      act(out);
      end_what_is_closed();
    });
  }

  // A job that was begun takes until this is called again.
  void work() {
    if (!std::exchange(busy_, false)) {
      busy_ = worker_.begin().has_value();
      return;
    }
    for (Outcome& outcome : worker_.finish()) give(std::move(outcome));
    ASSERT(worker_.ledger().breach().empty(), "exchanges keep to their rules");
  }

  void give(Event event) {
    if (finished_) return;
    Outbox out;
    core_.handle(std::move(event), clock_.now(), out);
    act(out);
  }
  void act(Outbox& out) {
    for (Action& action : out) {
      ASSERT(!finished_, "nothing follows the end");
      std::visit([this](auto& value) { perform(value); }, action);
    }
    base::Bounds bounds;
    core_.add_bounds(bounds);
    core_.add_timers(clock_.now(), bounds);
    worker_.add_bounds(bounds);
    fuzz::require(bounds);
  }

  void perform(Dial& dial) { dials_.push_back(std::move(dial.address)); }
  void perform(Send& send) {
    const auto message = fuzz::over_the_wire(send.message);
    ASSERT(message.has_value(), "others take what it says");
    const auto link = links_.find(send.link);
    if (link == links_.end()) return;  // it may have ended a moment ago
    source_.note(link->second.peer, send.message);
    said_.push_back(std::move(send));
    if (said_.size() > 4 * kLinksMax) said_.erase(said_.begin());
  }
  void perform(const Accept& accept) { ASSERT(accept.link.valid()); }
  void perform(const Close& close) {
    if (const auto link = links_.find(close.link); link != links_.end()) link->second.closed = true;
  }
  void perform(Run& run) { worker_.submit(std::move(run.job)); }
  void perform(const base::LogEntry& said) { ASSERT(!said.text.empty()); }
  void perform(const Report&) { look(); }
  void perform(const Remember& remember) {
    ASSERT(remember.addresses.size() <= membership::kRememberedMax);
  }
  void perform(const Refused& refused) { ASSERT(!refused.canonical.empty()); }
  void perform(const Finished&) { finished_ = true; }
  void perform(const OpenCircuit& open) {
    circuits_.push_back(
        {.link = open.link, .number = open.number, .peer = open.peer, .dialer = open.dialer});
  }
  void perform(const Relay& relay) {
    circuits_.push_back(
        {.link = relay.a, .number = relay.number_a, .relayed = true, .other = relay.b});
  }
  void perform(const EndCircuit& end) { ended_.push_back(end); }

  // Links that the core closed or ended are over a moment later.
  void end_what_is_closed() {
    for (const EndCircuit& end : std::exchange(ended_, {})) {
      const auto at = std::ranges::find_if(circuits_, [&](const Circuit& circuit) {
        return circuit.link == end.link && circuit.number == end.number;
      });
      if (at != circuits_.end()) end_circuit(at);
    }
    const Links links = links_;
    for (const auto& [link, state] : links) {
      if (state.closed) end(link, membership::LossReason::closed);
    }
  }

  void look() const { static_cast<void>(core_.status(clock_.now())); }

  fuzz::Input input_;
  bool relay_;
  Config config_;
  Resume resume_;
  fuzz::MessageSource source_;
  fuzz::Clock clock_;
  membership::SimulatedSigner signer_;
  const data::Shards shards_{kSamples, {}, {}, 1};
  sim::Folder folder_;
  sim::TimedWorker worker_;
  Links links_;
  std::vector<std::string> dials_;
  std::vector<Circuit> circuits_;
  std::vector<EndCircuit> ended_;
  std::vector<Send> said_;  ///< that is not answered yet
  std::uint32_t last_link_ = 0;
  bool busy_ = false;  ///< the worker has begun something
  bool finished_ = false;
  Core core_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size <= kSizeMax) World(fuzz::Input(data, size)).run();
  return 0;
}
