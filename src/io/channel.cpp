#include "io/channel.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "io/record_size.hpp"

namespace starling::io {
namespace {

// Messages read from one channel before the others get their turn.
constexpr int kMessagesPerTurn = 8;
// A cell that announces the offset of the following data.
constexpr std::size_t kResumeSize = kCellHeaderSize + sizeof(std::uint64_t) + kRecordOverhead;

std::size_t index(wire::Purpose purpose) { return static_cast<std::size_t>(purpose); }

}  // namespace

std::size_t Channel::room(std::size_t record_max) const noexcept {
  const std::size_t writable = carrier_->writable();
  const std::size_t used = encrypted_.size() + kResumeSize + kCellHeaderSize + kRecordOverhead;
  return writable <= used ? 0 : std::min({writable - used, record_max, kCellMax});
}

base::Status Channel::put_data(std::uint64_t offset, base::ByteView bytes, wire::Purpose purpose,
                               LinkTraffic& traffic) {
  if (offset != sends_at_) {
    if (auto status = put(number_cell(CellType::resume, offset), traffic); !status) return status;
  }
  plain_.clear();
  append_cell_header(plain_, CellType::data, bytes.size());
  // More records like it will follow. A carrier holds few of these at a time.
  if (bytes.size() > kRecordSmall) encrypted_.reserve(kMessageMax);
  plain_.insert(plain_.end(), bytes.begin(), bytes.end());
  const std::size_t before = encrypted_.size();
  if (auto status = session_->write(plain_, encrypted_); !status) return status;
  traffic.sent[index(purpose)] += encrypted_.size() - before;
  sends_at_ = offset + bytes.size();
  return {};
}

base::Status Channel::put(base::ByteView cell, LinkTraffic& traffic) {
  const std::size_t before = encrypted_.size();
  if (auto status = session_->write(cell, encrypted_); !status) return status;
  traffic.sent[index(wire::Purpose::other)] += encrypted_.size() - before;
  return {};
}

void Channel::flush(LinkTraffic& traffic) {
  if (carrier_->writable() > 0) {
    const std::size_t before = encrypted_.size();
    session_->output(encrypted_);
    traffic.sent[index(wire::Purpose::other)] += encrypted_.size() - before;
  }
  while (!encrypted_.empty()) {
    const std::size_t room = carrier_->writable();
    if (room == 0) break;
    if (encrypted_.size() <= room) {
      carrier_->send(std::exchange(encrypted_, {}));
    } else {
      const auto split = encrypted_.begin() + static_cast<std::ptrdiff_t>(room);
      carrier_->send(base::Bytes(encrypted_.begin(), split));
      encrypted_.erase(encrypted_.begin(), split);
    }
  }
  carrier_->send_credit();
  traffic.sent[index(wire::Purpose::other)] += carrier_->take_overhead_sent();
}

Channel::Verdict Channel::receive(ChannelSink& sink) {
  // The session may hold bytes that came together with the end of the preamble.
  if (!std::exchange(drained_, true)) {
    if (const Verdict verdict = read_session(sink); verdict != Verdict::fine) return verdict;
  }
  for (int i = 0; i < kMessagesPerTurn && carrier_->readable() && sink.wants_more(); ++i) {
    base::Bytes message = carrier_->take();
    sink.on_raw(message.size());
    // Bytes that the session refuses may be anybody's; those that it accepts are the other end's.
    if (auto status = session_->receive(std::move(message)); !status) {
      return fail(Verdict::failed, status.error().text);
    }
    if (const Verdict verdict = read_session(sink); verdict != Verdict::fine) return verdict;
  }
  return Verdict::fine;
}

Channel::Verdict Channel::read_session(ChannelSink& sink) {
  std::array<std::byte, kRecordMax> plain;
  while (sink.wants_more()) {
    const auto size = session_->read(plain);
    if (!size) return fail(Verdict::failed, size.error().text);
    if (*size == 0) break;
    if (auto status = read_cells(base::ByteView(plain).first(*size), sink); !status) {
      return fail(Verdict::breach, status.error().text);
    }
  }
  return Verdict::fine;
}

base::Status Channel::read_cells(base::ByteView plain, ChannelSink& sink) {
  while (!plain.empty() && sink.wants_more()) {
    const auto part = cells_.read(plain);
    if (!part) return base::fail(part.error());
    if (!*part) continue;
    const auto [type, bytes] = **part;
    if (type == CellType::data) {
      const std::uint64_t offset = std::exchange(receives_at_, receives_at_ + bytes.size());
      if (auto status = sink.on_data(offset, bytes); !status) return status;
    } else if (type == CellType::resume) {
      const auto offset = number_in(bytes);
      if (!offset) return base::fail(offset.error());
      receives_at_ = *offset;
    } else if (auto status = sink.on_cell(type, bytes); !status) {
      return status;
    }
  }
  return {};
}

bool Channel::broken() {
  if (carrier_->readable()) return false;  // bytes before the end still count
  if (carrier_->failure() != Carrier::Failure::none) {
    text_ = carrier_->failure_text();
    return true;
  }
  if (!carrier_->ended()) return false;
  text_ = "cut by the other end";
  return true;
}

}  // namespace starling::io
