#include "runtime/progress.hpp"

#include <utility>

#include <fmt/core.h>

#include "base/printable.hpp"
#include "report/table.hpp"

namespace starling::runtime {
namespace {

using wire::MemberState;

/// Members whose news are told in one call: a large swarm appears all at once.
constexpr std::size_t kNewsMax = 8;

/// A row of the live table of `starling swarm`, with the speed of all.
report::PeerRow row_of(const peer::Status& status, std::uint64_t bytes_sent, double rate) {
  report::PeerRow row{.progress = status.progress,
                      .steps = status.steps,
                      .samples_per_second = rate,
                      .loss = status.train_loss,
                      .accuracy = status.accuracy,
                      .drift = status.drift,
                      .links = static_cast<std::uint32_t>(status.links.size()),
                      .bytes_sent = bytes_sent};
  if (rate > 0 && status.swarm_samples < status.target_samples) {
    row.eta_seconds = static_cast<double>(status.target_samples - status.swarm_samples) / rate;
  }
  return row;
}

std::string news_of(const peer::MemberStatus& member) {
  const std::string name = base::printable(member.record.name, base::kShownMax);
  switch (member.record.state) {
    case MemberState::alive:
      return name + " joined\n";
    case MemberState::left:
      return name + " left\n";
    case MemberState::dead:
      return fmt::format("{} is dead ({})\n", name, wire::to_string(member.lost));
    case MemberState::suspect:
      break;
  }
  return {};
}

}  // namespace

std::string ProgressLines::changes(const peer::Status& status) {
  std::string text;
  std::size_t count = 0;
  std::map<base::PeerId, MemberState> told;  // without those that are no longer members
  for (const peer::MemberStatus& member : status.members) {
    const auto before = told_.find(member.record.id);
    const bool is_new = before == told_.end();
    MemberState state = member.record.state;
    if (member.self || (is_new && state == MemberState::suspect)) continue;
    if (state == MemberState::suspect) state = before->second;
    told.emplace(member.record.id, state);
    // A member that was gone before this peer came is not news.
    if (is_new ? state != MemberState::alive : state == before->second) continue;
    if (++count <= kNewsMax) text += news_of(member);
  }
  told_ = std::move(told);
  if (count > kNewsMax) text += fmt::format("... and {} more joined or left\n", count - kNewsMax);
  return text;
}

std::string ProgressLines::tell(const peer::Status& status, base::Duration trained,
                                std::uint64_t bytes_sent, base::Time now) {
  std::string text = changes(status);
  if (line_at_ && now - *line_at_ < kProgressEvery) return text;
  line_at_ = now;
  std::size_t alive = 0;
  double rate = 0;
  for (const peer::MemberStatus& member : status.members) {
    if (member.record.state != MemberState::alive) continue;
    ++alive;
    rate += member.progress.rate;
  }
  return text + report::plain_line(base::seconds(trained), alive, row_of(status, bytes_sent, rate));
}

}  // namespace starling::runtime
