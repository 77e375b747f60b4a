#include "exchange/opening.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/simulated.hpp"
#include "exchange/decision.hpp"

namespace starling::exchange {

using base::PeerId;
using base::Time;

namespace {

/// Part of a replica that is little, where links have told no more of it.
constexpr double kToldLittle = 0.05;
/// Progress from which on no replica is like the initial parameters, whatever links have told.
constexpr double kTellsMost = 0.2;

base::Duration ask_timeout(const Link& link) {
  const base::Duration doubled = kAskTimeout * (1 << std::min(link.failed_asks, kAsksMax));
  return std::min(doubled, kAskTimeoutMax);
}

}  // namespace

Opening::Opening(const Options& options, base::Rng rng, Links& links, History& history,
                 AfterOpening& then)
    : options_(options), rng_(rng), links_(links), history_(history), then_(then) {}

void Opening::begin(Link& link, Time now) {
  if (link.session() == nullptr && history_.is_fresh_restart()) {
    link.silent()->listen_until = now + kListenTimeout;
  }
}

// A peer that would adopt asks one neighbour at a time, since it adopts once. It always answers a
// neighbour that is at the start, too, or would adopt itself: so no two peers wait for each other's
// LinkOpen. A neighbour that was asked in vain, because its trainer stands still or its line is
// dead, is passed over for a while.
bool Opening::may_send_open(const Link& link) const {
  const auto* greeting = link.in<Greeting>();
  if (greeting == nullptr || link.rounds.has_sent()) return false;
  if (greeting->before && greeting->before->commit_job != 0) return false;
  if (adopting()) return false;
  const auto* silent = link.silent();
  if (silent != nullptr && silent->listen_until && history_.is_fresh_restart()) return false;
  if (!history_.may_adopt()) return true;
  if (const auto* heard = std::get_if<Heard>(&greeting->messages)) {
    const bool both_fresh =
        history_.known_progress() <= kFreshProgress && heard->theirs.progress <= kFreshProgress;
    if (both_fresh || heard->theirs.may_adopt) return true;
  }
  return !link.ask_after && link.failed_asks < kAsksMax && !asking();
}

// A keyframe would take more bytes than all deltas of such links so far, and for a while its
// mirrors would be better than those of all others.
bool Opening::has_told_little() const {
  const Config& config = options_.config;
  const double exchanges =
      static_cast<double>(history_.steps().value) / static_cast<double>(std::max(config.every, 1U));
  return config.mode == Mode::tracked && history_.known_progress() <= kTellsMost &&
         exchanges * config.density <= kToldLittle;
}

bool Opening::adopting() const {
  return std::ranges::any_of(links_, [](const auto& entry) {
    const Link& link = entry.second;
    const auto* setting = link.in<SettingMirrors>();
    return link.in<Adopting>() != nullptr || (setting != nullptr && setting->adopts);
  });
}

bool Opening::asking() const {
  return std::ranges::any_of(
      links_, [](const auto& entry) { return entry.second.ask_until().has_value(); });
}

void Opening::send_open(Links::iterator at, Time now, Outbox& out) {
  auto& [peer, link] = *at;
  Greeting& greeting = *link.in<Greeting>();
  Said said{.mine = {.nonce = rng_(),
                     .samples = history_.samples(),
                     .progress = std::clamp(history_.known_progress(), 0.0, 1.0),
                     .may_adopt = history_.may_adopt(),
                     .told_little = has_told_little()}};
  if (greeting.before && !SIM_RARE(session_forgotten)) {
    said.mine.session = greeting.before->id;
    said.mine.committed = greeting.before->committed;
  }
  if (said.mine.may_adopt) said.ask_until = now + ask_timeout(link);
  link.rounds.send();
  out.emplace_back(Send{peer, said.mine});
  if (const auto* heard = std::get_if<Heard>(&greeting.messages)) {
    decide(at, said, heard->theirs, now, out);
  } else {
    greeting.messages = said;
  }
}

void Opening::send_due_opens(Time now, Outbox& out) {
  // A decision may let other links send their LinkOpen, or end the right to adopt: as long as
  // something moves.
  for (bool moved = true; moved;) {
    moved = false;
    for (auto at = links_.begin(); at != links_.end();) {
      const auto current = at++;
      if (!may_send_open(current->second)) continue;
      send_open(current, now, out);
      moved = true;
    }
  }
}

void Opening::receive(Links::iterator at, const wire::LinkOpen& open, Time now, Outbox& out) {
  Link& link = at->second;
  if (link.rounds.has_received()) {
    if (!link.rounds.has_sent() || link.rounds.count() >= kRoundsMax) {
      links_.misbehaved(at, "opens its link again and again", out);
      return;
    }
    links_.new_round(at, out);
  }
  link.rounds.receive();
  history_.hear(open.progress);
  Greeting& greeting = *link.in<Greeting>();
  if (const auto* said = std::get_if<Said>(&greeting.messages)) {
    decide(at, *said, open, now, out);
  } else {
    greeting.messages = Heard{open};
  }
}

// With both LinkOpens of a round, taken by value: the state that holds one of them ends here.
void Opening::decide(Links::iterator at, Said said, wire::LinkOpen theirs, Time now, Outbox& out) {
  auto& [peer, link] = *at;
  const wire::LinkOpen& mine = said.mine;
  const OpenDecision decision = decide_opening(mine, theirs);
  if (decision == OpenDecision::resume) return resume(at, theirs.committed, now, out);
  const bool too_late = history_.is_mixed() || adopting();
  if (link.in<Greeting>()->before) links_.drop_before(at, out);
  if (link.opened) ++link.counters.reopenings;
  const std::uint64_t session = session_of(mine.nonce, theirs.nonce);
  switch (decision) {
    case OpenDecision::resume:
      break;
    case OpenDecision::fresh:
      set_mirrors(at, session, {.peer = peer, .decision = decision}, out);
      break;
    case OpenDecision::adopt:
      // Its keyframe comes by itself. It was passed over, and this peer has another replica by now,
      // or waits for one: this link opens when that is done.
      if (too_late) return links_.new_round(at, out);
      // Its LinkOpen alone may have taken all of the time.
      link.state = Adopting{session, said.ask_until.value_or(now + ask_timeout(link))};
      break;
    case OpenDecision::give:
      link.state = Giving{session, request_keyframe(peer, options_.buffers > 0, out)};
      break;
    case OpenDecision::merge:
      link.state = Merging{session, request_keyframe(peer, false, out)};
      break;
    case OpenDecision::wait:
      // Since this end sent its LinkOpen, long ago, it has a replica to give.
      if (history_.is_mixed()) return links_.new_round(at, out);
      link.state = Waiting{mine.samples != theirs.samples ? mine.samples > theirs.samples
                                                          : mine.nonce < theirs.nonce,
                           now + kWaitTimeout};
      break;
  }
}

// Others mix with this replica from here on.
JobTag Opening::request_keyframe(const PeerId& peer, bool with_buffers, Outbox& out) {
  history_.mix();
  const JobTag tag = links_.next_tag();
  out.emplace_back(Run{KeyframeJob{.peer = peer, .tag = tag, .with_buffers = with_buffers}});
  return tag;
}

void Opening::set_mirrors(Links::iterator at, std::uint64_t session, OpenJob job, Outbox& out) {
  job.tag = links_.next_tag();
  at->second.state = SettingMirrors{
      .session = session, .adopts = job.decision == OpenDecision::adopt, .open_job = job.tag};
  out.emplace_back(Run{std::move(job)});
}

// With the own keyframe and the other end's, once both are there.
void Opening::merge_when_ready(Links::iterator at, Outbox& out) {
  Merging& merging = *at->second.in<Merging>();
  auto* own = std::get_if<base::Bytes>(&merging.own);
  if (own == nullptr || !merging.theirs) return;
  OpenJob job{.peer = at->first,
              .decision = OpenDecision::merge,
              .own = std::move(*own),
              .their = std::move(*merging.theirs)};
  set_mirrors(at, merging.session, std::move(job), out);
}

void Opening::resume(Links::iterator at, base::ExchangeNumber theirs, Time now, Outbox& out) {
  auto& [peer, link] = *at;
  // An adoption has replaced the replica of that session since this end sent its LinkOpen.
  if (link.session() == nullptr) return links_.new_round(at, out);
  history_.mix();
  // Where the ends differ, the delta that one lacks and the other has used must still be here.
  Session& before = *link.session();
  if (theirs != before.committed && before.own(std::max(theirs, before.committed)) == nullptr) {
    links_.misbehaved(
        at, "claims to have committed exchanges that it has not, or not to have those it has", out);
    return;
  }
  Session session = std::move(before);
  link.state = OpenState{std::move(session)};
  out.emplace_back(Run{ResumeJob{peer}});
  then_.resume(at, theirs, now, out);
}

void Opening::receive(Links::iterator at, wire::Keyframe& keyframe, Outbox& out) {
  Link& link = at->second;
  if (link.rounds.is_stale()) {
    // It can give after all, and may be asked again: with the longer timeout that it needs.
    link.ask_after.reset();
    link.failed_asks = std::min(link.failed_asks, kAsksMax - 1);
    return;
  }
  const auto* adopting = link.in<Adopting>();
  auto* merging = link.in<Merging>();
  if (adopting == nullptr && (merging == nullptr || merging->theirs)) {
    links_.misbehaved(at, "sent a keyframe that was not due", out);
    return;
  }
  if (keyframe.payload.size() > payload_bytes_max(options_.elements)) {
    links_.misbehaved(at, "sent a keyframe that is too long", out);
    return;
  }
  const std::size_t due = adopting != nullptr ? options_.buffers * sizeof(float) : 0;
  if (keyframe.buffers.size() != due) {
    links_.misbehaved(at,
                      fmt::format("sent {} bytes of buffers with a keyframe where {} were due",
                                  keyframe.buffers.size(), due),
                      out);
    return;
  }
  if (merging != nullptr) {
    merging->theirs = std::move(keyframe.payload);
    merge_when_ready(at, out);
    return;
  }
  set_mirrors(at, adopting->session,
              {.peer = at->first,
               .decision = OpenDecision::adopt,
               .their = std::move(keyframe.payload),
               .their_buffers = std::move(keyframe.buffers)},
              out);
}

void Opening::receive(Links::iterator at, wire::Delta& delta, Outbox& out) {
  auto* setting = at->second.in<SettingMirrors>();
  if (setting == nullptr || setting->early) {
    links_.misbehaved(at, "sent a delta before its link was open", out);
    return;
  }
  setting->early = std::move(delta);
}

// A keyframe takes as long as its line needs. Time is added by the bytes that have come, so that an
// end that sends them one by one cannot hold this peer up for long.
void Opening::on(const KeyframeArriving& event, Time now) {
  const auto at = links_.find(event.peer);
  auto* adopting = at == links_.end() ? nullptr : at->second.in<Adopting>();
  if (adopting == nullptr) return;
  const double rate =
      std::max(kKeyframeRateMin, static_cast<double>(payload_bytes_max(options_.elements)) /
                                     base::seconds(kKeyframeTimeMax));
  const auto paid = base::from_seconds(static_cast<double>(event.bytes) / rate);
  adopting->ask_until = std::min(adopting->ask_until + paid, now + ask_timeout(at->second));
}

void Opening::on(KeyframeMade& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end()) return;
  Link& link = at->second;
  auto* giving = link.in<Giving>();
  auto* merging = link.in<Merging>();
  auto* job = giving != nullptr    ? &giving->keyframe_job
              : merging != nullptr ? std::get_if<JobTag>(&merging->own)
                                   : nullptr;
  if (job == nullptr || *job != event.tag) return;
  if (!event.status) {
    *job = 0;
    return links_.refuse_or_fail(at, event.status.error(), out);
  }
  then_.reserve_upload(link, event.payload.size() + event.buffers.size(), now);
  out.emplace_back(Send{event.peer, wire::Keyframe{.samples = history_.samples(),
                                                   .payload = event.payload,
                                                   .buffers = std::move(event.buffers)}});
  if (merging != nullptr) {
    merging->own = std::move(event.payload);
    merge_when_ready(at, out);
    return;
  }
  set_mirrors(at, giving->session,
              {.peer = event.peer, .decision = OpenDecision::give, .own = std::move(event.payload)},
              out);
}

