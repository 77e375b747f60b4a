// The parts of one peer, to test one of them beside the real others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/rng.hpp"
#include "data/sharding.hpp"
#include "membership/simulated_signer.hpp"
#include "peer/agreement.hpp"
#include "peer/known_addresses.hpp"
#include "peer/lifecycle.hpp"
#include "peer/links.hpp"
#include "peer/neighbours.hpp"
#include "peer/saving.hpp"
#include "peer/training.hpp"
#include "peer/whole.hpp"

namespace starling::peer::testing {

inline constexpr base::Time kBenchBegin{std::chrono::seconds(100)};

[[nodiscard]] inline base::PeerId bench_peer(std::uint8_t number) {
  base::PeerId id;
  id.bytes.fill(number);
  return id;
}

[[nodiscard]] inline wire::MemberRecord bench_record(std::uint8_t number, bool has_replica = true) {
  return {.id = bench_peer(number),
          .name = "peer",
          .addresses = {"10.0.0.1:1"},
          .incarnation = 1,
          .has_replica = has_replica};
}

/// A run of 100 samples in steps of 8, of one peer that waits for nobody and exchanges nothing.
[[nodiscard]] inline Config bench_config() {
  Config config{.canonical = "run.name = \"x\"\n", .parameter_count = 4, .target_samples = 100};
  config.exchange.mode = exchange::Mode::none;
  config.train.batch = 8;
  return config;
}

/// Peer 1, whose parts reach each other as far as they know each other; what they hand to the whole
/// is written down.
class Bench final : public Whole {
 public:
  explicit Bench(Config settings = bench_config(), bool relays = false)
      : config(std::move(settings)),
        signer(bench_peer(1)),
        rng(1),
        shards(64, {}, {.shards = 4}, 1),
        membership(config.membership, bench_record(1, !relays), signer, rng.fork()),
        agreement(config, membership, {}, rng),
        reach(config.relay, bench_peer(1), {"10.0.0.1:1"}, true, rng.fork()),
        known({"given:1"}, {}),
        links({.config = config,
               .reach = reach,
               .agreement = agreement,
               .neighbours = neighbours,
               .membership = membership,
               .known = known,
               .whole = *this}),
        training(config, shards, membership, agreement, {}),
        saving(config, membership, training, agreement, known),
        lifecycle({.config = config,
                   .neighbours = neighbours,
                   .reach = reach,
                   .membership = membership,
                   .agreement = agreement,
                   .training = training,
                   .saving = saving,
                   .whole = *this}) {}

  void to_membership(membership::Event event, base::Time, Outbox&) override {
    for_membership.push_back(event);
  }
  void to_reach(const reach::Event& event, base::Time, Outbox&) override {
    for_reach.push_back(event);
  }
  void to_agreement(Agreement::Event event, base::Time, Outbox&) override {
    for_agreement.push_back(std::move(event));
  }
  reach::Answered answered(const std::string&, const base::PeerId&, base::Time, Outbox&) override {
    return {};
  }
  void end(Finished finished, base::Time now, Outbox& actions) override {
    lifecycle.end(std::move(finished), now, actions);
  }
  [[nodiscard]] Phase phase() const noexcept override { return lifecycle.phase(); }

  /// How many of the actions so far are of this kind.
  template <class Kind>
  [[nodiscard]] std::size_t count() const {
    std::size_t count = 0;
    for (const Action& action : out) count += std::holds_alternative<Kind>(action) ? 1 : 0;
    return count;
  }
  template <class Kind>
  [[nodiscard]] std::size_t jobs() const {
    std::size_t count = 0;
    for (const Action& action : out) {
      const auto* run = std::get_if<Run>(&action);
      if (run && std::holds_alternative<Kind>(run->job)) ++count;
    }
    return count;
  }
  /// The links on which a message of this kind was sent, in order.
  template <class Kind>
  [[nodiscard]] std::vector<base::LinkId> told() const {
    std::vector<base::LinkId> told;
    for (const Action& action : out) {
      const auto* send = std::get_if<Send>(&action);
      if (send && std::holds_alternative<Kind>(send->message)) told.push_back(send->link);
    }
    return told;
  }
  [[nodiscard]] std::optional<Finished> finished() const {
    if (count<Finished>() == 0) return std::nullopt;
    return std::get<Finished>(out.back());
  }

  const Config config;
  membership::SimulatedSigner signer;
  base::Rng rng;
  data::Shards shards;
  membership::Core membership;
  Agreement agreement;
  Neighbours neighbours;
  reach::Core reach;
  KnownAddresses known;
  Links links;
  Training training;
  Saving saving;
  Lifecycle lifecycle;
  Outbox out;  ///< of all calls
  std::vector<membership::Event> for_membership;
  std::vector<reach::Event> for_reach;
  std::vector<Agreement::Event> for_agreement;
};

}  // namespace starling::peer::testing
