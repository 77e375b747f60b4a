#include "io/bootstrap.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <uv.h>

#include "base/assert.hpp"

namespace starling::io {
namespace {

// More than a handshake with certificates of any permitted size and one frame.
constexpr std::size_t kReceivedMax = 64UL * 1024;
constexpr std::size_t kGrantSize = sizeof(std::uint64_t) + sizeof(std::uint16_t);

static_assert(std::endian::native == std::endian::little, "grants are little-endian");

base::Buffer bytes_of_token(std::uint64_t token) {
  base::Buffer bytes(sizeof token);
  std::memcpy(bytes.data(), &token, sizeof token);
  return bytes;
}

}  // namespace

Bootstrap::Bootstrap(Resolver& resolver, UcxStreams& streams, std::unique_ptr<Session> session,
                     const HostPort& target)
    : loop_(&resolver.loop()), streams_(&streams), session_(std::move(session)) {
  // No thread is asked for it: those may all wait for a name server.
  if (const auto numeric = numeric_address(target)) {
    connect(*numeric);
  } else {
    lookup_ = std::make_unique<Lookup>(
        resolver, target, [this](const base::Result<Lookup::Found>& found) {
          if (!found) return fail(found.error());
          const auto v4 = std::ranges::find_if(*found, &SocketAddress::is_v4);
          connect(v4 == found->end() ? found->front() : *v4);
        });
  }
}

Bootstrap::Bootstrap(std::unique_ptr<Session> session, std::unique_ptr<TcpStream> tcp,
                     std::uint16_t ucx_port)
    : ucx_port_(ucx_port), session_(std::move(session)), tcp_(std::move(tcp)) {}

const char* Bootstrap::waiting_for() const noexcept {
  if (!token_) return "nobody answered in time";
  return "UCX did not connect in time: it needs more TCP ports than the one that was dialed";
}

Bootstrap::State Bootstrap::pump() {
  if (state_ == State::working && tcp_ && tcp_->connected()) {
    flush();
    receive();
  }
  if (state_ == State::working && stream_) exchange_tokens();
  if (state_ == State::working) check();
  if (state_ == State::failed) linger();
  return state_;
}

void Bootstrap::connect(const SocketAddress& to) {
  auto tcp = TcpStream::connect(*loop_, to);
  if (!tcp) return fail(std::move(tcp.error()));
  tcp_ = std::move(*tcp);
}

void Bootstrap::fail(base::Error error) {
  state_ = State::failed;
  failure_ = std::move(error);
  lookup_.reset();
  if (stream_) stream_->abort();
  if (!tcp_ || !tcp_->connected()) return;
  // The session may have words on it for the other end.
  flush();
  tcp_->end();
}

// Sends what the session has to say.
void Bootstrap::flush() {
  base::Buffer bytes;
  session_->output(bytes);
  if (bytes.empty()) return;
  sent_ += bytes.size();
  tcp_->send(std::move(bytes));
}

void Bootstrap::receive() {
  const base::Buffer bytes = tcp_->take();
  received_ += bytes.size();
  received_total_ += bytes.size();
  if (bytes.empty()) return;
  if (received_total_ > kReceivedMax) return fail("the other end sends too much before a link");
  if (auto status = read(bytes); !status) return fail(std::move(status.error()));
  flush();
}

base::Status Bootstrap::read(base::ByteView bytes) {
  if (token_) return base::fail(base::ErrorCode::protocol, "the other end sends beside the link");
  if (auto status = session_->receive(bytes); !status) return status;
  if (!session_->established()) return {};
  std::array<std::byte, kRecordMax> plain;
  if (streams_ == nullptr) {
    // A dialer has nothing to say before it is told the token, and what is left unread now would
    // never be read.
    const auto early = session_->read(plain);
    if (!early) return base::fail(early.error());
    if (*early > 0) {
      return base::fail(base::ErrorCode::protocol, "the other end speaks before it is answered");
    }
    return grant();
  }
  for (;;) {
    const auto size = session_->read(plain);
    if (!size) return base::fail(size.error());
    if (*size == 0) return {};
    base::ByteView rest = base::ByteView(plain).first(*size);
    while (!rest.empty()) {
      auto frame = reader_.read(rest);
      if (!frame) return base::fail(std::move(frame.error()));
      if (!*frame) break;
      if (auto status = take_grant(**frame); !status) return status;
    }
  }
}

base::Status Bootstrap::grant() {
  std::uint64_t token = 0;
  ASSERT(uv_random(nullptr, nullptr, &token, sizeof token, 0, nullptr) == 0,
         "the system has no random numbers");
  token_ = token;
  base::Buffer payload(kGrantSize);
  std::memcpy(payload.data(), &token, sizeof token);
  std::memcpy(payload.data() + sizeof token, &ucx_port_, sizeof ucx_port_);
  base::Buffer bytes;
  session_->output(bytes);  // what the handshake still has to say goes first
  const base::Buffer frame = wire::make_frame(wire::FrameType::wire_up, {}, payload);
  if (auto status = session_->write(frame, bytes); !status) return status;
  sent_ += bytes.size();
  tcp_->send(std::move(bytes));
  return {};
}

base::Status Bootstrap::take_grant(const wire::Frame& frame) {
  if (token_ || frame.type != static_cast<std::uint8_t>(wire::FrameType::wire_up) ||
      frame.payload().size() < kGrantSize) {
    return base::fail(base::ErrorCode::protocol,
                      "the other end does not say where it takes UCX connections");
  }
  std::uint64_t token = 0;
  std::uint16_t port = 0;
  std::memcpy(&token, frame.payload().data(), sizeof token);
  std::memcpy(&port, frame.payload().data() + sizeof token, sizeof port);
  token_ = token;
  const auto to = tcp_->remote_address().with_port(port).v4();
  if (!to) return base::fail(base::ErrorCode::network, "UCX links need IPv4");
  auto stream = UcxStream::connect(*streams_, *to);
  if (!stream) return base::fail(std::move(stream.error()));
  stream_ = std::move(*stream);
  return {};
}

std::optional<std::uint64_t> Bootstrap::awaited() const noexcept {
  if (streams_ != nullptr || stream_ || state_ != State::working) return std::nullopt;
  return token_;
}

void Bootstrap::attach(std::unique_ptr<UcxStream> stream) {
  ASSERT(awaited().has_value());
  stream_ = std::move(stream);
  received_ += kTokenSize + kMessageHeaderSize;
}

// The dialer sends first; its token has brought the listener's stream here.
void Bootstrap::exchange_tokens() {
  if (!token_sent_ && stream_->writable() >= kTokenSize) {
    stream_->send(bytes_of_token(*token_));
    sent_ += kTokenSize + kMessageHeaderSize;
    token_sent_ = true;
  }
  if (streams_ == nullptr) {
    if (token_sent_) state_ = State::done;
    return;
  }
  if (!stream_->readable()) return;
  const base::Buffer answer = stream_->take();
  received_ += answer.size() + kMessageHeaderSize;
  if (answer != bytes_of_token(*token_)) return fail("the other end answers with another token");
  state_ = State::done;
}

void Bootstrap::check() {
  if (stream_ && stream_->failure() != UcxStream::Failure::none) {
    return fail(stream_->failure_text());
  }
  if (!tcp_ || !tcp_->ended()) return;
  fail(tcp_->error().empty() ? "the other end ended the handshake" : tcp_->error());
}

// Keeps the socket until the other end has read the last words: closing it with bytes unread
// would take them back.
void Bootstrap::linger() {
  if (tcp_ && tcp_->connected() && !tcp_->ended()) {
    received_ += tcp_->take().size();
    return;
  }
  tcp_.reset();
  state_ = State::over;
}

}  // namespace starling::io
