#include "io/trainer_port.hpp"

#include <deque>
#include <utility>

#include "base/assert.hpp"

namespace starling::io {

namespace {

// Links may change any number of times while the owner of the replica does not take jobs.
bool make_room(std::deque<peer::Job>& waiting, const peer::Job& later) {
  const auto* job = std::get_if<exchange::Job>(&later);
  return job == nullptr || exchange::make_room(waiting, *job, [](const peer::Job& item) {
           return std::get_if<exchange::Job>(&item);
         });
}

}  // namespace

void TrainerPort::submit(peer::Job job) {
  const bool taken = jobs_.try_push(std::move(job), make_room) || closed_;
  ASSERT(taken, "more jobs than a peer may have outstanding");
}

std::optional<peer::Job> TrainerPort::try_next() {
  if (closed_) return std::nullopt;
  return jobs_.try_pop();
}

std::optional<peer::Job> TrainerPort::next() {
  auto job = jobs_.pop();
  if (closed_) return std::nullopt;
  return job;
}

void TrainerPort::hand_back(std::vector<peer::Outcome>& outcomes) {
  if (outcomes.empty()) return;
  for (peer::Outcome& outcome : outcomes) {
    if (!outcomes_.push(std::move(outcome))) break;
  }
  outcomes.clear();
  wake();
}

void TrainerPort::leave() {
  leaving_ = true;
  wake();
}

void TrainerPort::close() {
  closed_ = true;
  jobs_.close();
  outcomes_.close();
  const std::lock_guard lock(waking_);
  wake_ = nullptr;
}

void TrainerPort::wake() {
  const std::lock_guard lock(waking_);
  if (wake_) wake_();
}

}  // namespace starling::io
