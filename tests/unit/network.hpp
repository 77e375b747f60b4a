// The network of the unit tests: virtual time, and links on which messages keep their order. It
// draws nothing and sleeps never; its user decides how long each message takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "base/strong.hpp"
#include "base/time.hpp"

namespace starling::testing {

/// Tasks run in order of time; those of one time in the order in which they were given.
class Network {
 public:
  /// One end of a connection. Side 0 dialed.
  struct Place {
    std::size_t connection = 0;
    int side = 0;
    [[nodiscard]] Place across() const { return {connection, 1 - side}; }
  };
  struct End {
    std::size_t peer = 0;
    base::LinkId link;
    bool open = true;
    base::Time last_arrival{};  ///< at this end
  };

  explicit Network(base::Time start = {}) : now_(start) {}

  [[nodiscard]] base::Time now() const noexcept { return now_; }
  void at(base::Time time, std::function<void()> run) {
    tasks_.push({time, order_++, std::move(run)});
  }
  void after(base::Duration delay, std::function<void()> run) { at(now_ + delay, std::move(run)); }
  /// When the next task is due.
  [[nodiscard]] std::optional<base::Time> next() const {
    return tasks_.empty() ? std::nullopt : std::optional(tasks_.top().time);
  }
  /// Time never goes back.
  void go_to(base::Time time) { now_ = std::max(now_, time); }
  void run_next() {
    go_to(tasks_.top().time);
    const auto run = tasks_.top().run;
    tasks_.pop();
    run();
  }
  void run_until(base::Time end) {
    while (!tasks_.empty() && tasks_.top().time <= end) run_next();
    now_ = end;
  }

  /// Both ends are open at once. Peers are numbered as the user likes.
  std::size_t connect(std::size_t from, std::size_t to) {
    connections_.push_back({});
    const std::size_t connection = connections_.size() - 1;
    for (const int side : {0, 1}) {
      const std::size_t peer = side == 0 ? from : to;
      const base::LinkId link{++last_link_[peer], 1};
      connections_.back().ends[side] = {.peer = peer, .link = link};
      links_[peer].emplace(link, Place{connection, side});
    }
    return connection;
  }
  [[nodiscard]] const End& end(const Place& place) const {
    return connections_[place.connection].ends[place.side];
  }
  /// The peer's end of the link; nothing: it is not open.
  [[nodiscard]] std::optional<Place> find(std::size_t peer, base::LinkId link) const {
    const auto links = links_.find(peer);
    if (links == links_.end()) return std::nullopt;
    const auto found = links->second.find(link);
    return found == links->second.end() ? std::nullopt : std::optional(found->second);
  }
  /// Open ends of the peer.
  [[nodiscard]] std::map<base::LinkId, Place> links(std::size_t peer) const {
    const auto links = links_.find(peer);
    return links == links_.end() ? std::map<base::LinkId, Place>{} : links->second;
  }
  [[nodiscard]] std::size_t size() const noexcept { return connections_.size(); }
  /// False: it was not open.
  bool close(const Place& place) {
    End& end = connections_[place.connection].ends[place.side];
    if (!std::exchange(end.open, false)) return false;
    links_[end.peer].erase(end.link);
    return true;
  }
  /// `arrive` runs at the other end, after all that was sent before, if that end is open then.
  void carry(const Place& from, base::Duration delay, std::function<void()> arrive) {
    const Place place = from.across();
    End& to = connections_[place.connection].ends[place.side];
    to.last_arrival = std::max(to.last_arrival, now_ + delay);
    at(to.last_arrival, [this, place, arrive = std::move(arrive)] {
      if (end(place).open) arrive();
    });
  }

 private:
  struct Connection {
    End ends[2];
  };
  struct Task {
    base::Time time;
    std::uint64_t order = 0;
    std::function<void()> run;
    friend bool operator<(const Task& a, const Task& b) {
      return std::tie(a.time, a.order) > std::tie(b.time, b.order);  // earliest on top
    }
  };

  base::Time now_;
  std::uint64_t order_ = 0;
  std::priority_queue<Task> tasks_;
  std::vector<Connection> connections_;
  std::map<std::size_t, std::map<base::LinkId, Place>> links_;  ///< open ends, by peer
  std::map<std::size_t, std::uint32_t> last_link_;
};

}  // namespace starling::testing
