// A peer's core as it describes itself.
#include <cmath>

#include "exchange/weight.hpp"
#include "membership/record.hpp"
#include "peer/core.hpp"
#include "peer/rates.hpp"

namespace starling::peer {
namespace {

/// How the members compare with each other.
void add_comparisons(const membership::MemberTable& table, std::vector<MemberStatus>& members) {
  const auto movement = [](const MemberStatus& member) {
    const bool counts = membership::counts_as_alive(member.record.state);
    const double rate = member.progress.rate;
    return counts ? exchange::weight_of(member.record.weight) * rate : 0.0;
  };
  double all = 0;
  for (const MemberStatus& member : members) all += movement(member);
  const auto median = median_rate(table, true);
  for (MemberStatus& member : members) {
    if (all > 0) member.share = movement(member) / all;
    const auto lr = static_cast<double>(member.record.lr);
    if (lr <= 0 || !median) continue;
    const double apart = times_apart(lr, *median);
    if (apart > kRateApart) member.rate_apart = apart;
  }
}

}  // namespace
namespace {

const char* to_string(exchange::LinkStage stage) noexcept {
  switch (stage) {
    case exchange::LinkStage::opening:
      return "opening";
    case exchange::LinkStage::open:
      return "open";
    case exchange::LinkStage::broken:
      return "broken";
  }
  return "unknown";
}

}  // namespace

Status Core::status(base::Time now) const {
  const bool is_relay = links_.run().relays();
  const exchange::LinkCounters totals = exchange().totals();
  const Standing& trained = training_.so_far();
  const wire::MemberRecord& self = membership_.self();
  Status status{
      .id = self.id,
      .name = self.name,
      .run = links_.run().id(),
      .phase = phase(),
      .steps = trained.step.value,
      .samples = trained.samples,
      .swarm_samples = is_relay ? membership_.progress().total(now) : trained.swarm_samples,
      .shards = training_.assignment().shards.size(),
      .target_samples = config_.target_samples,
      .progress = trained.progress,
      .learning_rate = trained.learning_rate,
      .train_loss = trained.loss,
      .drift = agreement_.drift(),
      .settled = lifecycle_.settled(),
      .left_out = lifecycle_.left_out(),
      .exchanges = totals.exchanges,
      .reopenings = totals.reopenings,
      .mismatches = totals.mismatches,
      .lost_steps = totals.lost_steps,
      .training_since = trained.since,
      .first_step = trained.first_step,
      .last_step = trained.last_step,
      .reach = reach_.own().reach(),
      .outer = reach_.own().outer(),
      .relayed = reach_.circuits().relayed(),
      .relayed_bytes = reach_.circuits().relayed_bytes()};
  if (const auto& evaluated = training_.evaluations().latest()) {
    if (!std::isnan(evaluated->accuracy)) status.accuracy = evaluated->accuracy;
    status.loss = evaluated->loss;
    status.whole_test_set = evaluated->whole;
  }
  const auto links = exchange().links();
  for (const membership::NeighbourInfo& neighbour : membership_.neighbours(now)) {
    LinkStatus link{.peer = neighbour.peer,
                    .link = neighbour.link,
                    .state = "open",
                    .round_trip = neighbour.round_trip,
                    .heard_ago = neighbour.silence};
    if (const Links::Link* known = links_.find(neighbour.link)) {
      link.address = known->address;
      if (const Links::Link* relay = links_.find(known->via)) {
        const wire::MemberRecord* record = membership_.table().find(relay->peer);
        link.via = record == nullptr ? relay->peer.brief() : record->name;
      }
    }
    for (const exchange::LinkStatus& entry : links) {
      if (entry.peer != neighbour.peer) continue;
      link.state = to_string(entry.stage);
      link.exchange = entry.committed.value;
      link.exchanges = entry.counters.exchanges;
      link.drift = entry.drift;
      link.density = entry.density;
      link.bandwidth = entry.bandwidth;
      link.trust = entry.trust;
      link.worse = entry.worse;
    }
    status.links.push_back(std::move(link));
  }
  add_members(status, now);
  return status;
}

void Core::add_members(Status& status, base::Time now) const {
  const bool is_relay = links_.run().relays();
  for (wire::MemberRecord& record : membership_.members()) {
    MemberStatus member{.lost = membership_.death_reason_of(record.id),
                        .self = record.id == status.id};
    for (LinkStatus& link : status.links) {
      if (link.peer != record.id) continue;
      link.name = record.name;
      member.neighbour = true;
      if (is_relay || !record.has_replica) link.state = "relay";
    }
    if (const auto* progress = membership_.progress().find(record.id.prefix())) {
      member.progress = *progress;
      member.progress.samples = membership_.progress().samples_of(record.id.prefix(), now);
    }
    member.record = std::move(record);
    status.members.push_back(std::move(member));
  }
  add_comparisons(membership_.table(), status.members);
}

}  // namespace starling::peer
