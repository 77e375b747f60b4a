#include "io/outgoing.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace starling::io {

void Outgoing::push(base::Bytes frame, wire::Purpose purpose) {
  ASSERT(!frame.empty());
  held_ += frame.size() + kFrameOverhead;
  const std::uint64_t begin = std::exchange(end_, end_ + frame.size());
  frames_.push_back({std::move(frame), purpose, begin});
}

Outgoing::Next Outgoing::next() const {
  if (drained()) return {};
  const Frame& frame = frames_[at_];
  const auto done = static_cast<std::size_t>(position_ - frame.begin);
  const auto room = static_cast<std::size_t>(taken_ + kWindow - position_);
  const base::ByteView rest = base::ByteView(frame.bytes).subspan(done);
  return {.bytes = rest.first(std::min(rest.size(), room)),
          .purpose = frame.purpose,
          .frame_size = frame.bytes.size(),
          .first = done == 0};
}

void Outgoing::sent(std::size_t bytes) {
  const Frame& frame = frames_[at_];
  position_ += bytes;
  ASSERT(position_ <= frame.begin + frame.bytes.size() && position_ <= taken_ + kWindow);
  sent_most_ = std::max(sent_most_, position_);
  if (position_ == frame.begin + frame.bytes.size()) ++at_;
}

base::Status Outgoing::taken(std::uint64_t offset) {
  if (offset > sent_most_) {
    return base::fail(base::ErrorCode::protocol,
                      "the other end claims to have taken bytes that were not sent");
  }
  if (offset <= taken_) return {};  // it came late, over an earlier carrier
  taken_ = offset;
  while (!frames_.empty() && frames_.front().begin + frames_.front().bytes.size() <= offset) {
    held_ -= frames_.front().bytes.size() + kFrameOverhead;
    frames_.pop_front();
    if (at_ > 0) --at_;
  }
  position_ = std::max(position_, offset);
  return {};
}

void Outgoing::rewind() noexcept {
  position_ = taken_;
  at_ = 0;
}

void Outgoing::clear() {
  frames_.clear();
  held_ = 0;
  at_ = 0;
  // As if all of it were taken: the other end may ask for bytes that are gone.
  taken_ = end_ = position_ = sent_most_;
}

}  // namespace starling::io
