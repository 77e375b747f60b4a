#include "peer/assignment.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "membership/record.hpp"
#include "peer/upper_median.hpp"

namespace starling::peer {
namespace {

std::vector<data::Member> training_members(const membership::MemberTable& table) {
  std::vector<data::Member> members;
  double known = 0;
  double sum = 0;
  for (const auto& [id, member] : table.members()) {
    const wire::MemberRecord& record = member.record;
    if (!membership::counts_as_alive(record.state) || !record.has_replica) continue;
    members.push_back({record.id, record.name, static_cast<double>(record.speed)});
    if (record.speed > 0) ++known;
    sum += members.back().weight;
  }
  for (data::Member& member : members) {
    if (member.weight == 0) member.weight = known > 0 ? sum / known : 1;
  }
  return members;
}

/// With a least batch, steps take this peer, of `speed`, as long as the median member: so it is no
/// later at its links.
std::uint32_t fair_batch(const std::vector<data::Member>& members, double speed,
                         const train::Config& train) {
  if (train.batch_min == 0 || speed == 0) return train.batch;
  std::vector<double> speeds;
  std::ranges::transform(members, std::back_inserter(speeds), &data::Member::weight);
  const double part = std::min(speed / upper_median(std::move(speeds)), 1.0);
  return std::max(static_cast<std::uint32_t>(std::lround(part * train.batch)), train.batch_min);
}

}  // namespace

Assignment assignment_of(const membership::MemberTable& table, const data::Shards& shards,
                         const train::Config& train) {
  const std::vector<data::Member> members = training_members(table);
  return {data::owned_shards(shards, members, table.self_id()),
          fair_batch(members, table.self().speed, train)};
}

}  // namespace starling::peer
