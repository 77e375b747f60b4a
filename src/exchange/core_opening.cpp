// How links open: LinkOpen messages, decisions, keyframes.
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "exchange/core.hpp"

namespace starling::exchange {

using base::PeerId;
using base::Time;

namespace {

base::Duration ask_timeout(const Link& link) {
  const base::Duration doubled = kAskTimeout * (1 << std::min(link.failed_asks, kAsksMax));
  return std::min(doubled, kAskTimeoutMax);
}

}  // namespace

// A peer that would adopt asks one neighbour at a time, since it adopts once. It always answers a
// neighbour that is at the start, too, or would adopt itself: so no two peers wait for each other's
// LinkOpen. A neighbour that was asked in vain, because its trainer stands still or its line is
// dead, is passed over for a while.
bool Core::may_send_open(const Link& link) const {
  const auto* greeting = link.in<Greeting>();
  if (greeting == nullptr || link.rounds.has_sent()) return false;
  if (greeting->before && greeting->before->commit_job != 0) return false;
  if (adopting()) return false;
  const auto* silent = link.silent();
  if (silent != nullptr && silent->listen_until && is_fresh_restart()) return false;
  if (!may_adopt()) return true;
  if (const auto* heard = std::get_if<Heard>(&greeting->messages)) {
    const bool both_fresh =
        known_progress() <= kFreshProgress && heard->theirs.progress <= kFreshProgress;
    if (both_fresh || heard->theirs.may_adopt) return true;
  }
  return !link.ask_after && link.failed_asks < kAsksMax && !asking();
}

bool Core::is_fresh_restart() const {
  return options_.has_state && !has_history_ && samples_ == options_.samples;
}

bool Core::asking() const {
  return std::ranges::any_of(
      links_, [](const auto& entry) { return entry.second.ask_until().has_value(); });
}

void Core::send_open(Links::iterator at, Time now, Outbox& out) {
  auto& [peer, link] = *at;
  Greeting& greeting = *link.in<Greeting>();
  Said said{.mine = {.nonce = rng_(),
                     .samples = samples_,
                     .progress = std::clamp(known_progress(), 0.0, 1.0),
                     .may_adopt = may_adopt()}};
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

void Core::send_due_opens(Time now, Outbox& out) {
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

void Core::receive(Links::iterator at, wire::LinkOpen& open, Time now, Outbox& out) {
  Link& link = at->second;
  if (link.rounds.has_received()) {
    if (!link.rounds.has_sent() || link.rounds.count() >= kRoundsMax) {
      misbehaved(at, "opens its link again and again", out);
      return;
    }
    new_round(at, out);
  }
  link.rounds.receive();
  neighbours_progress_ = std::max(neighbours_progress_, open.progress);
  Greeting& greeting = *link.in<Greeting>();
  if (const auto* said = std::get_if<Said>(&greeting.messages)) {
    decide(at, *said, open, now, out);
  } else {
    greeting.messages = Heard{open};
  }
}

// With both LinkOpens of a round, taken by value: the state that holds one of them ends here.
void Core::decide(Links::iterator at, Said said, wire::LinkOpen theirs, Time now, Outbox& out) {
  auto& [peer, link] = *at;
  const wire::LinkOpen& mine = said.mine;
  const OpenDecision decision = decide_opening(mine, theirs);
  if (decision == OpenDecision::resume) return resume(at, theirs.committed, now, out);
  const bool too_late = has_history_ || adopting();
  if (link.in<Greeting>()->before) drop_before(at, out);
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
      if (too_late) return new_round(at, out);
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
      if (has_history_) return new_round(at, out);
      link.state = Waiting{mine.samples != theirs.samples ? mine.samples > theirs.samples
                                                          : mine.nonce < theirs.nonce,
                           now + kWaitTimeout};
      break;
  }
}

// Others mix with this replica from here on.
JobTag Core::request_keyframe(const PeerId& peer, bool with_buffers, Outbox& out) {
  has_history_ = true;
  const JobTag tag = ++last_tag_;
  out.emplace_back(Run{KeyframeJob{.peer = peer, .tag = tag, .with_buffers = with_buffers}});
  return tag;
}

void Core::set_mirrors(Links::iterator at, std::uint64_t session, OpenJob job, Outbox& out) {
  job.tag = ++last_tag_;
  at->second.state = SettingMirrors{
      .session = session, .adopts = job.decision == OpenDecision::adopt, .open_job = job.tag};
  out.emplace_back(Run{std::move(job)});
}

// With the own keyframe and the other end's, once both are there.
void Core::merge_when_ready(Links::iterator at, Outbox& out) {
  Merging& merging = *at->second.in<Merging>();
  auto* own = std::get_if<base::Buffer>(&merging.own);
  if (own == nullptr || !merging.theirs) return;
  OpenJob job{.peer = at->first,
              .decision = OpenDecision::merge,
              .own = std::move(*own),
              .their = std::move(*merging.theirs)};
  set_mirrors(at, merging.session, std::move(job), out);
}

// Goes on where both ends stand: each sends again what the other has not committed.
void Core::resume(Links::iterator at, base::ExchangeNumber theirs, Time now, Outbox& out) {
  auto& [peer, link] = *at;
  // An adoption has replaced the replica of that session since this end sent its LinkOpen.
  if (link.session() == nullptr) return new_round(at, out);
  has_history_ = true;
  // Where the ends differ, the delta that one lacks and the other has used must still be here.
  Session& before = *link.session();
  if (theirs != before.committed && before.own(std::max(theirs, before.committed)) == nullptr) {
    misbehaved(
        at, "claims to have committed exchanges that it has not, or not to have those it has", out);
    return;
  }
  Session session = std::move(before);
  link.state = OpenState{std::move(session)};
  Session& open = link.open()->session;
  out.emplace_back(Run{ResumeJob{peer}});
  std::erase_if(open.kept, [&](const wire::Delta& delta) {
    // Those at or before a commit of the other end's are not asked for again.
    return delta.exchange <= theirs && delta.exchange <= open.committed;
  });
  for (const wire::Delta& delta : open.kept) {
    if ((delta.exchange <= theirs && !SIM_BUG(all_resent)) || SIM_BUG(nothing_resent)) continue;
    reserve_upload(link, delta.payload.size() + delta.buffers.size(), now);
    out.emplace_back(Send{peer, delta});
  }
  request_next(peer, link, now, out);
}

void Core::receive(Links::iterator at, wire::Keyframe& keyframe, Outbox& out) {
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
    misbehaved(at, "sent a keyframe that was not due", out);
    return;
  }
  if (keyframe.payload.size() > payload_bytes_max(options_.elements)) {
    misbehaved(at, "sent a keyframe that is too long", out);
    return;
  }
  const std::size_t due = adopting != nullptr ? options_.buffers * sizeof(float) : 0;
  if (keyframe.buffers.size() != due) {
    misbehaved(at,
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

// A keyframe takes as long as its line needs. Time is added by the bytes that have come, so that an
// end that sends them one by one cannot hold this peer up for long.
void Core::on(const KeyframeArriving& event, Time now, Outbox&) {
  const auto at = links_.find(event.peer);
  auto* adopting = at == links_.end() ? nullptr : at->second.in<Adopting>();
  if (adopting == nullptr) return;
  const double rate =
      std::max(kKeyframeRateMin, static_cast<double>(payload_bytes_max(options_.elements)) /
                                     base::seconds(kKeyframeTimeMax));
  const auto paid = base::from_seconds(static_cast<double>(event.bytes) / rate);
  adopting->ask_until = std::min(adopting->ask_until + paid, now + ask_timeout(at->second));
}

void Core::on(KeyframeMade& event, Time now, Outbox& out) {
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
    return refuse_or_fail(at, event.status.error(), out);
  }
  reserve_upload(link, event.payload.size() + event.buffers.size(), now);
  out.emplace_back(Send{event.peer, wire::Keyframe{.samples = samples_,
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

void Core::on(Opened& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end()) return;
  Link& link = at->second;
  auto* setting = link.in<SettingMirrors>();
  if (setting == nullptr || setting->open_job != event.tag) return;
  if (!event.status && event.status.error().code == base::ErrorCode::protocol) {
    misbehaved(at, event.status.error().text, out);
    return;
  }
  if (!event.status && event.again && end_oldest_grace(out)) {
    setting->open_job = event.again->tag = ++last_tag_;
    out.emplace_back(Run{std::move(*event.again)});
    return;
  }
  if (!event.status) return refuse_or_fail(at, event.status.error(), out);
  SettingMirrors set = std::move(*setting);
  link.state = OpenState{{.id = set.session, .due = step_}};
  link.opened = had_link_ = true;
  if (set.adopts) {
    has_history_ = true;
    reopen_others(event.peer, out);
  }
  request_next(event.peer, link, now, out);
  if (set.early) take(at, std::move(*set.early), now, out);
}

// Starts the opening of a link again; the own LinkOpen follows as soon as may_send_open() holds.
void Core::new_round(Links::iterator at, Outbox& out) {
  at->second.rounds.start();
  drop_session(at, out);
  at->second.state = Greeting{};
}

// Frees the mirrors that a link which opens had as it broke.
void Core::drop_before(Links::iterator at, Outbox& out) {
  drop_session(at, out);
  at->second.in<Greeting>()->before.reset();
}

// The replica has become another one: links that were opened, or wait, with the old one start anew,
// and what a link that broke had of it is gone.
void Core::reopen_others(const PeerId& peer, Outbox& out) {
  for (auto at = links_.begin(); at != links_.end();) {
    const auto current = at++;
    auto& [other, link] = *current;
    if (other == peer) continue;
    if (link.broken() != nullptr) {
      forget(current, out);
      continue;
    }
    if (auto* greeting = link.in<Greeting>(); greeting != nullptr && greeting->before) {
      drop_before(current, out);
    }
    if (link.rounds.may_start()) new_round(current, out);
  }
}

// Where two peers would both adopt, the one with more samples (the smaller nonce where equal) makes
// do with what it has after a while, and the other one adopts from it: but not while somebody
// better is asked.
void Core::expire_waiting(Time now, Outbox& out) {
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
      has_history_ = true;
      new_round(at, out);
    } else if (waiting->until <= now) {
      waiting->until = now + kWaitTimeout;  // not yet, or the other end's turn
    }
  }
}

// Where both ends have restarted, both listen: the timeout lets them go on.
void Core::expire_listening(Time now) {
  for (auto& [peer, link] : links_) {
    if (Silent* silent = link.silent(); silent != nullptr && silent->listen_until <= now) {
      silent->listen_until.reset();
    }
  }
}

// A neighbour that gives no replica in time is not waited for any more, and the next one is asked.
// One that has not even answered is only passed over: a LinkOpen cannot be taken back.
void Core::expire_asking(Time now, Outbox& out) {
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
    out.emplace_back(
        base::Notice{base::Severity::warning,
                     fmt::format("{} was asked for its replica and does not give it; whoever else "
                                 "is there is asked",
                                 peer.brief())});
    new_round(at, out);
  }
}

}  // namespace starling::exchange