void Opening::on(Opened& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end()) return;
  Link& link = at->second;
  auto* setting = link.in<SettingMirrors>();
  if (setting == nullptr || setting->open_job != event.tag) return;
  const auto fault = event.status ? std::nullopt : std::optional(event.status.error().code);
  const bool is_judged = fault == base::ErrorCode::judged_bad;
  if (fault == base::ErrorCode::protocol || is_judged) {
    links_.misbehaved(at, event.status.error().text, out, is_judged);
    return;
  }
  if (!event.status && event.again && links_.end_oldest_grace(out)) {
    setting->open_job = event.again->tag = links_.next_tag();
    out.emplace_back(Run{std::move(*event.again)});
    return;
  }
  if (!event.status) return links_.refuse_or_fail(at, event.status.error(), out);
  SettingMirrors set = std::move(*setting);
  link.state = OpenState{{.id = set.session}};
  link.opened = true;
  history_.on_link_open();
  if (set.adopts) {
    history_.mix();
    reopen_others(event.peer, out);
  }
  then_.begin(at, std::move(set.early), now, out);
}

// The replica has become another one: links that were opened, or wait, with the old one start anew,
// and what a link that broke had of it is gone.
void Opening::reopen_others(const PeerId& peer, Outbox& out) {
  for (auto at = links_.begin(); at != links_.end();) {
    const auto current = at++;
    auto& [other, link] = *current;
    if (other == peer) continue;
    if (link.broken() != nullptr) {
      links_.forget(current, out);
      continue;
    }
    if (auto* greeting = link.in<Greeting>(); greeting != nullptr && greeting->before) {
      links_.drop_before(current, out);
    }
    if (link.rounds.may_start()) links_.new_round(current, out);
  }
}

