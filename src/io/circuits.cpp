#include "io/circuits.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/endian.hpp"
#include "wire/frame.hpp"

namespace starling::io {
namespace {

constexpr std::size_t kTakenAt = 4;
constexpr std::size_t kEndAt = 8;
/// The other end is told when this much has been taken since it was last told.
constexpr std::uint32_t kTellStep = kCircuitWindow / 4;
/// If this much waits on a link, no piece of a circuit is put there: its own frames come first.
constexpr std::size_t kLinkWaitingMax = 128UL * 1024;
/// The bytes that an idle relay may pass on at once.
constexpr double kBurst = 64.0 * 1024;

base::Bytes circuit_frame(std::uint32_t number, std::uint32_t taken, bool ends,
                          base::ByteView bytes) {
  std::array<std::byte, kCircuitHeaderSize> head{};
  const std::uint32_t end = ends ? 1 : 0;
  base::store_little(head, 0, number);
  base::store_little(head, kTakenAt, taken);
  base::store_little(head, kEndAt, end);
  return wire::make_frame(wire::FrameType::circuit, {}, head, bytes);
}

std::size_t cost_of(const base::Bytes& payload) { return payload.size() + kCircuitPieceCost; }

}  // namespace

/// One end's carrier.
class Circuits::End final : public Carrier {
 public:
  End(Circuits& circuits, Leg leg) : circuits_(circuits), leg_(leg) {}
  ~End() override { ASSERT(aborted_, "a circuit is still open"); }

  [[nodiscard]] std::size_t writable() const noexcept override {
    if (aborted_ || failure_ != Failure::none) return 0;
    const auto waiting = circuits_.links_.waiting_on(leg_.first);
    const std::size_t used = sent_ - granted_;
    if (!waiting || *waiting >= kLinkWaitingMax || used >= kCircuitWindow) return 0;
    return std::min(kCircuitPieceMax, kCircuitWindow - used);
  }
  void send(base::Bytes data) override {
    ASSERT(!data.empty() && data.size() <= writable());
    sent_ += static_cast<std::uint32_t>(data.size());
    post(data);
  }
  // A circuit ends when an end releases it.
  [[nodiscard]] bool send_end() override { return end_sent_ = true; }
  [[nodiscard]] bool end_sent() const noexcept override { return end_sent_; }
  void send_credit() override {
    if (!aborted_ && failure_ == Failure::none && taken_ - told_ >= kTellStep) post({});
  }
  [[nodiscard]] bool readable() const noexcept override { return !received_.empty(); }
  [[nodiscard]] base::Bytes take() override {
    base::Bytes data = std::move(received_.front());
    received_.pop_front();
    taken_ += static_cast<std::uint32_t>(data.size());
    return data;
  }
  [[nodiscard]] bool ended() const noexcept override { return end_received_ && received_.empty(); }
  [[nodiscard]] Failure failure() const noexcept override { return failure_; }
  [[nodiscard]] const std::string& failure_text() const noexcept override { return text_; }
  [[nodiscard]] std::size_t unconsumed() const noexcept override { return sent_ - granted_; }
  [[nodiscard]] std::uint64_t take_overhead_sent() noexcept override {
    return std::exchange(overhead_sent_, 0);
  }
  [[nodiscard]] std::uint64_t take_overhead_received() noexcept override {
    return std::exchange(overhead_received_, 0);
  }
  void abort() override {
    if (std::exchange(aborted_, true)) return;
    received_.clear();
    if (failure_ == Failure::none && !end_received_) circuits_.say_end(leg_);
    circuits_.forget(leg_);
  }
  [[nodiscard]] bool closed() const noexcept override { return aborted_; }

