#include "exchange/replica.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"
#include "base/simulated.hpp"
#include "delta/dense.hpp"
#include "delta/host_passes.hpp"
#include "delta/quantize.hpp"

namespace starling::exchange {
namespace {

using base::ErrorCode;
using base::fail;
using base::PeerId;
using delta::format::kMagnitudeMax;

// Drift is estimated from one run of elements in every kDriftEvery, and from no more than about
// kDriftMost elements: runs that lie far apart take longer to come than whole pages.
constexpr std::size_t kDriftEvery = 32;
constexpr std::size_t kDriftMost = std::size_t{1} << 18;
constexpr std::size_t kDriftWhole = 32768;  // elements: smaller replicas are read whole

// The largest magnitude; NaN or infinity where a value is.
float largest_of(std::span<const float> values) {
  return std::bit_cast<float>(delta::largest_magnitude(values.data(), values.size()));
}

static_assert(kLinksMax + kGraceLinksMax <= delta::ReplicaMemory::kStepsMax,
              "one commit takes the steps of all links");

// Whether the delta, and a momentum that moves no element by more than `momentum_step`, leave all
// elements of the mirror finite and bounded. The step that follows moves two mirrors towards each
// other, so it needs no check.
bool stays_bounded(std::span<const float> mirror, const delta::Elements& delta,
                   float momentum_step) {
  const float most = kMagnitudeMax - momentum_step;
  if (momentum_step > 0.0F && !(largest_of(mirror) <= most)) return false;
  for (std::size_t j = 0; j < delta.size(); ++j) {
    if (!(std::fabs(mirror[delta.indices[j]] + delta.values[j]) <= most)) return false;
  }
  return true;
}

// How much larger than exact a magnitude may come out of a mirror's roundings: four to float32
// (2^-24 each), and one to bfloat16 (2^-7).
float rounding_of(MirrorType type) {
  return type == MirrorType::float32 ? 1.0F + 0x1p-20F : 1.0F + 0x1p-6F;
}

// An upper bound of the magnitudes after a commit, from that before: the deltas, of values no
// larger than `largest`, add to it, and the step, which moves two mirrors towards each other, but
// for its roundings does not.
float bound_after(float bound, float largest, MirrorType type) {
  return (bound + largest) * rounding_of(type);
}

// If this end cannot read its own payload, the other end is not to blame.
base::Error own_fault(base::Error error) {
  if (error.code == ErrorCode::protocol) error.code = ErrorCode::internal;
  return error.in("what this peer wrote itself");
}

template <class Links>
auto find(Links& links, const PeerId& peer) {
  const auto found = links.find(peer);
  ASSERT(found != links.end(), "the link is open or suspended");
  return found;
}

}  // namespace

Replica::Replica(std::span<const float> initial, float lambda, BufferSpec buffers,
                 Averaging averaging)
    : initial_(initial.begin(), initial.end()),
      lambda_(lambda),
      averaging_(averaging),
      buffers_(std::move(buffers)) {
  ASSERT(!initial.empty() && initial.size() <= delta::format::kElementsMax);
  ASSERT(lambda >= 0.0F && lambda <= 1.0F);
  ASSERT(averaging.gamma > 0.0F && averaging.gamma <= 1.0F);
  ASSERT(averaging.mode == Mode::choco || averaging.gamma == 1.0F);
  ASSERT(averaging.momentum >= 0.0F && averaging.momentum < 1.0F);
  ASSERT(averaging.momentum_step >= 0.0F &&
         (averaging.momentum_step > 0.0F) == (averaging.momentum > 0.0F));
  ASSERT(averaging.mode == Mode::tracked || averaging.momentum == 0.0F);
  ASSERT(averaging.mode != Mode::choco || lambda == 0.0F);
  for (float& value : initial_) {
    ASSERT(std::fabs(value) <= kMagnitudeMax, "initial parameters must be finite and bounded");
    value += 0.0F;  // -0 becomes +0: see the head of replica.hpp
  }
  host_ = std::make_unique<delta::HostMemory>(initial_, averaging.mirror);
  memory_ = host_.get();
}

void Replica::move_to(delta::ReplicaMemory& memory) {
  ASSERT(host_ != nullptr && links_.empty());
  ASSERT(memory.size() == size() && memory.mirror_type() == averaging_.mirror);
  must(memory.write(host_->y()));
  memory_ = &memory;
  host_.reset();
}

// Keeps a device's first error.
base::Status Replica::noted(base::Status status) const {
  if (!status && status.error().code == ErrorCode::device && status_) status_ = status;
  return status;
}

// Of what cannot be left undone: for want of room, too.
base::Status Replica::must(base::Status status) const {
  if (!status && status_) status_ = status;
  return status;
}

// The value, or one that nobody may rely on.
template <class T>
T Replica::must(base::Result<T> result) const {
  if (result) return std::move(*result);
  must(base::Status(fail(std::move(result.error()))));
  return T{};
}

std::span<float> Replica::trained() noexcept {
  return host_ != nullptr ? host_->y() : std::span<float>{};
}

std::span<const float> Replica::trained() const noexcept {
  return host_ != nullptr ? std::as_const(*host_).y() : std::span<const float>{};
}

void Replica::read(std::span<float> x) const { must(memory_->read(x)); }

base::Status Replica::open_fresh(const PeerId& peer) {
  return noted(add_link(peer, initial_, initial_));
}

base::Status Replica::encode_keyframe(base::Bytes& out) const { return encode_from(initial_, out); }

base::Status Replica::encode_from(std::span<const float> origin, base::Bytes& out) const {
  base::LargeFloats x(size());
  if (auto status = noted(memory_->read(x)); !status) return status;
  return delta::encode_dense({.base = x, .offset = {}, .mirror = origin}, out);
}

base::Status Replica::open_merge(const PeerId& peer, base::ByteView own_keyframe,
                                 base::ByteView their_keyframe) {
  auto mine = read_keyframe(own_keyframe);
  if (!mine) return fail(own_fault(std::move(mine.error())));
  auto theirs = read_keyframe(their_keyframe);
  if (!theirs) return fail(std::move(theirs.error()));
  return noted(add_link(peer, std::move(*mine), std::move(*theirs)));
}

base::Status Replica::open_adopted(const PeerId& peer, base::ByteView their_keyframe,
                                   base::ByteView their_buffers) {
  auto values = read_keyframe(their_keyframe);
  if (!values) return fail(std::move(values.error()));
  auto buffers = buffers_.read(their_buffers);
  if (!buffers) return fail(std::move(buffers.error()));
  if (auto status = judge_adopted(*values, *buffers); !status) return status;
  if (auto status = add_link(peer, *values, *values, *buffers); !status) {
    return noted(std::move(status));
  }
  if (!SIM_BUG(buffers_not_adopted)) std::ranges::copy(*buffers, buffers_.values().begin());
  if (SIM_BUG(adopted_not)) return noted(memory_->release());
  // Mirrors may be narrower than what came.
  const auto theirs = memory_->mirror(find_mirror(peer, MirrorOf::theirs));
  if (!theirs) return noted(fail(theirs.error()));
  return noted(memory_->write(*theirs));
}

base::Status Replica::open_gave(const PeerId& peer, base::ByteView own_keyframe) {
  auto values = read_keyframe(own_keyframe);
  if (!values) return fail(own_fault(std::move(values.error())));
  return noted(add_link(peer, *values, *values));
}

base::Result<double> Replica::encode(const PeerId& peer, const delta::Options& options,
                                     base::Bytes& out) {
  ASSERT(!staging());
  Link& link = this->link(peer);
  delta::DeltaSource& difference = memory_->difference(link.mine, next_hold(link));
  const auto coded = noted(delta::encode(difference, options, scratch_, out, *link.written));
  if (!coded) return fail(coded.error());
  largest_written_ = std::max(largest_written_, link.written->size());
  link.written_hash = base::xxh3(out);
  return squares_to(link.theirs, link).distance();
}

double Replica::buffer_drift(const PeerId& peer) const {
  if (buffers_.size() == 0) return 0.0;
  const Link& link = this->link(peer);
  return link.known_buffers.empty() ? 1.0 : buffers_.distance(link.known_buffers);
}

base::Status Replica::stage(const CommitJob& job) {
  ASSERT(job.w > 0.0F && job.w <= 1.0F && job.degree_inverse > 0.0F && job.degree_inverse <= 1.0F);
  Link& link = this->link(job.peer);
  ASSERT(!link.staged);
  std::uint64_t state = job.exchange.value;
  Staged staged{.degree_inverse = job.degree_inverse,
                .takes = job.takes,
                .gathers = job.gathers,
                .draw = static_cast<std::uint32_t>(base::splitmix64(state))};
  if (auto status = stage_delta(link, job, staged); !status) return status;
  if (auto status = stage_step(link, job, staged); !status) return status;
  auto own = buffers_.read_if_any(job.own_buffers);
  if (!own) return fail(own_fault(std::move(own.error())));
  auto their = buffers_.read_if_any(job.their_buffers);
  if (!their) return fail(std::move(their.error()));
  staged.own_buffers = std::move(*own);
  staged.their_buffers = std::move(*their);
  link.staged = std::move(staged);
  return {};
}

// The step, clipped, and how far apart it leaves the mirrors.
base::Status Replica::stage_step(Link& link, const CommitJob& job, Staged& staged) {
  if (auto read = read_touched(link, own_delta(link, staged), touched_[0]); !read) {
    return noted(read);
  }
  if (auto read = read_touched(link, *link.their, touched_[1]); !read) return noted(read);
  staged.apart = link.apart;
  staged.apart.add(touched_[0], touched_[1]);
  if (staged.apart.is_vague()) {
    const auto measured = measure_apart(link);
    if (!measured) return fail(measured.error());
    staged.apart = *measured;
  }
  const double distance = staged.apart.distance();
  const auto clipped = static_cast<float>(
      clip(distance, job.parts, job.own_radius, job.their_radius, averaging_.far));
  staged.w = job.w * clipped;
  staged.momentum_step = job.goes_on ? averaging_.momentum_step * clipped : 0.0F;
  link.parts = job.parts;
  const double moves = averaging_.mode == Mode::choco ? 0.0 : staged.w;
  staged.apart.shrink(1.0 - moves * (double{job.parts.own} + double{job.parts.their}));
  if (job.goes_on) {
    const Guard::Exchange exchange{
        .parts = job.parts, .before = link.apart.distance(), .apart = distance};
    link.guard.stage(exchange, touched_[0].delta, touched_[1].delta, averaging_.clips);
  } else {
    link.guard.stage_nothing();
  }
  return {};
}

base::Status Replica::read_touched(Link& link, const delta::Delta& delta, Touched& into) {
  auto read = delta.read(into.delta.indices, into.delta.values);
  if (read) read = memory_->values_at(link.mine, delta, into.mine);
  if (read) read = memory_->values_at(link.theirs, delta, into.theirs);
  return read;
}

base::Status Replica::stage_delta(Link& link, const CommitJob& job, Staged& staged) {
  const auto own = delta::check(job.own, size());
  if (!own) return fail(own_fault(own.error()));
  const auto their = delta::check(job.their, size());
  if (!their) return fail(their.error());
  // This end knows the delta that it wrote last.
  staged.own_is_written = link.written->size() > 0 && link.written_hash == base::xxh3(job.own);
  base::Status decoded;
  if (!staged.own_is_written) {
    decoded = delta::decode(*own, *memory_, *link.own);
    if (!decoded) return noted(fail(own_fault(decoded.error())));
  }
  decoded = delta::decode(*their, *memory_, *link.their);
  if (decoded) decoded = memory_->reserve_commit(step_of(link, staged));
  if (!decoded) {
    link.their->free_beyond(0);  // how large it is, the other end has decided
    return noted(decoded);
  }
  const float largest = std::max(delta::largest_value(*own), delta::largest_value(*their));
  // Half the sum of both deltas adds to the momentum.
  staged.momentum_bound = averaging_.momentum * link.momentum_bound + largest;
  const float momentum_step = averaging_.momentum_step * staged.momentum_bound;
  staged.bound = bound_after(link.bound, largest + momentum_step, averaging_.mirror);
  return staged.bound > kMagnitudeMax ? check_bounds(link, largest, momentum_step, staged)
                                      : base::Status{};
}

// Only where the mirrors come near the bound is each element looked at.
base::Status Replica::check_bounds(Link& link, float largest, float momentum_step,
                                   Staged& staged) const {
  link.bound = 0.0F;
  bool stays[2]{};
  const std::pair<MirrorId, const delta::Delta*> sides[2] = {{link.mine, &own_delta(link, staged)},
                                                             {link.theirs, link.their.get()}};
  for (std::size_t side = 0; side < 2; ++side) {
    const auto values = memory_->mirror(sides[side].first);
    if (!values) return noted(base::Status(fail(values.error())));
    delta::Elements elements;
    if (auto read = sides[side].second->read(elements.indices, elements.values); !read) {
      return noted(read);
    }
    link.bound = std::max(link.bound, largest_of(*values));
    stays[side] = stays_bounded(*values, elements, momentum_step);
  }
  staged.bound = bound_after(link.bound, largest + momentum_step, averaging_.mirror);
  if (staged.bound <= kMagnitudeMax || (stays[0] && stays[1])) return {};
  if (!stays[1]) {
    return fail(ErrorCode::protocol, "delta: moves a mirror beyond {}", kMagnitudeMax);
  }
  return fail(ErrorCode::diverged, "the own delta moves a mirror beyond {}: training has diverged",
              kMagnitudeMax);
}

void Replica::apply_staged() {
  if (!staging()) return;
  must(commit_deltas());
  for (auto& [peer, link] : links_) {
    if (!link.staged) continue;
    Staged staged = std::move(*link.staged);
    link.staged.reset();
    link.bound = std::min(staged.bound, 2.0F * kMagnitudeMax);
    link.momentum_bound = std::min(staged.momentum_bound, kMagnitudeMax);
    link.apart = staged.apart;
    link.guard.commit();
    if (staged.takes) take(link);
    if (staged.gathers > 0.0F) gather(link, staged.gathers);
    average_buffers(link, staged);
    link.written->clear();  // the mirror has it now
    // A neighbour's delta is bounded by the replica alone: no more room stays for it than a few of
    // the own ones take.
    link.their->free_beyond(2 * largest_written_);
  }
}

// Together with what the deltas left out at this end, so that both ends have the same.
void Replica::take(const Link& link) {
  const auto values = memory_->mirror(link.mine);
  must(values ? memory_->write(*values) : fail(values.error()));
}

// From x itself, not from its mirror: what the other end does not know of x counts less, too.
void Replica::gather(const Link& link, float part) {
  const auto theirs = memory_->mirror(link.theirs);
  if (!theirs) return static_cast<void>(must(base::Status(fail(theirs.error()))));
  base::LargeFloats x(size());
  must(memory_->read(x));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = averaged(x[i], (*theirs)[i], part);
  must(memory_->write(x));
}

double Replica::learned() {
  if (learned_) return *learned_;
  base::LargeFloats x(size());
  must(memory_->read(x));
  learned_ = std::clamp(relative_distance(x, initial_), kLearnedMin, 1.0);
  return *learned_;
}

// The other end does the same with what it got, so what it has afterwards is known here, but for
// what it trained and exchanged with others meanwhile.
void Replica::average_buffers(Link& link, Staged& staged) {
  if (staged.their_buffers.empty()) return;
  const float moves = staged.w * link.parts.own;
  if (!SIM_BUG(buffers_not_averaged)) {
    buffers_.average(staged.their_buffers, staged.gathers > 0.0F ? staged.gathers : moves);
  }
  link.told_buffers = staged.own_buffers;
  link.known_buffers = std::move(staged.their_buffers);
  for (std::size_t i = 0; i < staged.own_buffers.size(); ++i) {
    const float own = staged.own_buffers[i];
    const float their = link.known_buffers[i];
    link.told_buffers[i] = averaged(own, their, moves);
    link.known_buffers[i] = averaged(their, own, staged.w * link.parts.their);
  }
}

void Replica::suspend(const PeerId& peer) {
  Link& link = this->link(peer);
  ASSERT(link.open);
  link.open = false;
  release_if_alone();
}

void Replica::resume(const PeerId& peer) {
  Link& link = this->link(peer);
  ASSERT(!link.open);
  link.open = !SIM_BUG(suspended_for_ever);
}

void Replica::close(const PeerId& peer) {
  ASSERT(!staging());
  const auto closed = find(links_, peer);
  memory_->free_mirror(closed->second.mine);
  memory_->free_mirror(closed->second.theirs);
  links_.erase(closed);
  release_if_alone();
}

std::size_t Replica::open_links() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(links_, [](const auto& entry) { return entry.second.open; }));
}

