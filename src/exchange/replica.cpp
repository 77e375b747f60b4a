#include "exchange/replica.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/prefetch.hpp"
#include "base/rng.hpp"
#include "base/simulated.hpp"
#include "exchange/replica_kernels.hpp"

namespace starling::exchange {
namespace {

using base::ErrorCode;
using base::fail;
using base::PeerId;
using kernels::kBlock;
using wire::delta_format::kMagnitudeMax;

// Drift is estimated from runs of kDriftRun elements, one in every kDriftEvery runs, and from no
// more than about kDriftMost elements: runs that lie far apart take longer to come than whole
// pages.
constexpr std::size_t kDriftRun = 64;
constexpr std::size_t kDriftEvery = 32;
constexpr std::size_t kDriftMost = std::size_t{1} << 18;
constexpr std::size_t kDriftAhead = 8;      // runs that are on their way from memory
constexpr std::size_t kDriftWhole = 32768;  // elements: smaller replicas are read whole

// Whether the delta leaves all elements of the mirror that it touches finite and bounded. The step
// that follows a commit moves two mirrors towards each other, so it needs no check.
bool stays_bounded(delta::MirrorView mirror, const delta::Elements& delta) {
  for (std::size_t j = 0; j < delta.size(); ++j) {
    if (!(std::fabs(mirror.at(delta.indices[j]) + delta.values[j]) <= kMagnitudeMax)) return false;
  }
  return true;
}

// An upper bound of the magnitudes after a commit, from that before: the deltas add to it, and the
// step, which moves two mirrors towards each other, but for its three roundings (2^-24 each) and
// that to bfloat16 (2^-7) does not.
float bound_after(float bound, const delta::Elements& own, const delta::Elements& their,
                  MirrorType type) {
  const float kRounding = type == MirrorType::float32 ? 1.0F + 0x1p-20F : 1.0F + 0x1p-6F;
  const float most = std::max(kernels::largest(own.values.data(), own.size()),
                              kernels::largest(their.values.data(), their.size()));
  return (bound + most) * kRounding;
}

// Adds the part of a delta that lies in the block of `n` elements from `begin` on, from place `at`;
// returns the place after it.
std::size_t apply_block(const delta::Elements& delta, std::size_t at, std::size_t begin,
                        std::size_t n, float* block) {
  for (; at < delta.size() && delta.indices[at] < begin + n; ++at) {
    block[delta.indices[at] - begin] += delta.values[at];
  }
  return at;
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
      r_(initial.size(), 0.0F),
      lambda_(lambda),
      averaging_(averaging),
      buffers_(std::move(buffers)) {
  ASSERT(!initial.empty() && initial.size() <= wire::delta_format::kElementsMax);
  ASSERT(lambda >= 0.0F && lambda <= 1.0F);
  ASSERT(averaging.gamma > 0.0F && averaging.gamma <= 1.0F);
  ASSERT(averaging.mode == Mode::choco || averaging.gamma == 1.0F);
  ASSERT((averaging.mode != Mode::choco && averaging.mode != Mode::push_sum) || lambda == 0.0F);
  for (float& value : initial_) {
    ASSERT(std::fabs(value) <= kMagnitudeMax, "initial parameters must be finite and bounded");
    value += 0.0F;  // -0 becomes +0: see the head of replica.hpp
  }
  y_ = initial_;
}

void Replica::read(std::span<float> x) const {
  ASSERT(x.size() == size());
  kernels::add(y_.data(), r_.data(), x.data(), size());
}

void Replica::open_fresh(const PeerId& peer) {
  Link link{.mine = Mirror(averaging_.mirror, initial_)};
  link.theirs = link.mine;
  add_link(peer, std::move(link));
}

base::Status Replica::encode_keyframe(base::Buffer& out) const {
  return delta::encode_dense({.base = y_, .offset = r_, .mirror = initial_}, out);
}

base::Status Replica::open_merge(const PeerId& peer, base::ByteView own_keyframe,
                                 base::ByteView their_keyframe) {
  auto mine = read_keyframe(own_keyframe);
  if (!mine) return fail(std::move(mine.error()));
  auto theirs = read_keyframe(their_keyframe);
  if (!theirs) return fail(std::move(theirs.error()));
  add_link(peer, {.mine = std::move(*mine), .theirs = std::move(*theirs)});
  return {};
}

base::Status Replica::open_adopted(const PeerId& peer, base::ByteView their_keyframe,
                                   base::ByteView their_buffers) {
  auto mirror = read_keyframe(their_keyframe);
  if (!mirror) return fail(std::move(mirror.error()));
  auto buffers = buffers_.read(their_buffers);
  if (!buffers) return fail(std::move(buffers.error()));
  if (!BUG(buffers_not_adopted)) std::ranges::copy(*buffers, buffers_.values().begin());
  if (!BUG(adopted_not)) y_ = mirror->values();
  std::ranges::fill(r_, 0.0F);
  add_link(peer,
           {.mine = *mirror, .theirs = std::move(*mirror), .known_buffers = std::move(*buffers)});
  return {};
}

base::Status Replica::open_gave(const PeerId& peer, base::ByteView own_keyframe) {
  auto mirror = read_keyframe(own_keyframe);
  if (!mirror) return fail(std::move(mirror.error()));
  add_link(peer, {.mine = *mirror, .theirs = std::move(*mirror)});
  return {};
}

base::Result<EncodeStats> Replica::encode(const PeerId& peer, const delta::Options& options,
                                          base::Buffer& out) {
  ASSERT(!staging());
  Link& link = this->link(peer);
  if (averaging_.mode == Mode::push_sum) {
    if (auto status = encode_keyframe(out); !status) return fail(std::move(status.error()));
    // An equal part for each neighbour and this peer, of what is not on its way yet.
    link.pushed = 0.0F;
    const double left = weight_ - weight_on_its_way();
    link.pushed = static_cast<float>(left / (1.0 + static_cast<double>(open_links())));
    return EncodeStats{
        .count = size(), .drift = distance_to(link.theirs, link), .push = link.pushed};
  }
  const auto count =
      delta::encode({.base = y_, .offset = r_, .mirror = link.mine.view()}, options, scratch_, out);
  if (!count) return fail(count.error());
  if (lambda_ > 0.0F) {
    delta::read_back(out, size(), scratch_, link.written);
    link.is_written = true;
  }
  return EncodeStats{.count = *count, .drift = distance_to(link.theirs, link)};
}

double Replica::buffer_drift(const PeerId& peer) const {
  if (buffers_.size() == 0) return 0.0;
  const Link& link = this->link(peer);
  return link.known_buffers.empty() ? 1.0 : buffers_.distance(link.known_buffers);
}

base::Status Replica::stage(const CommitInput& input) {
  ASSERT(input.w > 0.0F && input.w <= 0.5F);
  Link& link = this->link(input.peer);
  ASSERT(link.open && !link.staged);
  if (averaging_.mode == Mode::push_sum) {
    if (auto status = stage_push(link, input); !status) return status;
  } else if (auto status = stage_delta(link, input); !status) {
    return status;
  }
  std::vector<float> buffers[2];
  const base::ByteView bytes[2] = {input.own_buffers, input.their_buffers};
  for (std::size_t i = 0; i < 2; ++i) {
    if (bytes[i].empty()) continue;
    auto values = buffers_.read(bytes[i]);
    if (!values) return fail(std::move(values.error()));
    buffers[i] = std::move(*values);
  }
  link.own_buffers = std::move(buffers[0]);
  link.their_buffers = std::move(buffers[1]);
  link.w = input.w;
  std::uint64_t state = input.exchange.value;
  link.draw = static_cast<std::uint32_t>(base::splitmix64(state));
  link.staged = true;
  return {};
}

base::Status Replica::stage_push(Link& link, const CommitInput& input) {
  ASSERT(input.own_push >= 0.0F && input.their_push >= 0.0F && input.their_push <= kPushMax);
  auto own = read_keyframe(input.own);
  if (!own) return fail(std::move(own.error()));
  auto their = read_keyframe(input.their);
  if (!their) return fail(std::move(their.error()));
  link.own_keyframe = std::move(*own);
  link.their_keyframe = std::move(*their);
  link.own_push = input.own_push;
  link.their_push = input.their_push;
  return {};
}

base::Status Replica::stage_delta(Link& link, const CommitInput& input) {
  const delta::Limits limits{.kind = delta::Kind::sparse};
  if (auto status = delta::decode(input.own, size(), limits, link.own); !status) return status;
  if (auto status = delta::decode(input.their, size(), limits, link.their); !status) return status;
  // Only where the mirrors come near the bound is each element looked at.
  link.staged_bound = bound_after(link.bound, link.own, link.their, averaging_.mirror);
  if (link.staged_bound > kMagnitudeMax) {
    link.bound = std::max(link.mine.largest(), link.theirs.largest());
    link.staged_bound = bound_after(link.bound, link.own, link.their, averaging_.mirror);
  }
  if (link.staged_bound > kMagnitudeMax && (!stays_bounded(link.mine.view(), link.own) ||
                                            !stays_bounded(link.theirs.view(), link.their))) {
    return fail(ErrorCode::protocol, "delta: moves a mirror beyond {}", kMagnitudeMax);
  }
  return {};
}

void Replica::apply_staged() {
  if (!staging()) return;
  if (averaging_.mode == Mode::push_sum) {
    commit_pushes();
  } else {
    commit_deltas();
  }
  for (auto& [peer, link] : links_) {
    if (!link.staged) continue;
    average_buffers(link);
    link.bound = std::min(link.staged_bound, 2.0F * kMagnitudeMax);
    link.staged = false;
    link.written.indices.clear();  // the mirror has it now
    link.written.values.clear();
  }
}

// The other end does the same with what it got, so what it has afterwards is known here, but for
// what it trained and exchanged with others meanwhile.
void Replica::average_buffers(Link& link) {
  if (link.their_buffers.empty()) return;
  if (!BUG(buffers_not_averaged)) buffers_.average(link.their_buffers, link.w);
  for (std::size_t i = 0; i < link.own_buffers.size(); ++i) {
    link.their_buffers[i] = averaged(link.their_buffers[i], link.own_buffers[i], link.w);
  }
  link.known_buffers = std::move(link.their_buffers);
  link.their_buffers.clear();
  link.own_buffers.clear();
}

base::Status Replica::commit(const CommitInput& input) {
  ASSERT(!staging());
  if (auto status = stage(input); !status) return status;
  apply_staged();
  return {};
}

void Replica::suspend(const PeerId& peer) {
  Link& link = this->link(peer);
  ASSERT(link.open);
  link.open = false;
  let_go_if_alone();
}

void Replica::resume(const PeerId& peer) {
  Link& link = this->link(peer);
  ASSERT(!link.open);
  link.open = !BUG(suspended_for_ever);
}

void Replica::close(const PeerId& peer) {
  ASSERT(!staging());
  const auto freed = links_.erase(peer);
  ASSERT(freed == 1, "the link is open or suspended");
  let_go_if_alone();
}

std::size_t Replica::open_links() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(links_, [](const auto& entry) { return entry.second.open; }));
}

std::uint64_t Replica::mirror_hash(const PeerId& peer, MirrorOf which) const {
  return find_mirror(peer, which).hash();
}

base::LargeFloats Replica::mirror(const PeerId& peer, MirrorOf which) const {
  return find_mirror(peer, which).values();
}

const Mirror& Replica::find_mirror(const PeerId& peer, MirrorOf which) const {
  const Link& link = this->link(peer);
  return which == MirrorOf::mine ? link.mine : link.theirs;
}

Replica::Link& Replica::link(const PeerId& peer) { return find(links_, peer)->second; }

const Replica::Link& Replica::link(const PeerId& peer) const { return find(links_, peer)->second; }

base::Result<Mirror> Replica::read_keyframe(base::ByteView keyframe) const {
  base::LargeFloats values(size());
  if (auto status = delta::decode_dense(keyframe, initial_, values); !status) {
    return fail(std::move(status.error()));
  }
  return Mirror(averaging_.mirror, std::move(values));
}

void Replica::add_link(const PeerId& peer, Link link) {
  ASSERT(links_.size() < kLinksMax + kGraceLinksMax);
  link.bound = std::max(link.mine.largest(), link.theirs.largest());
  const bool is_new = links_.emplace(peer, std::move(link)).second;
  ASSERT(is_new, "the link is not open yet");
}

// A link that is not among them keeps its part of r as if it had the mean: no vector a link is
// needed for that, and one that fell silent is forgotten.
void Replica::hold_back() {
  ASSERT(!staging());
  struct Cursor {
    const Link* link;
    std::size_t at = 0;
  };
  std::array<Cursor, kLinksMax + kGraceLinksMax> cursors;
  std::size_t count = 0;
  for (auto& [peer, link] : links_) {
    if (link.is_written && link.open) cursors[count++] = {&link};
    link.is_written = false;
  }
  if (count == 0) return;
  const auto links = static_cast<float>(open_links());
  const float gain = lambda_ / links;
  const float rest = 1.0F - static_cast<float>(count) / links;
  std::array<float, kBlock> x;
  Mirror::Room room;
  for (std::size_t begin = 0; begin < size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, size() - begin);
    float* const r = r_.data() + begin;
    kernels::add(y_.data() + begin, r, x.data(), n);
    float keep = rest;
    for (Cursor& cursor : std::span(cursors).first(count)) {
      kernels::mix_in(x.data(), cursor.link->mine.read(begin, n, room), keep, gain, r, n);
      keep = 1.0F;
      const delta::Elements& written = cursor.link->written;
      for (; cursor.at < written.size() && written.indices[cursor.at] < begin + n; ++cursor.at) {
        r_[written.indices[cursor.at]] -= gain * written.values[cursor.at];
      }
    }
    kernels::subtract(x.data(), r, y_.data() + begin, n);
  }
}

