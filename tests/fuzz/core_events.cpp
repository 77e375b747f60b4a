// libFuzzer: any bytes as what happens to a peer: links, messages of others, failed dials, time.
// Whatever comes, the core goes on, keeps to its bounds, and answers a Finished with nothing more.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.hpp"
#include "base/bound.hpp"
#include "base/rng.hpp"
#include "data/sharding.hpp"
#include "exchange/replica.hpp"
#include "membership/record.hpp"
#include "membership/simulated_signer.hpp"
#include "peer/core.hpp"
#include "tests/fuzz/input.hpp"

using namespace starling;

namespace {

constexpr std::size_t kOthers = 6;
constexpr std::size_t kLinksMax = 16;
constexpr std::size_t kElements = 32;
constexpr std::size_t kItemsMax = 4;

base::PeerId id_of(std::size_t number) {
  base::PeerId id;
  id.bytes.fill(static_cast<std::uint8_t>(number + 1));
  return id;
}

peer::Config config_of(bool relay) {
  if (relay) return peer::relay_config({}, {"peer-1:1"}, reach::kRelayConfig);
  peer::Config config;
  config.run.bytes.fill(7);
  config.canonical = "run";
  config.shared_run_file = "run file";
  config.parameters_hash = 7;
  config.parameter_count = kElements;
  config.target_samples = 100'000;
  config.step_interval = std::chrono::milliseconds(100);
  config.membership.join = {"peer-1:1"};
  return config;
}

/// A peer, and whoever says to it what the input has.
class World {
 public:
  explicit World(fuzz::Input input)
      : input_(input),
        relay_(input_.flag()),
        signer_(id_of(0)),
        config_(config_of(relay_)),
        replica_(exchange::make_replica(std::vector<float>(kElements, 1.0F), config_.exchange, {})),
        core_(config_, record_of(0), shards_, {}, signer_, base::Rng(input_.take<std::uint8_t>())) {
  }

  void run() {
    give(peer::Start{});
    while (!input_.empty() && !finished_) {
      step();
      do_what_is_asked();
    }
  }

 private:
  wire::MemberRecord record_of(std::size_t number) {
    wire::MemberRecord record{.id = id_of(number),
                              .name = "peer-" + std::to_string(number),
                              .addresses = {record_address(number)},
                              .incarnation = 1,
                              .has_replica = number == 0 ? !relay_ : number != 1};
    if (number != 0) {
      record.incarnation = input_.at_most(3);
      record.reach = static_cast<wire::Reachability>(input_.at_most(2));
      record.weight = static_cast<float>(input_.at_most(2));
      if (input_.at_most(15) == 0) record.state = static_cast<wire::MemberState>(input_.at_most(3));
    }
    membership::SimulatedSigner signer(record.id);
    membership::sign(record, signer);
    if (number != 0 && input_.at_most(31) == 0) record.signature[0] ^= 1U;
    return record;
  }
  static std::string record_address(std::size_t number) {
    return "peer-" + std::to_string(number) + ":1";
  }
  std::size_t other() { return 1 + input_.at_most(kOthers - 1); }
  std::uint64_t prefix() { return id_of(input_.at_most(kOthers)).prefix(); }
  base::LinkId link() {
    if (links_.empty()) return {99, 1};
    return links_[input_.at_most(links_.size() - 1)].first;
  }
  base::Buffer payload() {
    const base::ByteView bytes = input_.take_bytes(input_.at_most(200));
    return {bytes.begin(), bytes.end()};
  }

  wire::Gossip gossip() {
    wire::Gossip message;
    for (std::size_t i = input_.at_most(kItemsMax); i > 0; --i) {
      message.members.push_back(record_of(input_.flag() ? other() : 0));
    }
    for (std::size_t i = input_.at_most(kItemsMax); i > 0; --i) {
      message.claims.push_back({.subject = prefix(),
                                .by = prefix(),
                                .incarnation = input_.at_most(3),
                                .state = static_cast<wire::MemberState>(1 + input_.at_most(1)),
                                .reason = static_cast<wire::DeathReason>(input_.at_most(4))});
    }
    return message;
  }

  wire::Heartbeat heartbeat() {
    wire::Heartbeat message{.sequence = input_.take<std::uint8_t>(),
                            .echo = input_.take<std::uint8_t>(),
                            .echo_age_us = input_.take<std::uint32_t>(),
                            .table_hash = input_.take<std::uint8_t>(),
                            .progress = {}};
    for (std::size_t i = input_.at_most(kItemsMax); i > 0; --i) {
      message.progress.push_back({.id_prefix = prefix(),
                                  .samples = input_.take<std::uint64_t>(),
                                  .rate = static_cast<float>(input_.take<std::uint16_t>()),
                                  .age_ms = input_.take<std::uint16_t>(),
                                  .links = input_.take<std::uint8_t>()});
    }
    return message;
  }

