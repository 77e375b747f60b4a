#include "exchange/core.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/simulated.hpp"

namespace starling::exchange {
namespace {

using base::PeerId;
using base::Time;

}  // namespace

// Where all elements are carried, each takes at most a byte for its value, a quarter of one for its
// part of a scale (kBlockMin) and less for its index. Where fewer are, indices are longer, but all
// together they take less.
std::size_t payload_bytes_max(std::size_t elements) noexcept { return 64 + 2 * elements; }

Event event_of(Outcome outcome) {
  return std::visit([](auto& one) -> Event { return std::move(one); }, outcome);
}

Core::Core(const Options& options, base::Rng rng)
    : options_(options),
      pace_(options.config),
      rng_(rng),
      step_(options.step),
      samples_(options.samples),
      progress_(options.progress) {
  ASSERT(options.elements > 0 && options.samples_target > 0);
  ASSERT(options.config.every > 0 && options.config.hash_every > 0);
  ASSERT(options.config.buffers_every > 0);
}

void Core::handle(Event event, Time now, Outbox& out) {
  std::visit([&](auto& one) { on(one, now, out); }, event);
  send_due_opens(now, out);
  settle_when_ready(out);
}

std::optional<Time> Core::next_deadline() const {
  base::Earliest next;
  if (!settled_) next.add(settle_until_);
  for (const auto& [peer, link] : links_) {
    next.add(link.ask_after);
    if (const auto* broken = link.broken()) next.add(broken->until);
    if (const auto* waiting = link.in<Waiting>()) next.add(waiting->until);
    next.add(link.ask_until());
    if (const auto* silent = link.silent()) next.add(silent->listen_until);
    const auto* open = link.open();
    if (open != nullptr && wants_delta(open->session)) next.add(link.next_send_at);
  }
  return next.value();
}

void Core::expire(Time now, Outbox& out) {
  for (auto at = links_.begin(); at != links_.end();) {
    const auto current = at++;
    const auto* broken = current->second.broken();
    if (broken != nullptr && broken->until <= now && !SIM_BUG(grace_for_ever)) forget(current, out);
  }
  for (auto& [peer, link] : links_) {
    if (link.open() != nullptr) request_next(peer, link, now, out);
  }
  expire_waiting(now, out);
  expire_asking(now, out);
  expire_listening(now);
  if (settle_until_ && *settle_until_ <= now && !settled_) {
    settled_ = true;
    out.emplace_back(Settled{.timed_out = true});
  }
  send_due_opens(now, out);
  settle_when_ready(out);
}

void Core::on(const NeighbourUp& event, Time now, Outbox& out) {
  auto at = links_.find(event.peer);
  if (at != links_.end() && at->second.broken() == nullptr) {
    // The transport has replaced a link that was still up here.
    break_link(at, now, out);
    at = links_.find(event.peer);
  }
  if (at == links_.end()) {
    const auto live = std::ranges::count_if(
        links_, [](const auto& entry) { return entry.second.broken() == nullptr; });
    ASSERT(static_cast<std::size_t>(live) < kLinksMax, "the overlay bounds the links");
    Link& link = links_.emplace(event.peer, Link{}).first->second;
    if (is_fresh_restart()) link.silent()->listen_until = now + kListenTimeout;
    return;
  }
  Link& link = at->second;
  link.state = Greeting{.before = std::move(link.broken()->session)};
  link.rounds = {};
  link.failed_asks = 0;
  link.ask_after.reset();
}

void Core::on(const NeighbourDown& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end()) return;
  if (event.for_good) {
    if (!SIM_BUG(left_links_kept)) forget(at, out);
  } else {
    break_link(at, now, out);
  }
}

void Core::on(Received& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end() || at->second.broken() != nullptr) {
    out.emplace_back(Misbehaved{event.peer, "sent an exchange message without being a neighbour"});
    return;
  }
  if (auto* delta = std::get_if<wire::Delta>(&event.message)) {
    receive(at, *delta, event.took, now, out);
  } else if (auto* open = std::get_if<wire::LinkOpen>(&event.message)) {
    receive(at, *open, now, out);
  } else {
    receive(at, std::get<wire::Keyframe>(event.message), out);
  }
}

