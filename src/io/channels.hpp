// The channels of one link: those in use, those that are being set up, and those that have ended
// but are not closed yet. Internal.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/peer_id.hpp"
#include "base/time.hpp"
#include "io/bootstrap.hpp"
#include "io/channel.hpp"
#include "io/traffic.hpp"

namespace starling::io {

class Channels {
 public:
  /// At a time, including those that are being set up.
  static constexpr std::size_t kMax = 4;
  /// A channel in use, or being set up, was lost.
  using Lost = std::function<void(CarrierKind kind, const std::string& why)>;

  /// The first channel of a link: from now on it takes more.
  void begin(std::unique_ptr<Channel> first);
  /// Another channel to the same peer; one that is not taken ends.
  void add(std::unique_ptr<Channel> channel);
  /// A channel that is still being set up, until `deadline`.
  void add(std::unique_ptr<Bootstrap> bootstrap, base::Time deadline);
  /// Takes no more.
  void refuse_more() noexcept { takes_more_ = false; }
  /// Goes on with those that are being set up. The other end of each must be `peer`.
  void set_up(base::Time now, const base::PeerId& peer, LinkTraffic& traffic, const Lost& lost);
  /// Ends one of several channels in use. The best of the others is used from now on.
  void drop(std::size_t number);
  /// Gives the only channel in use away.
  [[nodiscard]] std::unique_ptr<Channel> give();
  /// Ends all of them.
  void end();
  /// Ends this, and keeps it until it is closed.
  void retire(std::unique_ptr<Channel> channel);
  void retire(std::unique_ptr<Bootstrap> bootstrap);
  /// Not at the place where they end: a channel may be reading, and may have caused its own end.
  void release_closed();

  /// Those in use.
  [[nodiscard]] const std::vector<std::unique_ptr<Channel>>& all() const noexcept { return used_; }
  /// The one on which this end sends; needs one in use.
  [[nodiscard]] Channel& best() const noexcept { return *used_[best_]; }
  [[nodiscard]] bool has(CarrierKind kind) const noexcept;
  [[nodiscard]] bool readable() const noexcept;
  /// Whether all that have ended are closed.
  [[nodiscard]] bool closed() const noexcept;
  /// When set_up() must be called if nothing happens before.
  [[nodiscard]] base::Time deadline() const noexcept;

 private:
  struct Joining {
    std::unique_ptr<Bootstrap> bootstrap;
    base::Time deadline;
  };

  [[nodiscard]] bool has_room() const noexcept {
    return takes_more_ && used_.size() + joining_.size() < kMax;
  }
  void choose_best() noexcept;

  std::vector<std::unique_ptr<Channel>> used_;
  std::size_t best_ = 0;  ///< number in used_
  std::vector<Joining> joining_;
  std::vector<std::unique_ptr<Channel>> retired_;
  std::vector<std::unique_ptr<Bootstrap>> failed_;
  bool takes_more_ = false;
};

}  // namespace starling::io