  wire::Reconcile reconcile() {
    wire::Reconcile message{.bits = static_cast<std::uint8_t>(input_.at_most(2))};
    if (input_.flag()) message.hashes.assign(std::size_t{1} << message.bits, input_.at_most(1));
    if (input_.flag()) message.buckets.push_back(0);
    for (std::size_t i = input_.at_most(kItemsMax); i > 0; --i) {
      message.entries.push_back({prefix(), input_.take<std::uint32_t>()});
      message.wanted.push_back(prefix());
    }
    return message;
  }

  wire::Message message() {
    switch (input_.at_most(15)) {
      case 0:
        return wire::Hello{.run = input_.at_most(7) == 0 ? wire::RunId{} : config_of(false).run,
                           .parameters_hash = 7,
                           .self = record_of(other()),
                           .answers = input_.at_most(2)};
      case 1:
        return wire::Refuse{static_cast<wire::RefuseReason>(input_.flag() ? 1 : 4), "no", ""};
      case 2:
        return wire::Neighbour{static_cast<wire::NeighbourKind>(1 + input_.at_most(4))};
      case 3:
        return gossip();
      case 4:
        return heartbeat();
      case 5:
        return reconcile();
      case 6:
        return wire::LinkOpen{.nonce = input_.at_most(3),
                              .samples = input_.take<std::uint16_t>(),
                              .progress = static_cast<double>(input_.at_most(10)) / 10,
                              .may_adopt = input_.flag(),
                              .session = input_.at_most(3),
                              .committed = {input_.at_most(3)}};
      case 7:
        return wire::Keyframe{.samples = input_.take<std::uint16_t>(), .payload = payload()};
      case 8:
        return wire::Delta{.exchange = {input_.at_most(3)},
                           .samples = input_.take<std::uint16_t>(),
                           .mirror_hash = {},
                           .settled = input_.flag(),
                           .payload = payload()};
      case 9:
        return wire::Bye{static_cast<wire::ByeReason>(input_.at_most(6)), "bye"};
      case 10:
        return input_.flag() ? wire::Message(wire::RunFileRequest{}) : wire::RunFileReply{"text"};
      case 11:
        return wire::DialBack{input_.at_most(3), 1};
      case 12:
        return wire::DialedBack{input_.at_most(3),
                                static_cast<wire::DialBackOutcome>(1 + input_.at_most(2)),
                                "192.0.2.1:7"};
      case 13:
        return wire::Introduce{.kind = static_cast<wire::IntroduceKind>(1 + input_.at_most(3)),
                               .passed_on = input_.flag(),
                               .nonce = input_.at_most(3),
                               .other = id_of(input_.at_most(kOthers)),
                               .observed = "192.0.2.2:8",
                               .load = input_.take<std::uint8_t>()};
      case 14:
        return wire::Circuit{.kind = static_cast<wire::CircuitKind>(1 + input_.at_most(3)),
                             .number = static_cast<std::uint32_t>(input_.at_most(3)),
                             .other = id_of(input_.at_most(kOthers)),
                             .reason = static_cast<wire::CircuitRefusal>(input_.at_most(5))};
      default:
        return wire::Reduce{.step = {1}, .payload = payload()};
    }
  }

  void link_up() {
    if (links_.size() == kLinksMax) return;
    const std::size_t from = input_.at_most(kOthers);  // 0: another process with its key
    const bool dialed = !dials_.empty() && input_.flag();
    const base::LinkId link{++last_link_, 1};
    std::string address = "203.0.113.9:4000";
    if (dialed) {
      address = dials_.front();
      dials_.erase(dials_.begin());
    }
    const bool over = !dialed && !links_.empty() && input_.at_most(7) == 0;
    links_.emplace_back(link, id_of(from));
    give(peer::LinkUp{.link = link,
                      .peer = id_of(from),
                      .dialed = dialed,
                      .address = address,
                      .observed = over ? "" : "203.0.113.9:4000",
                      .via = over ? links_.front().first : base::LinkId{}});
    // As a peer that keeps to the protocol.
    if (from != 0 && input_.at_most(3) != 0) {
      wire::Hello hello{.run = config_of(false).run, .parameters_hash = 7, .self = record_of(from)};
      give(peer::Received{link, std::move(hello)});
      if (input_.flag()) {
        give(peer::Received{link, wire::Neighbour{wire::NeighbourKind::urgent_request}});
      }
    }
  }

