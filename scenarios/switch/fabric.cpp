#include "fabric.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace starling::net_switch {
namespace {

constexpr std::size_t kEthernetHeader = 14;

/// Bytes at bits a second.
base::Duration time_for(double bytes, double rate) { return base::from_seconds(bytes * 8 / rate); }

/// When this many bytes have passed a rate; nothing if they would wait longer than `queue`.
/// `free_at` is when everything accepted before has passed; it is moved on.
std::optional<base::Time> pass_rate(double rate, base::Duration queue, std::size_t bytes,
                                    base::Time now, base::Time& free_at) {
  if (rate <= 0) return now;
  // A token bucket by times: it holds kBurstBytes when everything accepted has long passed.
  const base::Time begin = std::max(now, free_at);
  const base::Time end = begin + time_for(static_cast<double>(bytes), rate);
  const base::Time passed = std::max(now, end - time_for(kBurstBytes, rate));
  if (passed - now > queue) return std::nullopt;
  free_at = end;
  return passed;
}

}  // namespace

std::array<std::uint8_t, 6> mac_of(std::size_t port) {
  // 02: chosen locally, for one device.
  return {0x02, 0, 0, 0, static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port)};
}

Fabric::Fabric(std::size_t ports, std::uint64_t seed) : ports_(ports), lines_(ports) {
  ASSERT(ports > 0 && ports <= kPortsMax);
  base::Rng rng(seed);
  pairs_.reserve(ports * ports);
  for (std::size_t i = 0; i < ports * ports; ++i) {
    pairs_.push_back(Pair{.conditions = {}, .counters = {}, .rng = rng.fork()});
  }
}

std::size_t Fabric::index(std::size_t from, std::size_t to) const {
  ASSERT(from < ports_ && to < ports_);
  return from * ports_ + to;
}

void Fabric::set(std::size_t from, std::size_t to, const Conditions& conditions) {
  Pair& changed = pairs_[index(from, to)];
  // Frames that wait for the old rate already have their times: the new rate starts without a
  // queue.
  if (conditions.rate != changed.conditions.rate) changed.free_at = {};
  changed.conditions = conditions;
}

const Conditions& Fabric::conditions(std::size_t from, std::size_t to) const {
  return pairs_[index(from, to)].conditions;
}

const Counters& Fabric::counters(std::size_t from, std::size_t to) const {
  return pairs_[index(from, to)].counters;
}

void Fabric::set_line(std::size_t port, const Line& line) {
  ASSERT(port < ports_);
  Port& changed = lines_[port];
  if (line.rate != changed.line.rate) changed.up_free_at = changed.down_free_at = {};
  changed.line = line;
}

const Line& Fabric::line(std::size_t port) const {
  ASSERT(port < ports_);
  return lines_[port].line;
}

void Fabric::submit(std::size_t from, std::span<const std::uint8_t> frame, base::Time now) {
  if (frame.size() < kEthernetHeader || frame.size() > kFrameMax) {
    ++unroutable_;
    return;
  }
  if ((frame[0] & 1) != 0) {
    for (std::size_t to = 0; to < ports_; ++to) {
      if (to != from) offer(from, to, frame, now);
    }
    return;
  }
  const std::size_t to = std::size_t{frame[4]} << 8 | frame[5];
  if (to >= ports_ || to == from || !std::ranges::equal(mac_of(to), frame.first(6))) {
    ++unroutable_;
    return;
  }
  offer(from, to, frame, now);
}

void Fabric::offer(std::size_t from, std::size_t to, std::span<const std::uint8_t> frame,
                   base::Time now) {
  Pair& way = pairs_[index(from, to)];
  const Conditions& conditions = way.conditions;
  Counters& counters = way.counters;
  ++counters.offered;
  counters.offered_bytes += frame.size();
  Luck luck{};
  for (double* draw :
       {&luck.loss, &luck.duplicate, &luck.reorder, &luck.corrupt, &luck.jitter, &luck.place}) {
    *draw = way.rng.uniform();
  }
  if (conditions.cut) {
    ++counters.cut;
    return;
  }
  const bool fits = held_bytes_ + 2 * frame.size() <= kHeldBytesMax;
  Port& port = lines_[from];
  auto passed = fits
                    ? pass_rate(port.line.rate, port.line.queue, frame.size(), now, port.up_free_at)
                    : std::nullopt;
  if (passed) {
    passed = pass_rate(conditions.rate, conditions.queue, frame.size(), *passed, way.free_at);
  }
  if (!passed) {
    ++counters.overflowed;
    return;
  }
  // Lost on the way, not before it: a lost frame has used its share of the rate.
  if (luck.loss < conditions.loss) {
    ++counters.lost;
    return;
  }
  base::Time due = *passed + conditions.delay +
                   base::from_seconds(luck.jitter * base::seconds(conditions.jitter));
  due = std::max(due, way.in_order);
  if (luck.reorder < conditions.reorder) {
    ++counters.reordered;
    due += std::max(kReorderMin, conditions.jitter);
  } else {
    way.in_order = due;
  }
  Frame sent(frame.begin(), frame.end());
  if (luck.corrupt < conditions.corrupt) {
    ++counters.corrupted;
    // One bit after the addresses, so that the damage reaches the frame's receiver.
    const std::size_t bits = (frame.size() - kEthernetHeader) * 8;
    if (bits > 0) {
      const auto at = static_cast<std::size_t>(luck.place * static_cast<double>(bits));
      sent[kEthernetHeader + at / 8] ^= static_cast<std::uint8_t>(1U << (at % 8));
    }
  }
  if (luck.duplicate < conditions.duplicate) {
    ++counters.duplicated;
    send_off({.due = due,
              .from = static_cast<std::uint32_t>(from),
              .to = static_cast<std::uint32_t>(to),
              .frame = sent});
  }
  send_off({.due = due,
            .from = static_cast<std::uint32_t>(from),
            .to = static_cast<std::uint32_t>(to),
            .frame = std::move(sent)});
}

void Fabric::send_off(Travelling frame) {
  held_bytes_ += frame.frame.size();
  frame.number = submitted_++;
  travelling_.push(std::move(frame));
}

std::optional<base::Time> Fabric::next_due() const {
  if (travelling_.empty()) return std::nullopt;
  return travelling_.top().due;
}

std::optional<Fabric::Delivery> Fabric::take(base::Time now) {
  while (!travelling_.empty() && travelling_.top().due <= now) {
    // The top is const only to protect the order, which a frame's bytes do not touch.
    Travelling top = std::move(const_cast<Travelling&>(travelling_.top()));
    travelling_.pop();
    Counters& counters = pairs_[index(top.from, top.to)].counters;
    const std::size_t bytes = top.frame.size();
    held_bytes_ -= bytes;
    if (conditions(top.from, top.to).cut) {
      ++counters.cut;
      continue;
    }
    // Only now is it known in which order frames of several senders reach the receiver's line.
    Port& port = lines_[top.to];
    if (port.line.rate > 0 && !top.came_down) {
      const auto passed =
          pass_rate(port.line.rate, port.line.queue, bytes, top.due, port.down_free_at);
      if (!passed) {
        ++counters.overflowed;
        continue;
      }
      top.came_down = true;
      if (*passed > now) {
        top.due = *passed;
        send_off(std::move(top));
        continue;
      }
    }
    ++counters.delivered;
    counters.delivered_bytes += bytes;
    return Delivery{.to = top.to, .frame = std::move(top.frame)};
  }
  return std::nullopt;
}

}  // namespace starling::net_switch
