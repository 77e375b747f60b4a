#include "io/tcp_carrier.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace starling::io {

std::size_t TcpCarrier::writable() const noexcept {
  if (!stream_ || !stream_->connected() || end_sent_ || !stream_->error().empty()) return 0;
  const std::size_t unsent = stream_->unsent();
  return unsent >= kUnsentMax ? 0 : std::min(kUnsentMax - unsent, kMessageMax);
}

void TcpCarrier::send(base::Bytes data) {
  ASSERT(!data.empty() && data.size() <= writable());
  stream_->send(std::move(data));
}

bool TcpCarrier::send_end() {
  if (!stream_ || !stream_->connected() || end_sent_) return false;
  stream_->end();
  end_sent_ = true;
  return true;
}

bool TcpCarrier::readable() const noexcept { return stream_ && stream_->readable(); }

base::Bytes TcpCarrier::take() {
  ASSERT(readable());
  return stream_->take();
}

bool TcpCarrier::ended() const noexcept {
  return stream_ && stream_->ended() && stream_->error().empty() && !stream_->readable();
}

Carrier::Failure TcpCarrier::failure() const noexcept {
  return stream_ && !stream_->error().empty() ? Failure::network : Failure::none;
}

const std::string& TcpCarrier::failure_text() const noexcept {
  static const std::string kNone;
  return stream_ ? stream_->error() : kNone;
}

std::size_t TcpCarrier::unconsumed() const noexcept { return stream_ ? stream_->unsent() : 0; }

}  // namespace starling::io
