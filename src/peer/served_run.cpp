#include "peer/served_run.hpp"

#include <chrono>
#include <utility>

namespace starling::peer {

ServedRun::ServedRun(const Config& config, bool relays)
    : run_(config.run),
      parameters_hash_(config.parameters_hash),
      heartbeat_(config.membership.heartbeat),
      run_file_(config.shared_run_file),
      relays_(relays),
      is_known_(!relays) {}

wire::Hello ServedRun::hello(wire::MemberRecord self) const {
  const auto heartbeat = std::chrono::ceil<std::chrono::milliseconds>(heartbeat_);
  return {.run = run_,
          .parameters_hash = parameters_hash_,
          .self = std::move(self),
          .heartbeat_ms = static_cast<std::uint32_t>(heartbeat.count())};
}

bool ServedRun::is_of(const wire::Hello& hello) const noexcept {
  return hello.run == run_ && hello.parameters_hash == parameters_hash_;
}

bool ServedRun::find(const wire::Hello& hello) {
  if (run_ != wire::RunId{} && hello.run != run_) return false;
  is_known_ = true;
  run_ = hello.run;
  parameters_hash_ = hello.parameters_hash;
  heartbeat_ = std::chrono::milliseconds(hello.heartbeat_ms);
  return true;
}

void ServedRun::note_links(bool linked, base::Time now) {
  if (linked) {
    alone_until_.reset();
  } else if (is_known_ && !alone_until_) {
    alone_until_ = now + kRelayAlone;
  }
}

}  // namespace starling::peer
