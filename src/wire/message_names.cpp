// The purposes for which a message's bytes count, and names for people.
#include "wire/messages.hpp"

namespace starling::wire {

Purpose purpose_of(std::uint8_t frame_type) noexcept {
  switch (static_cast<FrameType>(frame_type)) {
    case FrameType::delta:
      return Purpose::delta;
    case FrameType::keyframe:
      return Purpose::keyframe;
    case FrameType::neighbour:
    case FrameType::gossip:
    case FrameType::heartbeat:
    case FrameType::reconcile:
    case FrameType::dial_back:
    case FrameType::dialed_back:
    case FrameType::introduce:
    case FrameType::circuit_call:
      return Purpose::membership;
    case FrameType::reduce:
    case FrameType::reduce_received:
      return Purpose::reduce;
    case FrameType::hello:
    case FrameType::refuse:
    case FrameType::link_open:
    case FrameType::settle:
    case FrameType::bye:
    case FrameType::run_file_request:
    case FrameType::run_file_reply:
      break;
    case FrameType::circuit:
      return Purpose::relayed;
  }
  return Purpose::other;
}

const char* to_string(MemberState state) noexcept {
  switch (state) {
    case MemberState::alive:
      return "alive";
    case MemberState::suspect:
      return "suspect";
    case MemberState::dead:
      return "dead";
    case MemberState::left:
      return "left";
  }
  return "unknown";
}

const char* to_string(ByeReason reason) noexcept {
  switch (reason) {
    case ByeReason::none:
      return "none";
    case ByeReason::left:
      return "left";
    case ByeReason::done:
      return "done";
    case ByeReason::duplicate:
      return "duplicate link";
    case ByeReason::misbehaved:
      return "misbehaved";
    case ByeReason::silent:
      return "silent";
    case ByeReason::replaced:
      return "replaced";
  }
  return "unknown";
}

const char* to_string(Reachability reach) noexcept {
  switch (reach) {
    case Reachability::unknown:
      return "unknown";
    case Reachability::reachable:
      return "reachable";
    case Reachability::dials_only:
      return "dials only";
  }
  return "unknown";
}

const char* to_string(CircuitRefusal reason) noexcept {
  switch (reason) {
    case CircuitRefusal::none:
      return "no reason";
    case CircuitRefusal::off:
      return "it relays for no peer";
    case CircuitRefusal::full:
      return "it takes no more circuits";
    case CircuitRefusal::absent:
      return "it has no direct link with that member";
    case CircuitRefusal::busy:
      return "it was asked too often";
    case CircuitRefusal::unwanted:
      return "the other end refused it";
  }
  return "unknown";
}

const char* to_string(DeathReason reason) noexcept {
  switch (reason) {
    case DeathReason::none:
      return "no reason";
    case DeathReason::refused:
      return "refused";
    case DeathReason::reset:
      return "reset";
    case DeathReason::silent:
      return "silent";
    case DeathReason::left:
      return "left";
  }
  return "unknown";
}

}  // namespace starling::wire