  void on_payload(base::ByteView payload) {
    if (failure_ != Failure::none || end_received_) return;
    overhead_received_ += kCircuitHeaderSize + wire::kFrameHeaderSize;
    const std::uint32_t granted = base::load_little<std::uint32_t>(payload, kTakenAt);
    if (granted - granted_ > sent_ - granted_) {
      return fail(Failure::protocol, "the other end of the circuit has taken what was not sent");
    }
    granted_ = granted;
    end_received_ = base::load_little<std::uint32_t>(payload, kEndAt) != 0;
    const base::ByteView data = payload.subspan(kCircuitHeaderSize);
    if (data.empty()) return;
    arrived_ += static_cast<std::uint32_t>(data.size());
    if (arrived_ - taken_ > kCircuitWindow) {
      return fail(Failure::overflow, "the other end of the circuit sends more than it may");
    }
    received_.emplace_back(data.begin(), data.end());
  }
  void fail(Failure failure, const char* text) {
    if (failure_ != Failure::none) return;
    failure_ = failure;
    text_ = text;
  }

 private:
  void post(base::ByteView data) {
    told_ = taken_;
    overhead_sent_ += kCircuitHeaderSize + wire::kFrameHeaderSize;
    if (circuits_.links_.send_circuit_frame(leg_.first,
                                            circuit_frame(leg_.second, taken_, false, data))) {
      return;
    }
    fail(Failure::network, "the link with the relay takes nothing more");
  }

