// A peer's core as it describes itself.
#include <cmath>

#include "peer/core.hpp"

namespace starling::peer {
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
  const exchange::LinkCounters totals = exchange().totals();
  Status status{.id = self_.id,
                .name = self_.name,
                .run = config_.run,
                .phase = phase_,
                .steps = step_.value,
                .samples = samples_,
                .swarm_samples = is_relay() ? membership_.progress().total(now) : swarm_samples_,
                .shards = share_.shards.size(),
                .target_samples = config_.target_samples,
                .progress = progress_,
                .learning_rate = learning_rate_,
                .train_loss = train_loss_,
                .drift = agreement_.drift(),
                .exchanges = totals.exchanges,
                .reopenings = totals.reopenings,
                .mismatches = totals.mismatches,
                .lost_steps = totals.lost_steps,
                .training_since = training_since_,
                .first_step = first_step_,
                .last_step = last_step_,
                .reach = reach_.reach(),
                .outer = reach_.outer(),
                .relayed = reach_.relayed(),
                .relayed_bytes = reach_.relayed_bytes()};
  if (evaluated_) {
    if (!std::isnan(evaluated_->accuracy)) status.accuracy = evaluated_->accuracy;
    status.loss = evaluated_->loss;
    status.whole_test_set = evaluated_->whole;
  }
  const auto links = exchange().links();
  for (const membership::NeighbourInfo& neighbour : membership_.neighbours(now)) {
    LinkStatus link{.peer = neighbour.peer,
                    .link = neighbour.link,
                    .state = "open",
                    .round_trip = neighbour.round_trip,
                    .heard_ago = neighbour.silence};
    if (const auto known = links_.find(neighbour.link); known != links_.end()) {
      link.address = known->second.address;
      if (const auto relay = links_.find(known->second.via); relay != links_.end()) {
        const wire::MemberRecord* record = membership_.table().find(relay->second.peer);
        link.via = record == nullptr ? relay->second.peer.brief() : record->name;
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
    }
    status.links.push_back(std::move(link));
  }
  for (wire::MemberRecord& record : membership_.members()) {
    MemberStatus member{.lost = membership_.death_reason_of(record.id),
                        .self = record.id == self_.id};
    for (LinkStatus& link : status.links) {
      if (link.peer != record.id) continue;
      link.name = record.name;
      member.neighbour = true;
      if (is_relay() || !record.has_replica) link.state = "relay";
    }
    if (const auto* progress = membership_.progress().find(record.id.prefix())) {
      member.progress = *progress;
      member.progress.samples = membership_.progress().samples_of(record.id.prefix());
    }
    member.record = std::move(record);
    status.members.push_back(std::move(member));
  }
  return status;
}

}  // namespace starling::peer