// How many neighbours as heavy as this end its open links are worth, at least one.
float Replica::open_parts() const noexcept {
  float parts = 0.0F;
  for (const auto& [peer, link] : links_) {
    if (link.open) parts += link.parts.own;
  }
  return std::max(parts, 1.0F);
}

std::uint64_t Replica::mirror_hash(const PeerId& peer, MirrorOf which) const {
  return must(memory_->hash(find_mirror(peer, which)));
}

base::LargeFloats Replica::mirror(const PeerId& peer, MirrorOf which) const {
  return must(memory_->mirror(find_mirror(peer, which)));
}

Replica::MirrorId Replica::find_mirror(const PeerId& peer, MirrorOf which) const {
  const Link& link = this->link(peer);
  return which == MirrorOf::mine ? link.mine : link.theirs;
}

Replica::Link& Replica::link(const PeerId& peer) { return find(links_, peer)->second; }

const Replica::Link& Replica::link(const PeerId& peer) const { return find(links_, peer)->second; }

base::Result<base::LargeFloats> Replica::read_keyframe(base::ByteView keyframe) const {
  base::LargeFloats values(size());
  if (auto status = delta::decode_dense(keyframe, initial_, values); !status) {
    return fail(std::move(status.error()));
  }
  return values;
}

// On failure there is no such link.
base::Status Replica::add_link(const PeerId& peer, base::LargeFloats mine, base::LargeFloats theirs,
                               std::vector<float> known_buffers) {
  ASSERT(links_.size() < kLinksMax + kGraceLinksMax);
  Link link;
  link.bound = std::max(largest_of(mine), largest_of(theirs)) * rounding_of(averaging_.mirror);
  link.apart = Apart(square_between(mine, theirs));
  const auto added = memory_->add_mirror(std::move(mine));
  if (!added) return fail(added.error());
  const auto their_added = memory_->add_mirror(std::move(theirs));
  if (!their_added) {
    memory_->free_mirror(*added);
    return fail(their_added.error());
  }
  link.mine = *added;
  link.theirs = *their_added;
  link.known_buffers = std::move(known_buffers);
  for (DeltaPointer* const delta : {&link.written, &link.own, &link.their}) {
    *delta = memory_->make_delta();
  }
  const bool is_new = links_.emplace(peer, std::move(link)).second;
  ASSERT(is_new, "the link is not open yet");
  return {};
}

