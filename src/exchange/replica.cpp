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
#include "base/simulated.hpp"
#include "exchange/replica_kernels.hpp"

namespace starling::exchange {
namespace {

using base::ErrorCode;
using base::fail;
using base::PeerId;
using kernels::kBlock;
using wire::delta_format::kMagnitudeMax;

// Drift is estimated from runs of kDriftRun elements, one in every kDriftEvery runs.
constexpr std::size_t kDriftRun = 64;
constexpr std::size_t kDriftEvery = 32;
constexpr std::size_t kDriftAhead = 8;      // runs that are on their way from memory
constexpr std::size_t kDriftWhole = 32768;  // elements: smaller replicas are read whole

// Whether the delta leaves all elements of the mirror that it touches finite and bounded. The step
// that follows a commit moves two mirrors towards each other, so it needs no check.
bool stays_bounded(std::span<const float> mirror, const delta::Elements& delta) {
  for (std::size_t j = 0; j < delta.size(); ++j) {
    if (!(std::fabs(mirror[delta.indices[j]] + delta.values[j]) <= kMagnitudeMax)) return false;
  }
  return true;
}

// An upper bound of the magnitudes after a commit, from that before: the deltas add to it, and the
// step, which moves two mirrors towards each other, but for its three roundings (2^-24 each) does
// not.
float bound_after(float bound, const delta::Elements& own, const delta::Elements& their) {
  constexpr float kRounding = 1.0F + 0x1p-20F;
  const float most = std::max(kernels::largest(own.values.data(), own.size()),
                              kernels::largest(their.values.data(), their.size()));
  return (bound + most) * kRounding;
}

// Adds the part of a delta that lies below `end`, from place `at`; returns the place after it.
std::size_t apply_until(const delta::Elements& delta, std::size_t at, std::size_t end,
                        base::LargeFloats& mirror) {
  for (; at < delta.size() && delta.indices[at] < end; ++at) {
    mirror[delta.indices[at]] += delta.values[at];
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
  ASSERT(averaging.moves_mirrors ? averaging.gamma == 1.0F : lambda == 0.0F);
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
  add_link(peer, {.mine = initial_, .theirs = initial_});
}

base::Status Replica::encode_keyframe(base::Buffer& out) const {
  return delta::encode_dense({.base = y_, .offset = r_, .mirror = initial_}, out);
}

base::Status Replica::open_merge(const PeerId& peer, base::ByteView own_keyframe,
                                 base::ByteView their_keyframe) {
  Link link{.mine = base::LargeFloats(size()), .theirs = base::LargeFloats(size())};
  if (auto status = delta::decode_dense(own_keyframe, initial_, link.mine); !status) return status;
  if (auto status = delta::decode_dense(their_keyframe, initial_, link.theirs); !status) {
    return status;
  }
  add_link(peer, std::move(link));
  return {};
}

base::Status Replica::open_adopted(const PeerId& peer, base::ByteView their_keyframe,
                                   base::ByteView their_buffers) {
  Link link{.mine = base::LargeFloats(size())};
  if (auto status = delta::decode_dense(their_keyframe, initial_, link.mine); !status) {
    return status;
  }
  auto buffers = buffers_.read(their_buffers);
  if (!buffers) return fail(std::move(buffers.error()));
  if (!BUG(buffers_not_adopted)) std::ranges::copy(*buffers, buffers_.values().begin());
  link.known_buffers = std::move(*buffers);
  link.theirs = link.mine;
  if (!BUG(adopted_not)) y_ = link.mine;
  std::ranges::fill(r_, 0.0F);
  add_link(peer, std::move(link));
  return {};
}

base::Status Replica::open_gave(const PeerId& peer, base::ByteView own_keyframe) {
  Link link{.mine = base::LargeFloats(size())};
  if (auto status = delta::decode_dense(own_keyframe, initial_, link.mine); !status) return status;
  link.theirs = link.mine;
  add_link(peer, std::move(link));
  return {};
}

base::Result<EncodeStats> Replica::encode(const PeerId& peer, const delta::Options& options,
                                          base::Buffer& out) {
  ASSERT(!staging());
  Link& link = this->link(peer);
  const auto count =
      delta::encode({.base = y_, .offset = r_, .mirror = link.mine}, options, scratch_, out);
  if (!count) return fail(count.error());
  if (lambda_ > 0.0F) {
    const auto read = delta::decode(out, size(), {.kind = delta::Kind::sparse}, link.written);
    ASSERT(read.has_value(), "what was written can be read");
    link.is_written = true;
  }
  return EncodeStats{.count = *count, .drift = drift_of(link)};
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
  const delta::Limits limits{.kind = delta::Kind::sparse};
  if (auto status = delta::decode(input.own, size(), limits, link.own); !status) return status;
  if (auto status = delta::decode(input.their, size(), limits, link.their); !status) return status;
  // Only where the mirrors come near the bound is each element looked at.
  link.staged_bound = bound_after(link.bound, link.own, link.their);
  if (link.staged_bound > kMagnitudeMax &&
      (!stays_bounded(link.mine, link.own) || !stays_bounded(link.theirs, link.their))) {
    return fail(ErrorCode::protocol, "delta: moves a mirror beyond {}", kMagnitudeMax);
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
  link.staged = true;
  return {};
}

void Replica::apply_staged() {
  if (!staging()) return;
  commit_staged();
  for (auto& [peer, link] : links_) {
    if (!link.staged) continue;
    average_buffers(link);
    link.bound = std::min(link.staged_bound, 2.0F * kMagnitudeMax);
    link.staged = false;
    link.written = {};  // the mirror has it now
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
  return base::xxh3(base::bytes_of(mirror(peer, which)));
}

std::span<const float> Replica::mirror(const PeerId& peer, MirrorOf which) const {
  const Link& link = this->link(peer);
  return which == MirrorOf::mine ? link.mine : link.theirs;
}

Replica::Link& Replica::link(const PeerId& peer) { return find(links_, peer)->second; }

const Replica::Link& Replica::link(const PeerId& peer) const { return find(links_, peer)->second; }

void Replica::add_link(const PeerId& peer, Link link) {
  ASSERT(links_.size() < kLinksMax + kGraceLinksMax);
  link.bound = std::max(kernels::largest(link.mine.data(), size()),
                        kernels::largest(link.theirs.data(), size()));
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
  for (std::size_t begin = 0; begin < size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, size() - begin);
    float* const r = r_.data() + begin;
    kernels::add(y_.data() + begin, r, x.data(), n);
    float keep = rest;
    for (Cursor& cursor : std::span(cursors).first(count)) {
      kernels::mix_in(x.data(), cursor.link->mine.data() + begin, keep, gain, r, n);
      keep = 1.0F;
      const delta::Elements& written = cursor.link->written;
      for (; cursor.at < written.size() && written.indices[cursor.at] < begin + n; ++cursor.at) {
        r_[written.indices[cursor.at]] -= gain * written.values[cursor.at];
      }
    }
    kernels::subtract(x.data(), r, y_.data() + begin, n);
  }
}

// With r as it is, y moves as x does.
void Replica::commit_staged() {
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
  std::array<float, kBlock> y;  // of all the streams the one that each link needs
  for (std::size_t begin = 0; begin < size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, size() - begin);
    std::copy_n(y_.data() + begin, n, y.data());
    for (Cursor& at : std::span(cursors).first(count)) {
      Link& link = *at.link;
      at.own = apply_until(link.own, at.own, begin + n, link.mine);
      if (!BUG(mirror_of_theirs_forgotten)) {
        at.their = apply_until(link.their, at.their, begin + n, link.theirs);
      }
      kernels::average(y.data(), link.mine.data() + begin, link.theirs.data() + begin,
                       averaging_.gamma * link.w, averaging_.moves_mirrors, n);
    }
    if (!BUG(step_not_applied)) std::copy_n(y.data(), n, y_.data() + begin);
  }
}

void Replica::let_go_if_alone() {
  if (open_links() > 0) return;
  std::ranges::transform(y_, r_, y_.begin(), std::plus<>());
  std::ranges::fill(r_, 0.0F);
}

double Replica::drift_of(Link& link) const {
  const std::size_t n = size();
  // Every call reads other runs.
  const std::size_t every = n < kDriftWhole ? 1 : kDriftEvery;
  const std::size_t first = link.encoded++ % every;
  const std::size_t step = every * kDriftRun;
  const std::array<const float*, 3> read{y_.data(), r_.data(), link.theirs.data()};
  kernels::Squares sums;
  for (std::size_t begin = first * kDriftRun; begin < n; begin += step) {
    for (const float* at : read) {
      base::prefetch(at + begin, kDriftAhead * step * sizeof(float), kDriftRun * sizeof(float));
    }
    kernels::add_squares(y_.data() + begin, r_.data() + begin, link.theirs.data() + begin,
                         std::min(kDriftRun, n - begin), sums);
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
  if (config.mode != Mode::choco) {
    return {initial, static_cast<float>(config.lambda), std::move(buffers)};
  }
  return {initial, 0.0F, std::move(buffers), {false, static_cast<float>(config.gamma)}};
}

}  // namespace starling::exchange
