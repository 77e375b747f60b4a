#include "io/link_table.hpp"

#include <algorithm>

#include "io/loop.hpp"

namespace starling::io {

std::optional<std::uint32_t> LinkTable::free_place() {
  const auto free = std::ranges::find_if(slots_, [](const Slot& slot) { return !slot.link; });
  const auto place = static_cast<std::uint32_t>(free - slots_.begin());
  if (free != slots_.end()) return place;
  if (slots_.size() >= config_.links_max) return std::nullopt;
  slots_.emplace_back();
  return place;
}

LinkTable::Slot& LinkTable::begin(std::uint32_t place, std::uint64_t dial, std::string address,
                                  std::unique_ptr<Bootstrap> bootstrap) {
  auto link = std::make_unique<Link>(dial, std::move(address), std::move(bootstrap),
                                     config_.link_memory, Loop::now() + config_.handshake_timeout);
  slots_[place] = {.generation = slots_[place].generation + 1, .link = std::move(link)};
  return slots_[place];
}

void LinkTable::end(Slot& slot) {
  past_.add(slot.link->traffic());
  slot.link.reset();
}

Link* LinkTable::find(base::LinkId id) const {
  if (!id.valid() || id.slot >= slots_.size()) return nullptr;
  const Slot& slot = slots_[id.slot];
  const bool is_up = slot.up_reported && !slot.down_reported;
  return slot.generation == id.generation && is_up ? slot.link.get() : nullptr;
}

std::size_t LinkTable::size() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const Slot& slot) { return slot.link != nullptr; }));
}

bool LinkTable::may_come(const base::Ip& from) const {
  std::size_t strangers = 0;
  std::size_t from_there = 0;
  for (const Slot& slot : slots_) {
    if (!slot.link) continue;
    const bool known = slot.accepted && slot.link->state() == Link::State::up;
    if (slot.link->dial() == 0 && !known) ++strangers;
    if (slot.came_from && !slot.up_reported && slot.came_from->same_holder(from)) ++from_there;
  }
  return strangers < kStrangersMax && from_there < kStrangersPerHostMax;
}

LinkTraffic LinkTable::traffic() const {
  LinkTraffic sum = past_;
  for (const Slot& slot : slots_) {
    if (slot.link) sum.add(slot.link->traffic());
  }
  return sum;
}

base::Time LinkTable::deadline() const {
  base::Time first = base::Time::max();
  for (const Slot& slot : slots_) {
    if (slot.link) first = std::min(first, slot.link->deadline());
    if (slot.talk.token != 0) first = std::min(first, slot.talk.token_until);
  }
  return first;
}

}  // namespace starling::io
