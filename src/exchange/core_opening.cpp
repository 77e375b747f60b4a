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
  const auto* opening = link.opening();
  if (opening == nullptr || link.rounds.has_sent()) return false;
  if (opening->before && opening->before->commit_job != 0) return false;
  if (adopting()) return false;
  if (opening->listen_until && is_fresh_restart()) return false;
  if (!may_adopt()) return true;
  if (opening->theirs) {
    const bool both_fresh =
        known_progress() <= kFreshProgress && opening->theirs->progress <= kFreshProgress;
    if (both_fresh || opening->theirs->may_adopt) return true;
  }
  return !link.ask_after && link.failed_asks < kAsksMax && !asking();
}

bool Core::is_fresh_restart() const {
  return options_.has_state && !has_history_ && samples_ == options_.samples;
}

bool Core::asking() const {
  return std::ranges::any_of(links_, [](const auto& entry) {
    const auto* opening = entry.second.opening();
    return opening != nullptr && opening->ask_until.has_value();
  });
}

void Core::send_open(const PeerId& peer, Link& link, Time now, Outbox& out) {
  OpeningState& opening = *link.opening();
  wire::LinkOpen open{.nonce = rng_(),
                      .samples = samples_,
                      .progress = std::clamp(known_progress(), 0.0, 1.0),
                      .may_adopt = may_adopt()};
  if (opening.before && !SIM_RARE(session_forgotten)) {
    open.session = opening.before->id;
    open.committed = opening.before->committed;
  }
  opening.mine = open;
  if (open.may_adopt) opening.ask_until = now + ask_timeout(link);
  link.rounds.send();
  out.emplace_back(Send{peer, open});
}