double Replica::weight_on_its_way() const noexcept {
  double sum = 0.0;
  for (const auto& [peer, link] : links_) sum += static_cast<double>(link.pushed);
  return sum;
}

void Replica::commit_pushes() {
  Mirror::Room rooms[2];
  for (auto& [peer, link] : links_) {
    if (!link.staged) continue;
    weight_ += static_cast<double>(link.their_push) - static_cast<double>(link.own_push);
    ASSERT(weight_ > 0.0, "less is on its way than there is");
    link.pushed = 0.0F;
    link.mine = std::exchange(link.own_keyframe, {});
    link.theirs = std::exchange(link.their_keyframe, {});
    const auto out = static_cast<float>(static_cast<double>(link.own_push) / weight_);
    const auto in = static_cast<float>(static_cast<double>(link.their_push) / weight_);
    for (std::size_t begin = 0; begin < size(); begin += kBlock) {
      const std::size_t n = std::min(kBlock, size() - begin);
      kernels::push(link.mine.read(begin, n, rooms[0]), link.theirs.read(begin, n, rooms[1]), out,
                    in, y_.data() + begin, n);
    }
  }
}

// With r as it is, y moves as x does.
void Replica::commit_deltas() {
  struct Cursor {
    Link* link;
    std::size_t own = 0;
    std::size_t their = 0;
  };
  std::array<Cursor, kLinksMax + kGraceLinksMax> cursors;
  std::size_t count = 0;
  for (auto& [peer, link] : links_) {
    if (link.staged) cursors[count++] = {&link};
  }
  Mirror::Room rooms[2];
  std::array<float, kBlock> y;  // of all the streams the one that each link needs
  for (std::size_t begin = 0; begin < size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, size() - begin);
    std::copy_n(y_.data() + begin, n, y.data());
    for (Cursor& at : std::span(cursors).first(count)) {
      Link& link = *at.link;
      float* const mine = link.mine.take(begin, n, rooms[0]);
      float* const theirs = link.theirs.take(begin, n, rooms[1]);
      at.own = apply_block(link.own, at.own, begin, n, mine);
      if (!BUG(mirror_of_theirs_forgotten)) {
        at.their = apply_block(link.their, at.their, begin, n, theirs);
      }
      const float w = averaging_.gamma * link.w;
      const bool moves_mirrors = averaging_.mode != Mode::choco;
      if (averaging_.mirror == MirrorType::float32) {
        kernels::average(y.data(), mine, theirs, w, moves_mirrors, n);
      } else {
        kernels::average_halves(y.data(), mine, theirs, w, moves_mirrors,
                                {.mine = link.mine.half(begin),
                                 .theirs = link.theirs.half(begin),
                                 .seed = link.draw,
                                 .first = static_cast<std::uint32_t>(begin)},
                                n);
      }
    }
    if (!BUG(step_not_applied)) std::copy_n(y.data(), n, y_.data() + begin);
  }
}

