#include "io/tcp_dial.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"

namespace starling::io {

std::vector<base::IpPort> by_turns(const std::vector<base::IpPort>& found) {
  std::vector<base::IpPort> firsts;
  std::vector<base::IpPort> seconds;
  for (const base::IpPort& address : found) {
    (address.ip.is_v4() == found.front().ip.is_v4() ? firsts : seconds).push_back(address);
  }
  std::vector<base::IpPort> mixed;
  for (std::size_t i = 0; i < std::max(firsts.size(), seconds.size()); ++i) {
    if (i < firsts.size()) mixed.push_back(firsts[i]);
    if (i < seconds.size()) mixed.push_back(seconds[i]);
  }
  if (mixed.size() > TcpDial::kAttemptsMax) mixed.resize(TcpDial::kAttemptsMax);
  return mixed;
}

TcpDial::TcpDial(Resolver& resolver, const HostPort& target,
                 const std::optional<ProxyConfig>& proxy, base::Duration stagger,
                 const std::optional<base::IpPort>& from)
    : loop_(resolver.loop()),
      stagger_(stagger),
      proxied_(proxy && proxy->serves(target)),
      from_(proxied_ ? std::nullopt : from),
      timer_(loop_, [this] { next_due_ = true; }) {
  if (proxied_) tunnel_.emplace(*proxy, target);
  const HostPort& first = proxied_ ? proxy->at : target;
  // A numeric address needs no thread: all threads may be waiting for a name server.
  const auto number = numeric_address(first);
  is_number_ = number.has_value();
  if (number) {
    begin({*number});
    return;
  }
  lookup_ = std::make_unique<Lookup>(resolver, first, [this](base::Result<Lookup::Found> found) {
    if (found) return begin(*found);
    fail(std::move(found.error()));
  });
}

/// Names the proxy, since the error would not exist without it.
void TcpDial::fail(base::Error error) {
  failure_ = tunnel_ ? tunnel_->ended(error.text) : std::move(error);
  state_ = State::failed;
}

void TcpDial::begin(const Lookup::Found& found) {
  addresses_ = by_turns(found);
  ASSERT(!addresses_.empty(), "a lookup finds an address or fails");
  next_due_ = true;
}

TcpDial::State TcpDial::pump() {
  if (state_ != State::working || addresses_.empty()) return state_;
  if (!connection_) look_at_attempts();
  if (connection_) {
    pass_tunnel();
  } else if (next_due_ && !start_next() && !any_under_way()) {
    const bool no_route = std::ranges::all_of(attempts_, [](const Attempt& attempt) {
      return attempt.error.code == base::ErrorCode::unreachable;
    });
    fail({no_route ? base::ErrorCode::unreachable : base::ErrorCode::network, tried()});
  }
  return state_;
}

void TcpDial::pass_tunnel() {
  if (tunnel_) {
    const base::Bytes bytes = connection_->take();
    if (!bytes.empty()) {
      if (auto received = tunnel_->receive(bytes); !received) {
        failure_ = std::move(received.error());
        state_ = State::failed;
        connection_.reset();
        return;
      }
    }
    base::Bytes answer;
    tunnel_->output(answer);
    if (!tunnel_->established()) {
      if (connection_->ended()) {
        fail({base::ErrorCode::network, connection_->error()});
        connection_.reset();
        return;
      }
      connection_->send(std::move(answer));
      return;
    }
    connection_->put_back(tunnel_->take_rest());
    tunnel_.reset();
  }
  state_ = State::connected;
}

void TcpDial::look_at_attempts() {
  for (Attempt& attempt : attempts_) {
    if (!attempt.stream) continue;
    if (attempt.stream->connected()) {
      connection_ = std::move(attempt.stream);
      break;
    }
    if (!attempt.stream->ended()) continue;
    attempt.error = {base::ErrorCode::network, attempt.stream->error()};
    attempt.stream.reset();
    next_due_ = true;
  }
  if (!connection_) return;
  timer_.stop();
  attempts_.clear();
}

bool TcpDial::start_next() {
  next_due_ = false;
  while (attempts_.size() < addresses_.size()) {
    Attempt& attempt = attempts_.emplace_back();
    attempt.to = addresses_[attempts_.size() - 1];
    auto stream = connect(attempt.to);
    if (!stream) {
      attempt.error = std::move(stream.error());
      continue;
    }
    attempt.stream = std::move(*stream);
    if (attempts_.size() < addresses_.size()) timer_.start(stagger_);
    return true;
  }
  return false;
}

base::Result<std::unique_ptr<TcpStream>> TcpDial::connect(const base::IpPort& to) {
  if (from_) {
    if (auto stream = TcpStream::connect_from(loop_, *from_, to)) return stream;
  }
  return TcpStream::connect(loop_, to);
}

bool TcpDial::any_under_way() const {
  return std::ranges::any_of(attempts_, [](const Attempt& attempt) { return !!attempt.stream; });
}

std::string TcpDial::tried() const {
  if (is_number_ && attempts_.size() == 1) return attempts_[0].error.text;
  std::string text;
  for (const Attempt& attempt : attempts_) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", to_string(attempt.to),
                        attempt.stream ? "no answer" : attempt.error.text);
  }
  return text;
}

std::string TcpDial::waiting_for() const {
  if (tunnel_) {
    return tunnel_
        ->ended(connection_ ? "it has not answered in time; is that its port, and the scheme the "
                              "right one?"
                            : "nobody answered in time")
        .text;
  }
  if (addresses_.empty()) return "no name server has answered in time";
  if (is_number_) return "nobody answered in time";
  return fmt::format("nobody answered in time ({})", tried());
}

}  // namespace starling::io
