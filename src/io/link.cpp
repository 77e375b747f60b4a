#include "io/link.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"

namespace starling::io {
namespace {

// What a queued frame costs beside its bytes.
constexpr std::size_t kFrameOverhead = 64;
// Messages read from one link before the others get their turn.
constexpr int kMessagesPerTurn = 8;
// A record that would carry less than this, of a frame that has more, waits for credit.
constexpr std::size_t kRecordMin = 1024;
// The start of a frame from this size on, kRecordMin bytes, goes as a message of its own: who gets
// it can tell from the rest how fast the line is. That costs less than a hundredth.
constexpr std::size_t kTimedFrameMin = 4096;

std::size_t index(wire::Purpose purpose) { return static_cast<std::size_t>(purpose); }

}  // namespace

const char* to_string(LinkEnd end) noexcept {
  switch (end) {
    case LinkEnd::closed:
      return "closed";
    case LinkEnd::reset:
      return "reset";
    case LinkEnd::protocol_error:
      return "protocol error";
    case LinkEnd::turned_away:
      return "turned away";
  }
  return "unknown";
}

// --- commands ---

bool Link::send(base::Buffer frame, wire::Purpose purpose) {
  if (state_ != State::up) return false;
  const std::size_t cost = frame.size() + kFrameOverhead;
  if (queued_ + stream_->unconsumed() + cost > memory_) return false;
  queued_ += cost;
  queue_.push_back({std::move(frame), 0, purpose});
  return true;
}

void Link::close(base::Time deadline) {
  if (state_ == State::connecting) {
    verdict_ = Verdict{LinkEnd::closed, "closed by this peer"};
    bootstrap_->cancel(verdict_->text);
  } else if (state_ != State::up) {
    return;
  }
  state_ = State::closing;
  deadline_ = deadline;
}

void Link::finish(LinkEnd end, std::string text) {
  if (state_ == State::over) return;
  state_ = State::over;
  deadline_ = base::Time::max();
  if (!verdict_) verdict_ = Verdict{end, std::move(text)};
  queue_.clear();
  queued_ = 0;
  count_received(wire::Purpose::other, 0);
  if (bootstrap_) {
    stream_ = bootstrap_->take_stream();
    bootstrap_.reset();
  }
  // In this order: who sees the connection end may take it that UCX has ended.
  if (stream_) stream_->abort();
  tcp_.reset();
}

// --- work ---

bool Link::pump(base::Time now, const Reports& reports) {
  if (state_ == State::over) return false;
  if (now >= deadline_) {
    const bool closing = state_ == State::closing;
    finish(closing ? LinkEnd::closed : LinkEnd::reset,
           closing ? "closed by this peer before everything was sent" : bootstrap_->waiting_for());
    return true;
  }
  if (bootstrap_) return pump_bootstrap(now);
  receive(now, reports);
  if (state_ != State::over) check_stream(now);
  if (state_ != State::over) transmit(now);
  if (state_ == State::closing) progress_close();
  return state_ == State::over || stream_->readable();
}

bool Link::pump_bootstrap(base::Time now) {
  const Bootstrap::State reached = bootstrap_->pump();
  traffic_.sent[index(wire::Purpose::other)] += bootstrap_->take_sent();
  traffic_.received[index(wire::Purpose::other)] += bootstrap_->take_received();
  switch (reached) {
    case Bootstrap::State::working:
      return false;
    case Bootstrap::State::done:
      session_ = bootstrap_->take_session();
      tcp_ = bootstrap_->take_connection();
      stream_ = bootstrap_->take_stream();
      bootstrap_.reset();
      state_ = State::up;
      deadline_ = base::Time::max();
      return true;
    case Bootstrap::State::failed:
      if (state_ == State::closing) return false;
      // A link that never was up has no end to report, but its dial has a reason.
      verdict_ =
          Verdict{bootstrap_->failure().code == base::ErrorCode::secret ? LinkEnd::turned_away
                                                                        : LinkEnd::reset,
                  bootstrap_->failure().text};
      state_ = State::closing;
      deadline_ = std::min(deadline_, now + kCloseTimeout);
      return false;
    case Bootstrap::State::over:
      finish(LinkEnd::reset, bootstrap_->failure().text);
      break;
  }
  return true;
}

void Link::receive(base::Time now, const Reports& reports) {
  for (int i = 0; i < kMessagesPerTurn && stream_->readable() && state_ != State::over; ++i) {
    const base::Buffer message = stream_->take();
    unattributed_ += message.size() + kMessageHeaderSize;
    if (state_ == State::closing) {
      count_received(wire::Purpose::other, 0);
      continue;
    }
    receive_message(message, now, reports);
  }
  if (state_ != State::over) {
    traffic_.received[index(wire::Purpose::other)] += stream_->take_overhead_received();
  }
}

void Link::receive_message(base::ByteView message, base::Time now, const Reports& reports) {
  // What the session refuses may be anybody's; what it lets through is the other end's.
  if (auto status = session_->receive(message); !status) {
    return finish(LinkEnd::reset, status.error().text);
  }
  std::array<std::byte, kRecordMax> plain;
  while (state_ == State::up) {
    const auto size = session_->read(plain);
    if (!size) return finish(LinkEnd::reset, size.error().text);
    if (*size == 0) return;
    if (auto status = deliver(base::ByteView(plain).first(*size), now, reports); !status) {
      return finish(LinkEnd::protocol_error, status.error().text);
    }
  }
}

base::Status Link::deliver(base::ByteView plain, base::Time now, const Reports& reports) {
  while (state_ == State::up) {
    const std::size_t before = plain.size();
    auto frame = reader_.read(plain);
    if (!frame) return base::fail(std::move(frame.error()));
    arrival_.add(before - plain.size(), now);
    if (!*frame) break;
    count_received(wire::purpose_of((*frame)->type), plain.size());
    reports.frame(std::move(**frame), std::exchange(arrival_, {}).took(now));
  }
  if (const auto type = reader_.unfinished(); type && state_ == State::up) {
    if (const std::size_t bytes = arrival_.take_part(now); bytes > 0) reports.part(*type, bytes);
  }
  return {};
}

// Counts what came up to now for `purpose`, but for `later` bytes that follow a frame's end.
void Link::count_received(wire::Purpose purpose, std::size_t later) {
  const std::uint64_t kept = std::min<std::uint64_t>(later, unattributed_);
  traffic_.received[index(purpose)] += unattributed_ - kept;
  unattributed_ = kept;
}

void Link::check_stream(base::Time now) {
  if (stream_->readable()) return;  // what came before the end counts
  if (stream_->failure() != UcxStream::Failure::none) {
    if (state_ == State::closing) return finish(LinkEnd::closed, "closed by this peer");
    return finish(LinkEnd::reset, stream_->failure_text());
  }
  if (!tcp_->take().empty()) {
    return finish(LinkEnd::reset, "the other end sends beside the link");
  }
  if (tcp_->ended()) {
    if (state_ == State::closing) return finish(LinkEnd::closed, "closed by this peer");
    return finish(LinkEnd::reset, tcp_->error().empty() ? "cut by the other end" : tcp_->error());
  }
  if (stream_->ended() && state_ != State::closing) {
    verdict_ = Verdict{LinkEnd::closed, "closed by the other end"};
    state_ = State::closing;
    deadline_ = now + kCloseTimeout;
    ended_by_other_ = true;
    queue_.clear();
    queued_ = 0;
  }
}

void Link::transmit(base::Time now) {
  message_size_.taken(stream_->consumed(), now);
  for (;;) {
    const std::size_t room = std::min(stream_->writable(), message_size_.max());
    if (room == 0) break;
    if (encrypted_.empty()) {
      encrypted_purpose_ = wire::Purpose::other;
      session_->output(encrypted_);
      traffic_.sent[index(wire::Purpose::other)] += encrypted_.size();
    }
    if (auto status = fill(room); !status) return finish(LinkEnd::reset, status.error().text);
    if (encrypted_.empty()) break;
    traffic_.sent[index(encrypted_purpose_)] += kMessageHeaderSize;
    if (encrypted_.size() <= room) {
      stream_->send(std::exchange(encrypted_, {}));
    } else {
      const auto split = encrypted_.begin() + static_cast<std::ptrdiff_t>(room);
      stream_->send(base::Buffer(encrypted_.begin(), split));
      encrypted_.erase(encrypted_.begin(), split);
    }
  }
  stream_->send_credit();
  traffic_.sent[index(wire::Purpose::other)] += stream_->take_overhead_sent();
}

// Encrypts queued frames until a message of `room` bytes is full.
base::Status Link::fill(std::size_t room) {
  while (!queue_.empty()) {
    Outgoing& front = queue_.front();
    const std::size_t left = front.frame.size() - front.sent;
    if (encrypted_.size() + kRecordOverhead + std::min(left, kRecordMin) > room) break;
    const std::size_t space = room - encrypted_.size() - kRecordOverhead;
    const bool timed = front.sent == 0 && front.frame.size() >= kTimedFrameMin;
    const std::size_t size = std::min({left, timed ? kRecordMin : kRecordMax, space});
    const std::size_t before = encrypted_.size();
    if (before == 0) encrypted_purpose_ = front.purpose;
    const base::ByteView part = base::ByteView(front.frame).subspan(front.sent, size);
    if (auto status = session_->write(part, encrypted_); !status) return status;
    traffic_.sent[index(front.purpose)] += encrypted_.size() - before;
    front.sent += size;
    if (front.sent == front.frame.size()) {
      queued_ -= front.frame.size() + kFrameOverhead;
      queue_.pop_front();
    }
    if (timed) break;
  }
  return {};
}

void Link::progress_close() {
  if (queue_.empty() && encrypted_.empty() && !stream_->end_sent() && stream_->send_end()) {
    traffic_.sent[index(wire::Purpose::other)] += stream_->take_overhead_sent();
  }
  // Who was asked to close lets the other end hang up: its own answer might be lost otherwise.
  if (stream_->end_sent() && stream_->ended() && !ended_by_other_) {
    finish(LinkEnd::closed, "closed by this peer");
  }
}

}  // namespace starling::io
