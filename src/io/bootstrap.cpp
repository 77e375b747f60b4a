#include "io/bootstrap.hpp"

#include <array>

#include "base/assert.hpp"
#include "io/tcp_carrier.hpp"

namespace starling::io {
namespace {

// More than a handshake with certificates of any permitted size.
constexpr std::size_t kReceivedMax = 64UL * 1024;

}  // namespace

Bootstrap::Bootstrap(std::unique_ptr<TcpDial> dial, std::unique_ptr<Session> session)
    : dial_(std::move(dial)), session_(std::move(session)), own_(encode(Preamble{})) {}

Bootstrap::Bootstrap(std::unique_ptr<TcpStream> connection, std::unique_ptr<Session> session)
    : session_(std::move(session)), own_(encode(Preamble{})) {
  take_connection(std::move(connection));
}

Bootstrap::Bootstrap(CarrierKind kind, std::unique_ptr<Carrier> carrier,
                     std::unique_ptr<Session> session, const Preamble& own)
    : kind_(kind), carrier_(std::move(carrier)), session_(std::move(session)), own_(encode(own)) {}

Bootstrap::State Bootstrap::pump() {
  if (state_ == State::working && dial_) dial();
  if (state_ == State::working && carrier_) {
    flush();
    receive();
  }
  if (state_ == State::working) check();
  if (state_ == State::failed) linger();
  return state_;
}

void Bootstrap::dial() {
  switch (dial_->pump()) {
    case TcpDial::State::working:
      return;
    case TcpDial::State::connected:
      take_connection(dial_->take_connection());
      if (dial_->proxied()) tcp_ = nullptr;
      dial_.reset();
      return;
    case TcpDial::State::failed:
      return fail(dial_->failure());
  }
}

void Bootstrap::take_connection(std::unique_ptr<TcpStream> connection) {
  tcp_ = connection.get();
  carrier_ = std::make_unique<TcpCarrier>(std::move(connection));
}

std::string Bootstrap::waiting_for() const {
  return dial_ ? dial_->waiting_for() : "the other end did not answer in time";
}

void Bootstrap::fail(base::Error error) {
  state_ = State::failed;
  failure_ = std::move(error);
  dial_.reset();
  // The session may have an explanation for the other end.
  if (carrier_) flush();
}

void Bootstrap::abort() {
  dial_.reset();
  if (carrier_) carrier_->abort();
}

// Sends the session's own output.
void Bootstrap::flush() {
  if (carrier_->writable() == 0) return;
  session_->output(unsent_);
  if (unsent_.empty()) return;
  if (unsent_.size() > carrier_->writable()) return;
  sent_ += unsent_.size();
  carrier_->send(std::exchange(unsent_, {}));
}

void Bootstrap::receive() {
  while (state_ == State::working && carrier_->readable()) {
    base::Bytes bytes = carrier_->take();
    received_ += bytes.size();
    received_total_ += bytes.size();
    if (received_total_ > kReceivedMax) return fail("the other end sends too much before a link");
    if (auto status = session_->receive(std::move(bytes)); !status) {
      return fail(std::move(status.error()));
    }
    if (auto status = advance(); !status) return fail(std::move(status.error()));
    flush();
  }
}

// Bytes after the preamble stay in the session, for the channel.
base::Status Bootstrap::advance() {
  if (!session_->established()) return {};
  if (!own_.empty()) {
    session_->output(unsent_);  // the rest of the handshake goes first
    if (auto status = session_->write(own_, unsent_); !status) return status;
    own_.clear();
  }
  std::array<std::byte, kPreambleSize> part;
  while (said_.size() < kPreambleSize) {
    const auto size = session_->read(std::span(part).first(kPreambleSize - said_.size()));
    if (!size) return base::fail(size.error());
    if (*size == 0) return {};
    said_.insert(said_.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(*size));
  }
  const auto preamble = decode_preamble(said_);
  if (!preamble) return base::fail(preamble.error());
  other_ = *preamble;
  if (tcp_ != nullptr) route_ = Route{tcp_->local_address(), tcp_->remote_address()};
  state_ = State::done;
  return {};
}

std::unique_ptr<Channel> Bootstrap::take_channel() {
  ASSERT(state_ == State::done);
  return std::make_unique<Channel>(kind_, std::move(carrier_), std::move(session_),
                                   std::move(unsent_));
}

void Bootstrap::check() {
  if (!carrier_ || carrier_->readable()) return;
  if (carrier_->failure() != Carrier::Failure::none) return fail(carrier_->failure_text());
  if (carrier_->ended()) fail("the other end ended the handshake");
}

// Keeps the carrier until the other end has read the last message: closing it with unread bytes
// would discard that message.
void Bootstrap::linger() {
  if (carrier_ && carrier_->failure() == Carrier::Failure::none && !carrier_->ended()) {
    flush();
    if (unsent_.empty() && !carrier_->end_sent()) static_cast<void>(carrier_->send_end());
    while (carrier_->readable()) received_ += carrier_->take().size();
    // Nothing can be sent over a connection that is not there yet.
    if (carrier_->end_sent()) return;
  }
  abort();
  state_ = State::over;
}

}  // namespace starling::io
