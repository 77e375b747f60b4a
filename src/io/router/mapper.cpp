#include "io/router/mapper.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "base/assert.hpp"

namespace starling::io::router {
namespace {

constexpr char kNoAnswer[] = "no answer";

}  // namespace

PortRequest Mapper::request() const {
  const bool removes = state_ == State::removing;
  PortRequest made{
      .own = config_.own, .port = config_.port, .outer = {}, .outer_port = config_.port};
  if (held_ && !removes) {
    made.outer = held_->outer.ip;
    made.outer_port = held_->outer.port;
  }
  if (removes) {
    made.outer_port = 0;
  } else {
    made.lifetime = static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::seconds>(kLifetimeWanted).count());
  }
  return made;
}

void Mapper::start(base::Time now, Outbox& out) {
  ASSERT(state_ == State::idle);
  begin(now, out);
}

void Mapper::begin(base::Time now, Outbox& out) {
  state_ = State::asking;
  protocol_ = Protocol::pcp;
  failures_.clear();
  tries_ = 0;
  ask(now, out);
}

void Mapper::ask(base::Time now, Outbox& out) {
  if (tries_ == 0) {
    outer_.reset();
    nat_pmp_port_.reset();
  }
  deadline_ = now + kFirstWait * (1 << tries_);
  ++tries_;
  if (state_ == State::asking) maybe_made_ = true;
  switch (protocol_) {
    case Protocol::pcp:
      out.push_back(Send{pcp::pack(request(), config_.nonce)});
      break;
    case Protocol::nat_pmp:
      if (!outer_ && state_ != State::removing) {
        out.push_back(Send{nat_pmp::pack_address_request()});
      }
      if (!nat_pmp_port_) out.push_back(Send{nat_pmp::pack(request())});
      break;
    case Protocol::upnp:
      deadline_.reset();  // the answer comes by itself
      out.push_back(AskUpnp{.remove = state_ == State::removing,
                            .outer_port = held_ ? held_->outer.port : config_.port,
                            .lifetime = kLifetimeWanted});
      break;
  }
}

// --- answers ---

void Mapper::receive(base::ByteView datagram, base::Time now, Outbox& out) {
  if (!awaits_answer() || protocol_ == Protocol::upnp) return;
  if (protocol_ == Protocol::nat_pmp) return on_nat_pmp(datagram, now, out);
  const PortReply reply = pcp::unpack(datagram, request(), config_.nonce);
  if (std::holds_alternative<OtherVersion>(reply)) {
    return refused("the router does not speak it", now, out);
  }
  if (const auto* refusal = std::get_if<RouterRefusal>(&reply)) {
    return refused(refusal->text, now, out);
  }
  if (const auto* answer = std::get_if<PortAnswer>(&reply)) on_answer(*answer, now, out);
}

void Mapper::on_nat_pmp(base::ByteView datagram, base::Time now, Outbox& out) {
  for (const bool address : {true, false}) {
    const PortReply reply =
        address ? nat_pmp::unpack_address(datagram) : nat_pmp::unpack(datagram, request());
    if (std::holds_alternative<OtherVersion>(reply)) {
      return refused("the router does not speak it", now, out);
    }
    if (const auto* refusal = std::get_if<RouterRefusal>(&reply)) {
      return refused(refusal->text, now, out);
    }
    if (const auto* answer = std::get_if<PortAnswer>(&reply)) {
      if (address) {
        outer_ = answer->outer;
      } else {
        nat_pmp_port_ = *answer;
      }
    }
  }
  if (!nat_pmp_port_ || (!outer_ && state_ != State::removing)) return;
  PortAnswer both = *nat_pmp_port_;
  both.outer = outer_.value_or(base::Ip{});
  on_answer(both, now, out);
}

void Mapper::on_answer(const PortAnswer& answer, base::Time now, Outbox& out) {
  if (state_ == State::removing) {
    if (answer.lifetime != 0) return;  // to an earlier request
    state_ = State::ended;
    deadline_.reset();
    return;
  }
  const base::Duration lifetime =
      std::min<base::Duration>(std::chrono::seconds(answer.lifetime), kLifetimeMax);
  if (answer.outer_port == 0 || answer.outer.is_any() || answer.outer.is_v4() != v4()) {
    return refused("it answers without an outer address", now, out);
  }
  if (lifetime < kLifetimeMin) {
    return refused(fmt::format("it maps the port for {} s only", answer.lifetime), now, out);
  }
  took({protocol_, {answer.outer, answer.outer_port}, lifetime}, now, out);
}