  void link_down(base::LinkId link, membership::LossReason reason) {
    const auto known =
        std::ranges::find(links_, link, &std::pair<base::LinkId, base::PeerId>::first);
    if (known == links_.end()) return;
    links_.erase(known);
    give(peer::LinkDown{link, reason, "gone"});
  }

  void step() {
    switch (input_.at_most(9)) {
      case 0:
      case 1:
        return link_up();
      case 2:
        return link_down(
            link(), input_.flag() ? membership::LossReason::reset : membership::LossReason::closed);
      case 3:
        if (dials_.empty()) return;
        give(peer::DialFailed{.address = std::exchange(dials_.front(), dials_.back()),
                              .text = "no answer",
                              .own = input_.at_most(7) == 0,
                              .no_route = input_.at_most(7) == 0});
        return dials_.pop_back();
      case 4:
        return pass(base::from_seconds(0.01 * input_.take<std::uint8_t>()));
      case 5:
        return pass(base::from_seconds(1.0 * input_.take<std::uint8_t>()));
      case 6:
        if (const std::size_t what = input_.at_most(63); what == 0) return give(peer::Leave{});
        if (input_.flag())
          return give(peer::Moved{{record_address(0)}, wire::Reachability::unknown});
        return give(membership::Found{id_of(other()), record_address(other())});
      default:
        return give(peer::Received{link(), message()});
    }
  }

  void pass(base::Duration time) {
    const base::Time end = now_ + time;
    while (!finished_) {
      const auto due = core_.next_deadline();
      if (!due || *due > end) break;
      now_ = std::max(now_, *due);
      peer::Outbox out;
      core_.expire(now_, out);
      act(out);
      do_what_is_asked();
    }
    now_ = end;
  }

  void give(peer::Event event) {
    if (finished_) return;
    peer::Outbox out;
    core_.handle(std::move(event), now_, out);
    act(out);
  }

  void act(peer::Outbox& out) {
    for (peer::Action& action : out) {
      ASSERT(!finished_, "nothing follows the end");
      if (const auto* dial = std::get_if<peer::Dial>(&action)) dials_.push_back(dial->address);
      if (const auto* close = std::get_if<peer::Close>(&action)) closed_.push_back(close->link);
      if (auto* run = std::get_if<peer::Run>(&action)) jobs_.push_back(std::move(run->job));
      if (std::holds_alternative<peer::Finished>(action)) finished_ = true;
    }
    base::Bounds bounds;
    core_.add_bounds(bounds);
    core_.add_timers(now_, bounds);
    ASSERT(!bounds.broken(), "more is kept, or waits longer, than a limit says");
  }

  void do_what_is_asked() {
    while (!finished_ && (!closed_.empty() || !jobs_.empty())) {
      for (const base::LinkId link : std::exchange(closed_, {})) {
        link_down(link, membership::LossReason::closed);
      }
      for (const peer::Job& job : std::exchange(jobs_, {})) work(job);
    }
  }

  void work(const peer::Job& job) {
    if (std::holds_alternative<peer::StepJob>(job)) {
      ++step_;
      give(peer::Outcome(peer::StepDone{.step = step_, .samples = 64, .loss = 1}));
    } else if (std::holds_alternative<peer::EvaluateJob>(job)) {
      give(peer::Outcome(peer::Evaluated{.samples = 1, .whole = true, .accuracy = 0.5, .loss = 1}));
    } else if (std::holds_alternative<peer::SaveJob>(job)) {
      give(peer::Outcome(peer::Saved{step_, {}}));
    } else if (const auto* exchanged = std::get_if<exchange::Job>(&job)) {
      if (auto outcome = exchange::run(*exchanged, replica_, step_)) {
        give(peer::Outcome(std::move(*outcome)));
      }
    }
  }

  fuzz::Input input_;
  bool relay_;
  membership::SimulatedSigner signer_;
  peer::Config config_;
  const data::Shards shards_{64, {}, {}, 1};
  exchange::Replica replica_;
  base::StepNumber step_;
  base::Time now_{std::chrono::seconds(1)};
  std::vector<std::pair<base::LinkId, base::PeerId>> links_;
  std::uint32_t last_link_ = 0;
  std::vector<std::string> dials_;
  std::vector<base::LinkId> closed_;
  std::vector<peer::Job> jobs_;
  bool finished_ = false;
  peer::Core core_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4 || size > 4096) return 0;
  World(fuzz::Input(data, size)).run();
  return 0;
}