void Core::on(const Progressed& event, Time now, Outbox&) {
  ASSERT(event.step >= step_ && event.samples >= samples_);
  pace_.on_steps(event.step, now);
  if (event.took > base::Duration{}) pace_.on_compute(event.took);
  step_ = event.step;
  samples_ = event.samples;
  progress_ = event.progress;
  // One that sees the start of the run from inside has its part in it; the known progress of one
  // that comes late jumps over this range.
  if ((progress_ > kFreshProgress && progress_ <= kHistoryProgress && open_links() > 0) ||
      SIM_RARE(never_adopts)) {
    has_history_ = true;
  }
}

void Core::on(const Company& event, Time, Outbox&) { company_ = event.expected; }

void Core::on(const Phase& phase, Time now, Outbox& out) {
  ASSERT(phase >= phase_, "a run does not go back");
  if (phase == phase_) return;
  phase_ = phase;
  if (phase == Phase::settling) start_settling(now, out);
}

// Frees the mirrors of a link, if it has any or is about to, and counts the step in doubt. What
// was asked for to open it may wait for its trainer still: closing takes it back.
void Core::drop_session(Links::iterator at, Outbox& out) {
  auto& [peer, link] = *at;
  const Session* session = link.session();
  if ((session != nullptr || link.has_opening_job()) && !SIM_BUG(close_forgotten)) {
    out.emplace_back(Run{CloseJob{peer}});
  }
  if (session != nullptr && !session->kept.empty()) ++link.counters.lost_steps;
}

void Core::forget(Links::iterator at, Outbox& out) {
  drop_session(at, out);
  gone_ += at->second.counters;
  links_.erase(at);
}

void Core::misbehaved(Links::iterator at, std::string text, Outbox& out) {
  const PeerId peer = at->first;
  forget(at, out);
  out.emplace_back(Misbehaved{peer, std::move(text)});
}

// What failed here and for a reason of this end. Where there was no room, others go on.
void Core::refuse_or_fail(Links::iterator at, const base::Error& error, Outbox& out) {
  if (error.code != base::ErrorCode::no_room) {
    out.emplace_back(Failed{error});
    return;
  }
  const PeerId peer = at->first;
  forget(at, out);
  out.emplace_back(NoRoom{peer, error.text});
}

// The mirrors of a link stay for a while if both ends have them.
void Core::break_link(Links::iterator at, Time now, Outbox& out) {
  Link& link = at->second;
  if (link.broken() != nullptr) return;
  Session* session = link.session();
  if (session == nullptr || SIM_RARE(no_grace)) {
    forget(at, out);
    return;
  }
  if (link.open() != nullptr) out.emplace_back(Run{SuspendJob{at->first}});
  // What was not sent is written anew, what was not committed is sent again.
  session->encode_job = 0;
  session->rests = false;
  session->received.reset();
  BrokenState broken{.session = std::move(*session), .until = now + options_.config.grace};
  link.state = std::move(broken);
  bound_grace(out);
}

void Core::bound_grace(Outbox& out) {
  const auto count = static_cast<std::size_t>(std::ranges::count_if(
      links_, [](const auto& entry) { return entry.second.broken() != nullptr; }));
  if (count > (SIM_RARE(grace_of_one) ? 1 : kGraceLinksMax))
    static_cast<void>(end_oldest_grace(out));
}

// Frees the mirrors of the link that broke first; false where none is in grace.
bool Core::end_oldest_grace(Outbox& out) {
  auto oldest = links_.end();
  for (auto at = links_.begin(); at != links_.end(); ++at) {
    const auto* broken = at->second.broken();
    if (broken == nullptr) continue;
    if (oldest == links_.end() || broken->until < oldest->second.broken()->until) oldest = at;
  }
  if (oldest == links_.end()) return false;
  forget(oldest, out);
  return true;
}

