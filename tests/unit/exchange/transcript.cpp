#include "transcript.hpp"

#include <utility>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

#include "base/enum_names.hpp"

namespace starling::exchange::test {
namespace {

std::string name_of(const base::PeerId& peer) { return {static_cast<char>(peer.bytes[0])}; }

constexpr base::EnumNames<OpenDecision, 6> kDecisionNames{{
    {"resume", OpenDecision::resume},
    {"fresh", OpenDecision::fresh},
    {"adopt", OpenDecision::adopt},
    {"give", OpenDecision::give},
    {"merge", OpenDecision::merge},
    {"wait", OpenDecision::wait},
}};

std::string text_of(const EncodeJob& job) {
  return job.may_skip ? fmt::format("run encode {} if need be", job.exchange.value)
         : job.at_once
             ? fmt::format("run encode {} at once", job.exchange.value)
             : fmt::format("run encode {} at {}", job.exchange.value, job.not_before.value);
}
std::string text_of(const CommitJob& job) {
  return fmt::format("run commit {} w {:.4}", job.exchange.value, job.w);
}
std::string text_of(const KeyframeJob&) { return "run keyframe"; }
std::string text_of(const OpenJob& job) {
  return fmt::format("run open {}", base::name_of(job.decision, kDecisionNames));
}
std::string text_of(const SuspendJob&) { return "run suspend"; }
std::string text_of(const ResumeJob&) { return "run resume"; }
std::string text_of(const CloseJob&) { return "run close"; }

std::string text_of(const wire::LinkOpen& open) {
  return open.may_adopt ? "link open, may adopt" : "link open";
}
std::string text_of(const wire::Delta& delta) {
  return fmt::format("delta {} of {}{}", delta.exchange.value, delta.degree,
                     delta.settled ? " settled" : "");
}
std::string text_of(const wire::Keyframe&) { return "keyframe"; }
template <class Other>
std::string text_of(const Other&) {
  return "no message of the exchange";
}

std::string line(const Send& send) {
  return name_of(send.peer) + ": " +
         std::visit([](const auto& message) { return text_of(message); }, send.message);
}
std::string line(const Run& run) {
  return name_of(peer_of(run.job)) + ": " +
         std::visit([](const auto& job) { return text_of(job); }, run.job);
}
std::string line(const Misbehaved& bad) {
  return name_of(bad.peer) + (bad.is_judged ? ": turned away" : ": misbehaved");
}
std::string line(const NoRoom& who) { return name_of(who.peer) + ": no room"; }
std::string line(const Settled& settled) {
  std::string text = settled.unsettled ? "unsettled" : "settled";
  for (const LeftOut& one : settled.left_out) {
    text +=
        fmt::format(" without {}: {}", name_of(one.peer), base::name_of(one.why, kLeftOutNames));
  }
  return text;
}
std::string line(const base::LogEntry&) { return "notice"; }
std::string line(const Failed&) { return "failed"; }

}  // namespace

base::PeerId peer_named(char name) {
  base::PeerId id;
  id.bytes[0] = static_cast<std::uint8_t>(name);
  return id;
}

std::string line_of(const Action& action) {
  return std::visit([](const auto& one) { return line(one); }, action);
}

Lines lines_of(const Outbox& out) {
  Lines all;
  for (const Action& action : out) {
    const auto* send = std::get_if<Send>(&action);
    if (send != nullptr && std::holds_alternative<wire::Settle>(send->message)) continue;
    all.push_back(line_of(action));
  }
  return all;
}

Lines Transcript::on(Event event) {
  last.clear();
  core.handle(std::move(event), now, last);
  return lines();
}

Lines Transcript::expire() {
  last.clear();
  core.expire(now, last);
  return lines();
}

Lines Transcript::lines() {
  for (const Action& action : last) {
    if (const auto* run = std::get_if<Run>(&action)) {
      if (const auto* job = std::get_if<EncodeJob>(&run->job)) encode = *job;
      if (const auto* job = std::get_if<CommitJob>(&run->job)) commit = *job;
      if (const auto* job = std::get_if<KeyframeJob>(&run->job)) make_keyframe = *job;
      if (const auto* job = std::get_if<OpenJob>(&run->job)) open = *job;
    } else if (const auto* send = std::get_if<Send>(&action)) {
      if (const auto* first = std::get_if<wire::LinkOpen>(&send->message)) said = *first;
      if (const auto* delta = std::get_if<wire::Delta>(&send->message)) sent = *delta;
    }
  }
  return lines_of(last);
}

Lines Transcript::delta(char peer, std::uint64_t t, std::uint16_t degree, bool settled) {
  wire::Delta delta{.exchange = {t}, .degree = degree, .settled = settled};
  delta.payload.assign(4, static_cast<std::byte>(t));
  return on(Received{peer_named(peer), delta});
}

Lines Transcript::settle_without_tree() {
  for (const LinkStatus& link : core.links()) {
    on(Received{link.peer, wire::Settle{.root = 1, .off = true}});
  }
  return on(Phase::settling);
}

Lines Transcript::step(std::uint64_t step, double progress) {
  steps = step;
  return on(Progressed{{step}, step * 32, progress});
}

Lines Transcript::encoded(double drift, base::Status status) {
  BOOST_REQUIRE(encode);
  return on(Encoded{.peer = encode->peer,
                    .tag = encode->tag,
                    .exchange = encode->exchange,
                    .status = std::move(status),
                    .payload = base::Bytes(4, static_cast<std::byte>(encode->exchange.value)),
                    .drift = drift,
                    .density = encode->options.density,
                    .step = {steps},
                    .took = took});
}

Lines Transcript::skipped() {
  BOOST_REQUIRE(encode);
  BOOST_REQUIRE(encode->may_skip);
  return on(Encoded{.peer = encode->peer,
                    .tag = encode->tag,
                    .exchange = encode->exchange,
                    .status = {},
                    .skipped = true,
                    .drift = 0.001,
                    .step = {steps}});
}

Lines Transcript::committed(CommitResult result, base::ErrorCode code) {
  BOOST_REQUIRE(commit);
  Committed outcome{.peer = commit->peer,
                    .tag = commit->tag,
                    .exchange = commit->exchange,
                    .result = result,
                    .error = {code, "text"}};
  outcome.took = took;
  if (result == CommitResult::failed && code == base::ErrorCode::no_room) outcome.again = *commit;
  return on(std::move(outcome));
}

Lines Transcript::keyframe_made() {
  BOOST_REQUIRE(make_keyframe);
  return on(KeyframeMade{make_keyframe->peer, make_keyframe->tag, {}, base::Bytes(8)});
}

Lines Transcript::opened(base::Status status) {
  BOOST_REQUIRE(open);
  const bool no_room = !status && status.error().code == base::ErrorCode::no_room;
  return on(Opened{open->peer, open->tag, std::move(status),
                   no_room ? std::optional(*open) : std::nullopt});
}

Lines Transcript::open_fresh(char peer) {
  up(peer);
  link_open(peer, {.nonce = 7});
  return opened();
}

}  // namespace starling::exchange::test
