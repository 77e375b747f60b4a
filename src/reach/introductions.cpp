#include "reach/introductions.hpp"

#include <algorithm>
#include <utility>

#include "base/simulated.hpp"
#include "reach/network.hpp"

namespace starling::reach {

using wire::Introduce;
using wire::IntroduceKind;

void Introductions::on_message(base::LinkId from, const Introduce& message, const Call& call) {
  Link& link = parts_.links.at(from);
  if (!link.is_direct()) return;
  const bool starts = message.kind == IntroduceKind::ask || message.kind == IntroduceKind::go;
  if (starts && !link.introductions.take(call.now)) return;
  if (message.kind == IntroduceKind::absent) {
    if (!message.passed_on) parts_.search.on_introduced(from, message, call);
    return;
  }
  if (!message.passed_on) return pass_on(from, message, call);
  const wire::MemberRecord* other = call.members.find(message.other);
  if (other == nullptr || message.other == parts_.self || message.other == link.peer) return;
  if (message.kind == IntroduceKind::ask) return on_asked(from, message, *other, call);
  if (message.kind == IntroduceKind::go) return on_go(from, message, *other, call);
  parts_.search.on_introduced(from, message, call);
}

// The member in common: it names the sender, and the address at which it sees the sender.
void Introductions::pass_on(base::LinkId from, const Introduce& message, const Call& call) {
  const Link& link = parts_.links.at(from);
  const base::LinkId to =
      message.other == link.peer ? base::LinkId{} : parts_.links.direct(message.other);
  if (!to.valid() || SIM_BUG(introduced_never)) {
    if (message.kind != IntroduceKind::ask) return;
    return call.send(
        from,
        Introduce{.kind = IntroduceKind::absent, .nonce = message.nonce, .other = message.other});
  }
  call.send(to, Introduce{.kind = message.kind,
                          .passed_on = true,
                          .nonce = message.nonce,
                          .other = link.peer,
                          .observed = link.observed,
                          .load = parts_.circuits.load()});
}

// Somebody wants a link with this peer and cannot dial it.
void Introductions::on_asked(base::LinkId from, const Introduce& message,
                             const wire::MemberRecord& asker, const Call& call) {
  if (parts_.search.leads(asker.id, call)) return;
  // The record says that this peer can be dialed, or the asker has an old record.
  parts_.own.doubt(call.now);
  const bool first = std::ranges::none_of(introduced_, [&](const Introduced& entry) {
    return entry.peer == asker.id && entry.nonce == message.nonce;
  });
  if (first && introduced_.size() >= kIntroducedMax) return;
  // The answer goes through every member in common, so that the asker may choose.
  introduced_.push_back({.peer = asker.id,
                         .link = from,
                         .nonce = message.nonce,
                         .observed = message.observed,
                         .until = call.now + kIntroducedFor});
  if (introduced_.size() > kIntroducedMax) introduced_.erase(introduced_.begin());
  call.send(from,
            Introduce{.kind = IntroduceKind::answer, .nonce = message.nonce, .other = asker.id});
  if (!first || asker.reach != wire::Reachability::reachable || asker.addresses.empty()) return;
  if (!backs_.take(call.now)) return;
  dial_back(asker.addresses.front(), introduced_.back(), DialKind::direct, call);
}

void Introductions::on_go(base::LinkId from, const Introduce& message,
                          const wire::MemberRecord& asker, const Call& call) {
  const auto found = std::ranges::find_if(introduced_, [&](const Introduced& entry) {
    return entry.link == from && entry.peer == asker.id && entry.nonce == message.nonce;
  });
  if (found == introduced_.end() || found->goes >= kTries) return;
  ++found->goes;
  // Its router may have given it another port meanwhile.
  if (!message.observed.empty()) found->observed = message.observed;
  for (std::string& address : meeting_places(asker, found->observed)) {
    if (!backs_.take(call.now)) return;
    dial_back(std::move(address), *found, DialKind::punch, call);
  }
}

void Introductions::dial_back(std::string address, const Introduced& asker, DialKind kind,
                              const Call& call) {
  parts_.dials.start({.purpose = Dialing::Purpose::back,
                      .address = std::move(address),
                      .peer = asker.peer,
                      .nonce = asker.nonce},
                     kind, call.out);
}

void Introductions::on_link_lost(base::LinkId link) {
  std::erase_if(introduced_, [&](const Introduced& entry) { return entry.link == link; });
}

void Introductions::expire(base::Time now) {
  std::erase_if(introduced_, [&](const Introduced& entry) { return entry.until <= now; });
}

}  // namespace starling::reach