void Replica::expect_deltas(std::size_t count) {
  deltas_to_come_ = count;
  parts_to_clear_ = count;
}

// Of what is held back each link has an equal part. The first of the deltas that are written now
// clears the parts of all of them. A link that is not among them keeps its part as if it had the
// mean: no vector a link is needed for that, and one that fell silent is forgotten. A light end
// that is told little does not hold a heavy one back, nor take the place of another neighbour.
std::optional<delta::ReplicaMemory::HoldBack> Replica::next_hold(const Link& link) {
  if (lambda_ == 0.0F || !link.open) return std::nullopt;
  if (deltas_to_come_ == 0) expect_deltas(1);
  --deltas_to_come_;
  const auto links = static_cast<float>(open_links());
  const auto cleared = static_cast<float>(std::exchange(parts_to_clear_, 0));
  return delta::ReplicaMemory::HoldBack{.keep = std::max(1.0F - cleared / links, 0.0F),
                                        .gain = lambda_ * link.parts.own / open_parts()};
}

base::Status Replica::commit_deltas() {
  std::vector<delta::ReplicaMemory::CommitStep> steps;
  for (const auto& [peer, link] : links_) {
    if (link.staged) steps.push_back(step_of(link, *link.staged));
  }
  return memory_->commit(steps);
}

