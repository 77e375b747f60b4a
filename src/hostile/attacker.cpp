#include "hostile/attacker.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "delta/codec.hpp"
#include "hostile/hostile_learner.hpp"
#include "wire/messages.hpp"

namespace starling::hostile {
namespace {

using base::StepNumber;
using exchange::CommitJob;
using exchange::Encoded;
using exchange::EncodeJob;
using exchange::Replica;
using Jobs = std::span<const exchange::Job>;
using Outcomes = std::vector<exchange::Outcome>;

/// What a delta can carry, with room for rounding: the own end refuses to write more.
constexpr float kDifferenceMax = 0.99F * delta::format::kMagnitudeMax;

/// Runs jobs one after the other; `run` may give no outcome.
template <class Run>
Outcomes run_each(Jobs due, const Replica& replica, Run&& run) {
  Outcomes outcomes;
  for (const exchange::Job& job : due) {
    if (!replica.status()) return {};
    if (auto outcome = run(job)) outcomes.push_back(std::move(*outcome));
  }
  return outcomes;
}

/// Every value of the delta becomes this one, or its negative.
void poison(base::Bytes& payload, std::size_t elements, float value) {
  const auto shape = delta::read_header(payload, elements);
  ASSERT(shape.has_value(), "this peer wrote it");
  const auto at = shape->scales.data() - payload.data();
  for (std::size_t byte = 0; byte < shape->scales.size(); byte += sizeof value) {
    std::memcpy(payload.data() + at + static_cast<std::ptrdiff_t>(byte), &value, sizeof value);
  }
}

/// Sends values that are not finite. It does not commit what it has sent: no end can.
Outcomes send_poison(float value, Jobs due, Replica& replica, StepNumber step) {
  return run_each(due, replica, [&](const exchange::Job& job) -> std::optional<exchange::Outcome> {
    const auto* commit = std::get_if<CommitJob>(&job);
    if (commit != nullptr && !delta::check(commit->own, replica.size())) {
      return exchange::Committed{
          .peer = commit->peer, .tag = commit->tag, .exchange = commit->exchange};
    }
    auto outcome = exchange::run(job, replica, step);
    auto* const encoded = outcome ? std::get_if<Encoded>(&*outcome) : nullptr;
    if (encoded != nullptr && !encoded->payload.empty()) {
      poison(encoded->payload, replica.size(), value);
    }
    return outcome;
  });
}

/// Runs all but the commits, of which nobody hears again.
Outcomes leave_uncommitted(Jobs due, Replica& replica, StepNumber step) {
  return run_each(due, replica, [&](const exchange::Job& job) {
    return std::holds_alternative<CommitJob>(job) ? std::nullopt
                                                  : exchange::run(job, replica, step);
  });
}

/// In settling, says that the own replica and what each end knows are as far apart as can be.
Outcomes disagree(Jobs due, Replica& replica, StepNumber step) {
  return run_each(due, replica, [&](const exchange::Job& job) {
    const auto* encode = std::get_if<EncodeJob>(&job);
    if (encode == nullptr || encode->near_enough <= 0) return exchange::run(job, replica, step);
    EncodeJob always = *encode;
    always.may_skip = false;
    auto outcome = exchange::run(always, replica, step);
    auto& encoded = std::get<Encoded>(*outcome);
    encoded.drift = encoded.mirror_error = 1;
    return outcome;
  });
}

}  // namespace

Attacker::Attacker(const Attack& attack, Clock seconds, std::uint64_t seed)
    : attack_(attack), seconds_(std::move(seconds)), rng_(seed) {}

bool Attacker::is_active() const {
  return attack_.from_settling ? settles_ : seconds_() >= attack_.from;
}

void Attacker::arrange(exchange::Config& config) {
  config.lambda = 0;
  config.guard = false;
}

void Attacker::arrange(peer::Config& config) {
  if (attack_.kind == AttackKind::weight_lie) config.weight = wire::kWeightMax;
}

const data::SampleSet& Attacker::samples(const data::SampleSet& own) {
  if (attack_.kind != AttackKind::label_flip) return own;
  return samples_.emplace(own);
}

std::unique_ptr<peer::Learner> Attacker::learner(std::unique_ptr<peer::Learner> own) {
  return make_hostile_learner(std::move(own), attack_, [this] { return is_active(); });
}

Outcomes Attacker::exchange(Jobs due, Replica& replica, StepNumber step) {
  settles_ = settles_ || std::ranges::any_of(due, [](const exchange::Job& job) {
               const auto* encode = std::get_if<EncodeJob>(&job);
               return encode != nullptr && encode->near_enough > 0;
             });
  Outcomes outcomes =
      is_active() ? attack(due, replica, step) : exchange::run_batch(due, replica, step);
  note_links(due, replica);
  return outcomes;
}

Outcomes Attacker::attack(Jobs due, Replica& replica, StepNumber step) {
  using Limits = std::numeric_limits<float>;
  if (tells_other_replica(attack_.kind)) return tell(due, replica, step);
  switch (attack_.kind) {
    case AttackKind::nan:
      return send_poison(Limits::quiet_NaN(), due, replica, step);
    case AttackKind::infinity:
      return send_poison(Limits::infinity(), due, replica, step);
    case AttackKind::never_commits:
      return leave_uncommitted(due, replica, step);
    case AttackKind::disagrees:
      return disagree(due, replica, step);
    default:
      return exchange::run_batch(due, replica, step);
  }
}

// While a delta or a keyframe is written, the replica is the one that is told; then it is again
// what it was before, whatever the exchanges have moved it by. Nothing is held back from it, so it
// is what is trained.
Outcomes Attacker::tell(Jobs due, Replica& replica, StepNumber step) {
  const std::span<float> y = replica.trained();
  ASSERT(!y.empty(), "hostile peers train in the processor's memory");
  own_.assign(y.begin(), y.end());
  return run_each(due, replica, [&](const exchange::Job& job) {
    const bool tells = std::holds_alternative<EncodeJob>(job) ||
                       std::holds_alternative<exchange::KeyframeJob>(job);
    if (tells) std::ranges::copy(told_to(job, replica), y.begin());
    auto outcome = exchange::run(job, replica, step);
    const auto* open = std::get_if<exchange::OpenJob>(&job);
    if (open != nullptr && open->decision == exchange::OpenDecision::adopt) {
      own_.assign(y.begin(), y.end());
    }
    std::ranges::copy(own_, y.begin());
    return outcome;
  });
}

base::LargeFloats Attacker::told_to(const exchange::Job& job, const Replica& replica) {
  using exchange::MirrorOf;
  const base::PeerId& peer = exchange::peer_of(job);
  const bool has_mirrors = std::holds_alternative<EncodeJob>(job);
  Known known{.own = own_};
  const auto add = [&](const base::PeerId& other) {
    if (replica.has(other)) known.mirrors.push_back(replica.mirror(other, MirrorOf::theirs));
  };
  if (follows_mean(attack_.kind)) std::ranges::for_each(links_, add);
  if (!has_mirrors) return told(attack_, known, rng_);
  const base::LargeFloats theirs = replica.mirror(peer, MirrorOf::theirs);
  const base::LargeFloats mine = replica.mirror(peer, MirrorOf::mine);
  known.theirs = theirs;
  if (const auto before = means_.find(peer); before != means_.end()) {
    known.mean_before = before->second;
  }
  base::LargeFloats values = told(attack_, known, rng_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::clamp(values[i], mine[i] - kDifferenceMax, mine[i] + kDifferenceMax);
  }
  if (attack_.kind == AttackKind::ipm && !known.mirrors.empty()) {
    means_[peer] = mean_of(known.mirrors);
  }
  return values;
}

void Attacker::note_links(Jobs due, const Replica& replica) {
  for (const exchange::Job& job : due) links_.insert(exchange::peer_of(job));
  const auto is_gone = [&](const base::PeerId& peer) { return !replica.has(peer); };
  std::erase_if(links_, is_gone);
  std::erase_if(means_, [&](const auto& entry) { return is_gone(entry.first); });
}

std::unique_ptr<peer::Conduct> make_attacker(const Attack& attack, Attacker::Clock seconds,
                                             std::uint64_t seed) {
  return std::make_unique<Attacker>(attack, std::move(seconds), seed);
}

}  // namespace starling::hostile