void Replica::let_go_if_alone() {
  if (open_links() > 0) return;
  std::ranges::transform(y_, r_, y_.begin(), std::plus<>());
  std::ranges::fill(r_, 0.0F);
}

double Replica::distance(const PeerId& peer, MirrorOf which) {
  Link& link = this->link(peer);
  return distance_to(which == MirrorOf::mine ? link.mine : link.theirs, link);
}

double Replica::distance_to(const Mirror& mirror, Link& link) const {
  const std::size_t n = size();
  // Every call reads other runs.
  const std::size_t every = n < kDriftWhole ? 1 : std::max(kDriftEvery, n / kDriftMost);
  const std::size_t first = link.looks++ % every;
  const std::size_t step = every * kDriftRun;
  kernels::Squares sums;
  Mirror::Room room;
  for (std::size_t begin = first * kDriftRun; begin < n; begin += step) {
    const std::size_t run = std::min(kDriftRun, n - begin);
    const std::size_t ahead = begin + kDriftAhead * step;
    for (const float* of : {y_.data(), r_.data()}) {
      base::prefetch(of, ahead * sizeof(float), kDriftRun * sizeof(float));
    }
    mirror.view().prefetch(ahead, kDriftRun);
    kernels::add_squares(y_.data() + begin, r_.data() + begin, mirror.read(begin, run, room), run,
                         sums);
  }
  const double away = std::accumulate(std::begin(sums.away), std::end(sums.away), 0.0);
  const double norm = std::accumulate(std::begin(sums.norm), std::end(sums.norm), 0.0);
  if (norm > 0.0) return std::sqrt(away / norm);
  return away > 0.0 ? 1.0 : 0.0;
}

bool Replica::staging() const noexcept {
  return std::ranges::any_of(links_, [](const auto& entry) { return entry.second.staged; });
}

Replica make_replica(std::span<const float> initial, const Config& config, BufferSpec buffers) {
  Averaging averaging{.mode = config.mode, .mirror = config.mirror};
  float lambda = static_cast<float>(config.lambda);
  if (config.mode == Mode::choco) {
    averaging.gamma = static_cast<float>(config.gamma);
    lambda = 0.0F;
  }
  return {initial, lambda, std::move(buffers), averaging};
}

}  // namespace starling::exchange