delta::ReplicaMemory::CommitStep Replica::step_of(const Link& link, const Staged& staged) const {
  return {.mine = link.mine,
          .theirs = link.theirs,
          .own = &own_delta(link, staged),
          .their = link.their.get(),
          .w = averaging_.gamma * staged.w,
          .parts = link.parts,
          .moves_mirrors = averaging_.mode != Mode::choco,
          .draw = staged.draw,
          .momentum = averaging_.momentum,
          .momentum_step = staged.momentum_step,
          .degree_inverse = staged.degree_inverse};
}

void Replica::release_if_alone() {
  if (open_links() == 0) must(memory_->release());
}

double Replica::distance(const PeerId& peer, MirrorOf which) {
  return squares_to(find_mirror(peer, which), link(peer)).distance();
}

double Replica::untold(const PeerId& peer) {
  const delta::Squares sums = squares_to(find_mirror(peer, MirrorOf::mine), link(peer));
  untold_ = std::max(untold_, std::sqrt(sums.away * static_cast<double>(looked_every())));
  return sums.distance();
}

// One run of elements in so many is looked at.
std::size_t Replica::looked_every() const {
  return size() < kDriftWhole ? 1 : std::max(kDriftEvery, size() / kDriftMost);
}

delta::Squares Replica::squares_to(MirrorId mirror, Link& link) {
  const std::size_t every = looked_every();
  return must(
      memory_->squares(mirror, link.looks++ % every, every));  // every call reads other runs
}

bool Replica::staging() const noexcept {
  return std::ranges::any_of(links_,
                             [](const auto& entry) { return entry.second.staged.has_value(); });
}

Replica make_replica(std::span<const float> initial, const Config& config, BufferSpec buffers,
                     bool samples_are_alike) {
  Averaging averaging{.mode = config.mode,
                      .clips = clips(config),
                      .far = far_pull(samples_are_alike),
                      .mirror = config.mirror};
  float lambda = static_cast<float>(config.lambda);
  if (config.mode == Mode::choco) {
    averaging.gamma = static_cast<float>(config.gamma);
    lambda = 0.0F;
  }
  if (has_momentum(config)) {
    averaging.momentum = static_cast<float>(config.momentum);
    averaging.momentum_step = static_cast<float>(config.momentum_gain * (1.0 - config.momentum));
  }
  return {initial, lambda, std::move(buffers), averaging};
}

}  // namespace starling::exchange
