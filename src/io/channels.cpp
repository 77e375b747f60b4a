#include "io/channels.hpp"

#include <algorithm>
#include <utility>

namespace starling::io {

void Channels::begin(std::unique_ptr<Channel> first) {
  used_.push_back(std::move(first));
  takes_more_ = true;
}

void Channels::add(std::unique_ptr<Channel> channel) {
  if (!has_room()) return retire(std::move(channel));
  used_.push_back(std::move(channel));
  choose_best();
}

void Channels::add(std::unique_ptr<Bootstrap> bootstrap, base::Time deadline) {
  if (!has_room()) return retire(std::move(bootstrap));
  joining_.push_back({std::move(bootstrap), deadline});
}

void Channels::retire(std::unique_ptr<Channel> channel) {
  channel->abort();
  retired_.push_back(std::move(channel));
}

void Channels::retire(std::unique_ptr<Bootstrap> bootstrap) {
  bootstrap->abort();
  failed_.push_back(std::move(bootstrap));
}

void Channels::set_up(base::Time now, const base::PeerId& peer, LinkTraffic& traffic,
                      const Lost& lost) {
  for (std::size_t i = 0; i < joining_.size();) {
    Bootstrap& bootstrap = *joining_[i].bootstrap;
    const CarrierKind kind = bootstrap.kind();
    const Bootstrap::State reached = bootstrap.pump();
    bootstrap.count(traffic);
    std::unique_ptr<Channel> channel;
    std::string why;
    if (reached == Bootstrap::State::done) {
      channel = bootstrap.take_channel();
      if (channel->session().peer() != peer) why = "another peer answers there";
    } else if (reached != Bootstrap::State::working) {
      why = bootstrap.failure().text;
    } else if (now >= joining_[i].deadline) {
      why = "it did not come up in time";
    } else {
      ++i;
      continue;
    }
    retire(std::move(joining_[i].bootstrap));
    joining_.erase(joining_.begin() + static_cast<std::ptrdiff_t>(i));
    if (why.empty()) {
      add(std::move(channel));
      continue;
    }
    if (channel) retire(std::move(channel));
    lost(kind, why);  // may end all
  }
}

void Channels::drop(std::size_t number) {
  retire(std::move(used_[number]));
  used_.erase(used_.begin() + static_cast<std::ptrdiff_t>(number));
  choose_best();
}

std::unique_ptr<Channel> Channels::give() {
  std::unique_ptr<Channel> channel = std::move(used_.front());
  used_.clear();
  return channel;
}

void Channels::end() {
  takes_more_ = false;
  for (Joining& joining : joining_) retire(std::move(joining.bootstrap));
  joining_.clear();
  // In this order: an end that sees one connection end may assume that the others have ended.
  std::ranges::sort(used_, {}, &Channel::kind);
  for (std::unique_ptr<Channel>& channel : used_) retire(std::move(channel));
  used_.clear();
}

void Channels::release_closed() {
  std::erase_if(retired_, [](const auto& channel) { return channel->closed(); });
  std::erase_if(failed_, [](const auto& bootstrap) { return bootstrap->closed(); });
}

void Channels::choose_best() noexcept {
  const auto best =
      std::ranges::min_element(used_, {}, [](const auto& channel) { return channel->kind(); });
  best_ = static_cast<std::size_t>(best - used_.begin());
}

bool Channels::has(CarrierKind kind) const noexcept {
  return std::ranges::any_of(used_, [&](const auto& channel) { return channel->kind() == kind; });
}

bool Channels::readable() const noexcept {
  return std::ranges::any_of(used_, [](const auto& channel) { return channel->readable(); });
}

bool Channels::closed() const noexcept {
  const auto is_closed = [](const auto& ended) { return ended->closed(); };
  return std::ranges::all_of(retired_, is_closed) && std::ranges::all_of(failed_, is_closed);
}

base::Time Channels::deadline() const noexcept {
  base::Time first = base::Time::max();
  for (const Joining& joining : joining_) first = std::min(first, joining.deadline);
  return first;
}

}  // namespace starling::io