std::vector<LinkStatus> Core::links() const {
  std::vector<LinkStatus> all;
  for (const auto& [peer, link] : links_) {
    LinkStatus status{.peer = peer,
                      .bandwidth = link.line.bandwidth,
                      .drift = link.drift,
                      .density = link.density,
                      .counters = link.counters};
    if (const auto* open = link.open()) {
      status.stage = LinkStage::open;
      status.committed = open->session.committed;
    } else if (const auto* broken = link.broken()) {
      status.stage = LinkStage::broken;
      status.committed = broken->session.committed;
    }
    all.push_back(status);
  }
  return all;
}

double Core::drift() const {
  double most = 0.0;
  for (const auto& [peer, link] : links_) {
    if (link.open() != nullptr) most = std::max(most, link.drift);
  }
  return most;
}

LinkCounters Core::totals() const {
  LinkCounters total = gone_;
  for (const auto& [peer, link] : links_) total += link.counters;
  return total;
}

std::size_t Core::open_links() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(links_, [](const auto& e) { return e.second.open() != nullptr; }));
}

void Core::add_bounds(std::size_t neighbours, base::Bounds& out) const {
  std::size_t broken = 0;
  std::size_t kept = 0;
  std::uint32_t rounds = 0;
  for (const auto& [peer, link] : links_) {
    if (link.broken() != nullptr) ++broken;
    if (const Session* session = link.session()) kept = std::max(kept, session->kept.size());
    rounds = std::max(rounds, link.rounds.count());
  }
  out.add("links that exchange", links_.size() - broken, std::min(neighbours, kLinksMax));
  out.add("links in grace", broken, kGraceLinksMax);
  out.add("deltas that a link keeps", kept, kKeptMax);
  out.add("openings of a link", rounds, kRoundsMax);
}

void Core::add_timers(Time now, base::Bounds& out) const {
  for (const auto& [peer, link] : links_) {
    if (const auto* broken = link.broken()) {
      out.add_timer("the end of grace", broken->until, now, options_.config.grace);
    }
    const auto* open = link.open();
    if (open != nullptr && wants_delta(open->session)) {
      out.add_timer("the upload limit of a link", link.next_send_at, now, kUploadTimeMax);
    }
    if (link.ask_after) {
      out.add_timer("to ask for a replica again", *link.ask_after, now, kAskTimeoutMax);
    }
    if (const auto until = link.ask_until()) {
      out.add_timer("a replica to adopt", *until, now, kAskTimeoutMax);
    }
    if (const auto* silent = link.silent(); silent != nullptr && silent->listen_until) {
      out.add_timer("another end's LinkOpen", *silent->listen_until, now, kListenTimeout);
    }
    if (const auto* waiting = link.in<Waiting>()) {
      out.add_timer("a better replica to adopt", waiting->until, now, kWaitTimeout);
    }
  }
  if (!settle_until_) return;
  out.add_timer("the end of settling", *settle_until_, now, options_.config.settle_timeout);
}

bool Core::adopting() const {
  return std::ranges::any_of(links_, [](const auto& entry) {
    const Link& link = entry.second;
    const auto* setting = link.in<SettingMirrors>();
    return link.in<Adopting>() != nullptr || (setting != nullptr && setting->adopts);
  });
}

bool Core::may_adopt() const {
  if (has_history_) return false;
  // What the others have done of the run since this replica took part in it.
  const double behind = known_progress() - options_.progress - own_progress();
  return is_fresh() || behind > kStale;
}

bool Core::is_bystander() const { return !had_link_ && may_adopt(); }

bool Core::is_fresh() const { return !options_.has_state && own_progress() <= kFreshProgress; }

double Core::own_progress() const {
  return static_cast<double>(samples_ - options_.samples) /
         static_cast<double>(options_.samples_target);
}

}  // namespace starling::exchange