void Opening::expire(Time now, Outbox& out) {
  expire_waiting(now, out);
  expire_asking(now, out);
  expire_listening(now);
}

// Where two peers would both adopt, the one with more samples (the smaller nonce where equal) makes
// do with what it has after a while, and the other one adopts from it: but not while somebody
// better is asked.
void Opening::expire_waiting(Time now, Outbox& out) {
  const bool hopes = adopting() || asking();
  const bool gives_up = !hopes && std::ranges::any_of(links_, [now](const auto& entry) {
    const Link& link = entry.second;
    const auto* waiting = link.in<Waiting>();
    return waiting != nullptr && waiting->keeps && waiting->until <= now;
  });
  for (auto at = links_.begin(); at != links_.end(); ++at) {
    auto* waiting = at->second.in<Waiting>();
    if (waiting == nullptr) continue;
    if (gives_up) {
      history_.mix();
      links_.new_round(at, out);
    } else if (waiting->until <= now) {
      waiting->until = now + kWaitTimeout;  // not yet, or the other end's turn
    }
  }
}

// Where both ends have restarted, both listen: the timeout lets them go on.
void Opening::expire_listening(Time now) {
  for (auto& [peer, link] : links_) {
    if (Silent* silent = link.silent(); silent != nullptr && silent->listen_until <= now) {
      silent->listen_until.reset();
    }
  }
}