void Mapper::upnp_mapped(const base::Result<Mapping>& mapping, base::Time now, Outbox& out) {
  if (protocol_ != Protocol::upnp || (state_ != State::asking && state_ != State::renewing)) return;
  mapping ? took(*mapping, now, out) : refused(mapping.error().text, now, out);
}

void Mapper::upnp_removed(Outbox&) {
  if (state_ != State::removing) return;
  state_ = State::ended;
  deadline_.reset();
}

void Mapper::took(const Mapping& mapping, base::Time now, Outbox& out) {
  held_ = mapping;
  maybe_made_ = true;
  state_ = State::held;
  expires_ = now + mapping.lifetime;
  deadline_ = now + mapping.lifetime / 2;
  rest_ = kRestFirst;
  out.push_back(Line(mapping));
}

void Mapper::refused(const std::string& why, base::Time now, Outbox& out) {
  if (state_ == State::removing) {
    state_ = State::ended;
    deadline_.reset();
    return;
  }
  if (state_ == State::renewing) {
    return lose(fmt::format("{}: {}", to_string(protocol_), why), now, out);
  }
  next_protocol(why, now, out);
}

void Mapper::next_protocol(const std::string& why, base::Time now, Outbox& out) {
  failures_ += fmt::format("{}{}: {}", failures_.empty() ? "" : "; ", to_string(protocol_), why);
  // The other protocols know only IPv4.
  if (v4() && protocol_ != Protocol::upnp) {
    protocol_ = protocol_ == Protocol::pcp ? Protocol::nat_pmp : Protocol::upnp;
    tries_ = 0;
    return ask(now, out);
  }
  state_ = State::resting;
  maybe_made_ = false;
  deadline_ = now + rest_;
  rest_ = std::min(2 * rest_, kRestMax);
  out.push_back(Line(Unmapped{v4(), failures_}));
}

/// A held mapping is gone: this is reported, and another one is requested at once.
void Mapper::lose(const std::string& why, base::Time now, Outbox& out) {
  held_.reset();
  out.push_back(Line(Unmapped{v4(), why}));
  begin(now, out);
}

// --- time ---

void Mapper::expire(base::Time now, Outbox& out) {
  if (!deadline_ || now < *deadline_) return;
  switch (state_) {
    case State::asking:
    case State::renewing:
    case State::removing:
      if (tries_ < kTries) return ask(now, out);
      return unanswered(now, out);
    case State::held:
      if (now >= expires_) return lose("the router renewed nothing", now, out);
      state_ = State::renewing;
      tries_ = 0;
      return ask(now, out);
    case State::resting:
      return begin(now, out);
    case State::idle:
    case State::ended:
      return;
  }
}

void Mapper::unanswered(base::Time now, Outbox& out) {
  if (state_ == State::asking) return next_protocol(kNoAnswer, now, out);
  if (state_ == State::removing) {
    state_ = State::ended;
    deadline_.reset();
    return;
  }
  // The held mapping may continue; it is requested again before its end.
  state_ = State::held;
  const base::Duration left = expires_ - now;
  deadline_ = left <= kRenewPause ? std::max(expires_, now) : now + std::max(left / 2, kRenewPause);
}

void Mapper::unreachable(base::Time now, Outbox& out) {
  if (!awaits_answer() || protocol_ == Protocol::upnp) return;
  // A router that is starting lacks this port for a while, so this counts as an answer only at the
  // first time.
  if (state_ == State::asking) next_protocol("the router does not listen for it", now, out);
}

void Mapper::restarted(base::Time now, Outbox& out) {
  if (state_ != State::held && state_ != State::resting) return;
  if (asked_ != base::Time{} && now - asked_ < kRestartedPause) return;
  asked_ = now;
  if (state_ == State::resting) return begin(now, out);
  state_ = State::renewing;
  tries_ = 0;
  ask(now, out);
}

void Mapper::end(base::Time now, Outbox& out) {
  if (state_ == State::removing || state_ == State::ended) return;
  const bool made = held_.has_value() || (state_ == State::asking && maybe_made_);
  if (!made) {
    state_ = State::ended;
    deadline_.reset();
    return;
  }
  state_ = State::removing;
  tries_ = 0;
  ask(now, out);
}

}  // namespace starling::io::router
