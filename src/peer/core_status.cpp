// A peer's core as it describes itself.
#include <cmath>

#include "membership/limits.hpp"
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
  Status status{.id = self_.id,
                .name = self_.name,
                .phase = phase_,
                .steps = step_.value,
                .samples = samples_,
                .swarm_samples = swarm_samples_,
                .shards = share_.shards.size(),
                .target_samples = config_.target_samples,
                .progress = progress_,
                .learning_rate = learning_rate_,
                .train_loss = train_loss_,
                .drift = drift_,
                .exchanges = exchange_.totals().exchanges,
                .training_since = training_since_,
                .first_step = first_step_,
                .last_step = last_step_};
  if (evaluated_) {
    if (!std::isnan(evaluated_->accuracy)) status.accuracy = evaluated_->accuracy;
    status.loss = evaluated_->loss;
    status.whole_test_set = evaluated_->whole;
  }
  const auto links = exchange_.links();
  for (const membership::NeighbourInfo& neighbour : membership_.neighbours(now)) {
    LinkStatus link{.peer = neighbour.peer,
                    .link = neighbour.link,
                    .state = "open",
                    .round_trip = neighbour.round_trip,
                    .heard_ago = neighbour.silence};
    if (const auto known = links_.find(neighbour.link); known != links_.end()) {
      link.address = known->second.address;
    }
    for (const exchange::LinkStatus& entry : links) {
      if (entry.peer != neighbour.peer) continue;
      link.state = to_string(entry.stage);
      link.exchange = entry.committed.value;
      link.drift = entry.drift;
      link.density = entry.density;
      link.bandwidth = entry.bandwidth;
    }
    status.links.push_back(std::move(link));
  }
  for (wire::MemberRecord& record : membership_.members()) {
    MemberStatus member{.lost = membership_.death_reason_of(record.id),
                        .self = record.id == self_.id,
                        .neighbour = neighbours_.contains(record.id)};
    for (LinkStatus& link : status.links) {
      if (link.peer == record.id) link.name = record.name;
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

void Core::add_bounds(base::Bounds& out) const {
  out.add("links", links_.size(), kConnectionsMax);
  out.add("neighbours that exchange", neighbours_.size(), membership::kReadyLinksMax);
  out.add("shards", share_.shards.size(), shards_.count());
  out.add("steps asked for", steps_outstanding_, kStepsAhead);
  out.add("checkpoints asked for", saves_outstanding_, kSavesMax);
  known_.add_bounds(out);
  if (ring_) ring_->add_bounds(out);
  membership_.add_bounds(out);
  exchange_.add_bounds(neighbours_.size(), out);
}

void Core::add_timers(base::Time now, base::Bounds& out) const {
  for (const auto& [link, info] : links_) {
    if (info.ready) continue;
    out.add_timer("the wait for a hello", info.hello_until, now, kHelloTimeout);
  }
  const auto add = [&](std::string_view what, const std::optional<base::Time>& at,
                       base::Duration limit) {
    if (at) out.add_timer(what, *at, now, limit);
  };
  add("the wait for links", wait_until_, config_.membership.wait_timeout);
  add("the wait for peers", alone_until_, config_.require_peers);
  add("the next checkpoint", checkpoint_at_, config_.checkpoint_every);
  add("the next row of the metrics", report_at_, kReportEvery);
  add("the next step", pace_.next(), config_.step_interval);
  known_.add_timers(now, out);
  if (ring_) ring_->add_timers(now, out);
  membership_.add_timers(now, out);
  exchange_.add_timers(now, out);
}

}  // namespace starling::peer