// A neighbour that gives no replica in time is not waited for any more, and the next one is asked.
// One that has not even answered is only passed over: a LinkOpen cannot be taken back.
void Opening::expire_asking(Time now, Outbox& out) {
  for (auto at = links_.begin(); at != links_.end(); ++at) {
    auto& [peer, link] = *at;
    if (link.ask_after && *link.ask_after <= now) link.ask_after.reset();
    const auto until = link.ask_until();
    if (!until || *until > now) continue;
    if (auto* greeting = link.in<Greeting>()) {
      std::get<Said>(greeting->messages).ask_until.reset();
      continue;
    }
    link.ask_after = now + ask_timeout(link);
    ++link.failed_asks;
    out.emplace_back(base::LogEntry{
        base::Severity::warning,
        fmt::format("{} was asked for its replica and does not give it; whoever else "
                    "is there is asked",
                    peer.brief())});
    links_.new_round(at, out);
  }
}

void Opening::visit_timers(const TimerVisitor& visit) const {
  for (const auto& [peer, link] : std::as_const(links_)) {
    visit("to ask for a replica again", link.ask_after, kAskTimeoutMax);
    visit("a replica to adopt", link.ask_until(), kAskTimeoutMax);
    if (const auto* silent = link.silent()) {
      visit("another end's LinkOpen", silent->listen_until, kListenTimeout);
    }
    if (const auto* waiting = link.in<Waiting>()) {
      visit("a better replica to adopt", waiting->until, kWaitTimeout);
    }
  }
}

}  // namespace starling::exchange