  Circuits& circuits_;
  Leg leg_;
  std::uint32_t sent_ = 0;
  std::uint32_t granted_ = 0;  ///< the part of sent_ that the other end has taken
  std::uint32_t arrived_ = 0;
  std::uint32_t taken_ = 0;
  std::uint32_t told_ = 0;  ///< the part of taken_ that the other end was told
  std::deque<base::Bytes> received_;
  bool end_sent_ = false;
  bool end_received_ = false;
  bool aborted_ = false;
  std::uint64_t overhead_sent_ = 0;
  std::uint64_t overhead_received_ = 0;
  Failure failure_ = Failure::none;
  std::string text_;
};

// --- ends ---

std::unique_ptr<Carrier> Circuits::open(base::LinkId link, std::uint32_t number) {
  const Leg leg{link, number};
  std::size_t from = 0;
  if (ends_.contains(leg) || relay_of(leg, from)) return nullptr;
  auto end = std::make_unique<End>(*this, leg);
  ends_[leg] = end.get();
  return end;
}

void Circuits::refuse(base::LinkId link, std::uint32_t number) {
  say_end({link, number});
  ended_.push_back({link, number, 0});
}

void Circuits::forget(const Leg& leg) {
  if (ends_.erase(leg) > 0) ended_.push_back({leg.first, leg.second, 0});
}

void Circuits::say_end(const Leg& leg) {
  static_cast<void>(links_.send_circuit_frame(leg.first, circuit_frame(leg.second, 0, true, {})));
}

void Circuits::end(base::LinkId link, std::uint32_t number) {
  const Leg leg{link, number};
  if (const auto found = ends_.find(leg); found != ends_.end()) {
    say_end(leg);
    return found->second->fail(Carrier::Failure::network, "the circuit was given up");
  }
  std::size_t from = 0;
  if (const auto relay = relay_of(leg, from)) end_relay(*relay, std::nullopt);
}

void Circuits::link_gone(base::LinkId link) {
  for (const auto& [leg, end] : ends_) {
    if (leg.first == link) end->fail(Carrier::Failure::network, "the relay is gone");
  }
  for (std::size_t i = relays_.size(); i-- > 0;) {
    for (const std::size_t side : {0U, 1U}) {
      if (relays_[i].legs[side].first != link) continue;
      end_relay(i, side);
      break;
    }
  }
}

bool Circuits::on_frame(base::LinkId link, base::ByteView payload, base::Time now) {
  if (payload.size() < kCircuitHeaderSize ||
      payload.size() > kCircuitHeaderSize + kCircuitPieceMax) {
    return false;
  }
  const Leg leg{link, base::load_little<std::uint32_t>(payload, 0)};
  if (const auto found = ends_.find(leg); found != ends_.end()) {
    found->second->on_payload(payload);
    return true;
  }
  std::size_t from = 0;
  const auto number = relay_of(leg, from);
  // It has just ended: the other end of the link does not know that yet.
  if (!number) return true;
  Relay& relay = relays_[*number];
  relay.heard_at = now;
  if (base::load_little<std::uint32_t>(payload, kEndAt) != 0) {
    end_relay(*number, from);
    return true;
  }
  base::Bytes piece(payload.begin(), payload.end());
  relay.cost[from] += cost_of(piece);
  relay.waiting[from].push_back(std::move(piece));
  // Twice, since small pieces cost more here than at the ends.
  if (relay.cost[from] > 2 * kCircuitWindow) end_relay(*number, std::nullopt);
  return true;
}

// --- the relay ---

std::optional<std::size_t> Circuits::relay_of(const Leg& leg, std::size_t& from) const {
  for (std::size_t i = 0; i < relays_.size(); ++i) {
    for (const std::size_t side : {0U, 1U}) {
      if (relays_[i].legs[side] != leg) continue;
      from = side;
      return i;
    }
  }
  return std::nullopt;
}

void Circuits::relay(base::LinkId a, std::uint32_t number_a, base::LinkId b, std::uint32_t number_b,
                     base::Time now) {
  const Leg legs[2] = {{a, number_a}, {b, number_b}};
  for (const Leg& leg : legs) {
    std::size_t from = 0;
    const bool taken = ends_.contains(leg) || relay_of(leg, from);
    if (!taken && links_.waiting_on(leg.first)) continue;
    ended_.push_back({a, number_a, 0});
    return;
  }
  relays_.push_back({.legs = {legs[0], legs[1]}, .waiting = {}, .heard_at = now});
}

/// `silent_leg`: the leg that reported the end, or whose link is gone.
void Circuits::end_relay(std::size_t number, std::optional<std::size_t> silent_leg) {
  const Relay& relay = relays_[number];
  for (const std::size_t side : {0U, 1U}) {
    if (side != silent_leg) say_end(relay.legs[side]);
  }
  ended_.push_back({relay.legs[0].first, relay.legs[0].second, relay.bytes});
  relays_.erase(relays_.begin() + static_cast<std::ptrdiff_t>(number));
}

void Circuits::earn(base::Time now) {
  const double earned = base::seconds(now - earned_at_) * static_cast<double>(limit_);
  allowance_ = std::min(allowance_ + earned, kBurst);
  earned_at_ = now;
}

// Passes on one piece. False: nothing waits, its link has no room, or the limit is reached.
bool Circuits::pass_on(Relay& relay, std::size_t from, base::Time now) {
  if (relay.waiting[from].empty()) return false;
  const Leg& to = relay.legs[1 - from];
  base::Bytes& piece = relay.waiting[from].front();
  if (const auto waiting = links_.waiting_on(to.first); !waiting || *waiting >= kLinkWaitingMax) {
    return false;
  }
  const auto cost = static_cast<double>(cost_of(piece));
  if (allowance_ < cost) {
    const double wait =
        (cost - allowance_) / static_cast<double>(std::max<std::uint64_t>(limit_, 1));
    deadline_ = std::min(deadline_, now + base::from_seconds(wait));
    return false;
  }
  allowance_ -= cost;
  base::store_little(piece, 0, to.second);
  relay.bytes += piece.size();
  relay.cost[from] -= cost_of(piece);
  static_cast<void>(
      links_.send_circuit_frame(to.first, wire::make_frame(wire::FrameType::circuit, {}, piece)));
  relay.waiting[from].pop_front();
  return true;
}

bool Circuits::pump(base::Time now) {
  deadline_ = base::Time::max();
  if (relays_.empty()) return false;
  for (std::size_t i = relays_.size(); i-- > 0;) {
    const base::Time idle_at = relays_[i].heard_at + kCircuitIdle;
    if (now >= idle_at) {
      end_relay(i, std::nullopt);
    } else {
      deadline_ = std::min(deadline_, idle_at);
    }
  }
  earn(now);
  bool any = false;
  bool some = !relays_.empty();
  // One piece of each in turn, so that a busy circuit leaves the others their share.
  while (some) {
    some = false;
    for (std::size_t i = 0; i < relays_.size(); ++i) {
      Relay& relay = relays_[(first_ + i) % relays_.size()];
      for (const std::size_t from : {0U, 1U}) some = pass_on(relay, from, now) || some;
    }
    any = any || some;
  }
  if (!relays_.empty()) first_ = (first_ + 1) % relays_.size();
  return any;
}

}  // namespace starling::io