void Core::send_due_opens(Time now, Outbox& out) {
  // A decision may let other links send their LinkOpen, or end the right to adopt: as long as
  // something moves.
  for (bool moved = true; moved;) {
    moved = false;
    for (auto at = links_.begin(); at != links_.end();) {
      const auto current = at++;
      if (!may_send_open(current->second)) continue;
      send_open(current->first, current->second, now, out);
      decide(current, now, out);
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
    new_round(at->first, link, out);
  }
  link.rounds.receive();
  neighbours_progress_ = std::max(neighbours_progress_, open.progress);
  link.opening()->listen_until.reset();
  link.opening()->theirs = open;
  decide(at, now, out);
}

void Core::decide(Links::iterator at, Time now, Outbox& out) {
  const PeerId& peer = at->first;
  Link& link = at->second;
  OpeningState* opening = link.opening();
  if (opening == nullptr || !opening->mine || !opening->theirs || opening->decision) return;
  const OpenDecision decision = decide_opening(*opening->mine, *opening->theirs);
  // An adoption has replaced the replica of that session since this end sent its LinkOpen.
  if (decision == OpenDecision::resume && !opening->before) return new_round(peer, link, out);
  const bool too_late = has_history_ || adopting();
  opening->decision = decision;
  if (decision != OpenDecision::adopt) opening->ask_until.reset();
  if (decision != OpenDecision::resume && opening->before) {
    drop_session(peer, link, out);
    opening->before.reset();
  }
  if (decision != OpenDecision::resume && link.opened) ++link.counters.reopenings;
  switch (decision) {
    case OpenDecision::resume:
      has_history_ = true;
      resume(at, now, out);
      break;
    case OpenDecision::fresh:
      set_mirrors_when_ready(peer, *opening, out);
      break;
    case OpenDecision::adopt:
      // Its keyframe comes by itself. It was passed over, and this peer has another replica by now,
      // or waits for one: this link opens when that is done.
      if (too_late) {
        new_round(peer, link, out);
      } else if (!opening->ask_until) {
        opening->ask_until = now + ask_timeout(link);  // its LinkOpen alone took all of the time
      }
      break;
    case OpenDecision::give:
    case OpenDecision::merge:
      has_history_ = true;
      opening->keyframe_job = ++last_tag_;
      out.emplace_back(
          Run{KeyframeJob{.peer = peer,
                          .tag = opening->keyframe_job,
                          .with_buffers = decision == OpenDecision::give && options_.buffers > 0}});
      break;
    case OpenDecision::wait:
      // Since this end sent its LinkOpen, long ago, it has a replica to give.
      if (has_history_) return new_round(peer, link, out);
      opening->wait_until = now + kWaitTimeout;
      break;
  }
}

void Core::set_mirrors_when_ready(const PeerId& peer, OpeningState& opening, Outbox& out) {
  const bool merges = opening.decision == OpenDecision::merge;
  if (merges && !(opening.own_keyframe && opening.their_keyframe)) return;
  opening.open_job = ++last_tag_;
  OpenJob job{.peer = peer, .tag = opening.open_job, .decision = *opening.decision};
  if (opening.own_keyframe) job.own = std::move(*opening.own_keyframe);
  if (opening.their_keyframe) job.their = std::move(*opening.their_keyframe);
  job.their_buffers = std::move(opening.their_buffers);
  opening.own_keyframe.reset();
  opening.their_keyframe.reset();
  out.emplace_back(Run{std::move(job)});
}

// Goes on where both ends stand: each sends again what the other has not committed.
void Core::resume(Links::iterator at, Time now, Outbox& out) {
  const PeerId& peer = at->first;
  Link& link = at->second;
  OpeningState& opening = *link.opening();
  Session session = std::move(*opening.before);
  const base::ExchangeNumber theirs = opening.theirs->committed;
  // Where the ends differ, the delta that one lacks and the other has used must still be here.
  if (theirs != session.committed && session.own(std::max(theirs, session.committed)) == nullptr) {
    opening.before = std::move(session);
    misbehaved(
        at, "claims to have committed exchanges that it has not, or not to have those it has", out);
    return;
  }
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
  OpeningState* opening = link.opening();
  const bool wanted =
      opening != nullptr && opening->open_job == 0 && !opening->their_keyframe &&
      (opening->decision == OpenDecision::adopt || opening->decision == OpenDecision::merge);
  if (!wanted) {
    misbehaved(at, "sent a keyframe that was not due", out);
    return;
  }
  if (keyframe.payload.size() > payload_bytes_max(options_.elements)) {
    misbehaved(at, "sent a keyframe that is too long", out);
    return;
  }
  const std::size_t due =
      opening->decision == OpenDecision::adopt ? options_.buffers * sizeof(float) : 0;
  if (keyframe.buffers.size() != due) {
    misbehaved(at,
               fmt::format("sent {} bytes of buffers with a keyframe where {} were due",
                           keyframe.buffers.size(), due),
               out);
    return;
  }
  opening->ask_until.reset();
  opening->their_keyframe = std::move(keyframe.payload);
  opening->their_buffers = std::move(keyframe.buffers);
  set_mirrors_when_ready(at->first, *opening, out);
}

// A keyframe takes as long as its line needs. Time is added by the bytes that have come, so that an
// end that sends them one by one cannot hold this peer up for long.
void Core::on(const KeyframeArriving& event, Time now, Outbox&) {
  const auto at = links_.find(event.peer);
  if (at == links_.end() || at->second.rounds.is_stale()) return;
  OpeningState* opening = at->second.opening();
  if (opening == nullptr || opening->decision != OpenDecision::adopt || !opening->ask_until) return;
  const double rate =
      std::max(kKeyframeRateMin, static_cast<double>(payload_bytes_max(options_.elements)) /
                                     base::seconds(kKeyframeTimeMax));
  const auto paid = base::from_seconds(static_cast<double>(event.bytes) / rate);
  opening->ask_until = std::min(*opening->ask_until + paid, now + ask_timeout(at->second));
}

void Core::on(KeyframeMade& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end()) return;
  OpeningState* opening = at->second.opening();
  if (opening == nullptr || opening->keyframe_job != event.tag) return;
  opening->keyframe_job = 0;
  if (!event.status) return refuse_or_fail(at, event.status.error(), out);
  reserve_upload(at->second, event.payload.size() + event.buffers.size(), now);
  out.emplace_back(Send{event.peer, wire::Keyframe{.samples = samples_,
                                                   .payload = event.payload,
                                                   .buffers = std::move(event.buffers)}});
  opening->own_keyframe = std::move(event.payload);
  set_mirrors_when_ready(event.peer, *opening, out);
}

void Core::on(Opened& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end()) return;
  Link& link = at->second;
  OpeningState* opening = link.opening();
  if (opening == nullptr || opening->open_job != event.tag) return;
  if (!event.status && event.status.error().code == base::ErrorCode::protocol) {
    misbehaved(at, event.status.error().text, out);
    return;
  }
  if (!event.status && event.again && end_oldest_grace(out)) {
    opening->open_job = event.again->tag = ++last_tag_;
    out.emplace_back(Run{std::move(*event.again)});
    return;
  }
  if (!event.status) return refuse_or_fail(at, event.status.error(), out);
  const OpenDecision decision = *opening->decision;
  std::optional<wire::Delta> early = std::move(opening->early);
  link.state =
      OpenState{{.id = session_of(opening->mine->nonce, opening->theirs->nonce), .due = step_}};
  link.opened = had_link_ = true;
  if (decision == OpenDecision::adopt) {
    has_history_ = true;
    reopen_others(event.peer, out);
  }
  request_next(event.peer, link, now, out);
  if (early) take(at, std::move(*early), now, out);
}

// Starts the opening of a link again; the own LinkOpen follows as soon as may_send_open() holds.
void Core::new_round(const PeerId& peer, Link& link, Outbox& out) {
  link.rounds.start();
  drop_session(peer, link, out);
  link.state = OpeningState{};
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
    if (auto* opening = link.opening(); opening != nullptr && opening->before) {
      drop_session(other, link, out);
      opening->before.reset();
    }
    if (link.rounds.may_start()) new_round(other, link, out);
  }
}

// Where two peers would both adopt, the one with more samples (the smaller nonce where equal) makes
// do with what it has after a while, and the other one adopts from it: but not while somebody
// better is asked.
void Core::expire_waiting(Time now, Outbox& out) {
  const auto waits = [](const Link& link) {
    const auto* opening = link.opening();
    return opening != nullptr && opening->decision == OpenDecision::wait;
  };
  const bool hopes = adopting() || asking();
  const bool gives_up = std::ranges::any_of(links_, [&](const auto& entry) {
    if (hopes || !waits(entry.second)) return false;
    const OpeningState& opening = *entry.second.opening();
    const auto& mine = *opening.mine;
    const auto& theirs = *opening.theirs;
    const bool first =
        mine.samples != theirs.samples ? mine.samples > theirs.samples : mine.nonce < theirs.nonce;
    return opening.wait_until <= now && first;
  });
  for (auto& [peer, link] : links_) {
    if (!waits(link)) continue;
    OpeningState& opening = *link.opening();
    if (gives_up) {
      has_history_ = true;
      new_round(peer, link, out);
    } else if (opening.wait_until <= now) {
      opening.wait_until = now + kWaitTimeout;  // not yet, or the other end's turn
    }
  }
}

// Where both ends have restarted, both listen: the timeout lets them go on.
void Core::expire_listening(Time now) {
  for (auto& [peer, link] : links_) {
    OpeningState* opening = link.opening();
    if (opening != nullptr && opening->listen_until <= now) opening->listen_until.reset();
  }
}

// A neighbour that gives no replica in time is not waited for any more, and the next one is asked.
// One that has not even answered is only passed over: a LinkOpen cannot be taken back.
void Core::expire_asking(Time now, Outbox& out) {
  for (auto& [peer, link] : links_) {
    if (link.ask_after && *link.ask_after <= now) link.ask_after.reset();
    OpeningState* opening = link.opening();
    if (opening == nullptr || !opening->ask_until || *opening->ask_until > now) continue;
    opening->ask_until.reset();
    if (!opening->decision) continue;
    link.ask_after = now + ask_timeout(link);
    ++link.failed_asks;
    out.emplace_back(
        base::Notice{base::Severity::warning,
                     fmt::format("{} was asked for its replica and does not give it; whoever else "
                                 "is there is asked",
                                 peer.brief())});
    new_round(peer, link, out);
  }
}

}  // namespace starling::exchange
