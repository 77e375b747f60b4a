// Peers on the same network find each other without an address: announcements by UDP multicast,
// over IPv4 and IPv6, and broadcast on every interface. Announcements are not trusted: each is only
// an address to dial, and the link's handshake decides who is there.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/ip.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "io/loop.hpp"
#include "wire/messages.hpp"

namespace starling::io {

/// A peer's announcement. On the wire, little-endian: 8 bytes magic, 1 version, 16 run, 32 id, 2
/// port, 8 XXH3-64 of the bytes before.
struct Announcement {
  wire::RunId run;
  base::PeerId id;
  std::uint16_t port = 0;  ///< to dial, at the sender's address
};
inline constexpr std::uint8_t kLanVersion = 1;
inline constexpr std::size_t kAnnouncementSize = 8 + 1 + 16 + 32 + 2 + 8;
[[nodiscard]] std::array<std::byte, kAnnouncementSize> pack(const Announcement& announcement);
/// Nothing if it has another size, version or magic, or a wrong checksum.
[[nodiscard]] std::optional<Announcement> unpack_announcement(base::ByteView bytes);

inline constexpr std::uint16_t kLanPort = 18463;
inline constexpr std::size_t kLanPeersMax = 1024;     ///< senders that are remembered
inline constexpr std::size_t kLanRunsMax = 16;        ///< other runs
inline constexpr std::size_t kLanInterfacesMax = 16;  ///< with announcements
inline constexpr int kLanHeardPerSecond = 200;        ///< datagrams; further ones are dropped
/// The number of announcements that are kLanFast apart; later ones are kLanSlow apart.
inline constexpr int kLanFastCount = 10;
/// Pause between the first announcements.
inline constexpr base::Duration kLanFast = std::chrono::seconds(1);
/// Pause between the later ones.
inline constexpr base::Duration kLanSlow = std::chrono::seconds(10);
/// The owner is told of a sender once in this time.
inline constexpr base::Duration kLanAgain = std::chrono::seconds(5);

/// An interface on which to announce.
struct LanInterface {
  std::string name;
  base::Ip address;  ///< IPv4, or the link-local IPv6 address
  std::optional<base::Ip> broadcast;
  bool multicast = false;
};
/// Interfaces that are up, once for each of their IPv4 addresses, loopback included, and once for
/// IPv6; at most kLanInterfacesMax, with bridges to only this machine's containers last.
[[nodiscard]] std::vector<LanInterface> lan_interfaces();

/// On the loop's thread.
class Lan {
 public:
  /// A sender that claims to be `peer`, of the same run, was heard; dial it at "ip:port".
  using Heard = std::function<void(const base::PeerId& peer, const std::string& address)>;

  /// Listens on `port` and begins to announce `own`, over the families of `bound`, where it accepts
  /// links. Error (network): why IPv4 does not work; IPv6 may be missing.
  [[nodiscard]] static base::Result<std::unique_ptr<Lan>> create(Loop& loop,
                                                                 const Announcement& own,
                                                                 const base::Ip& bound,
                                                                 std::uint16_t port, Heard heard);
  ~Lan();
  Lan(const Lan&) = delete;
  Lan& operator=(const Lan&) = delete;

  /// Whether a peer of the same run was heard.
  [[nodiscard]] bool heard_any() const noexcept { return !peers_.empty(); }
  /// Why none was heard, for people.
  [[nodiscard]] std::string diagnosis() const;
  /// Senders: at most kLanPeersMax.
  [[nodiscard]] std::size_t remembered() const noexcept { return peers_.size(); }

  /// A datagram from the socket.
  void receive(base::ByteView bytes, const base::Ip& from, base::Time now);

 private:
  struct Socket;
  Lan(Loop& loop, const Announcement& own, const base::Ip& bound, std::uint16_t port, Heard heard);
  /// Returns libuv's status.
  [[nodiscard]] int open(Socket& socket, const base::Ip& at);
  void announce();
  void listen_on(const LanInterface& interface);
  /// Bytes sent, or libuv's status.
  [[nodiscard]] int announce_on(const LanInterface& interface);
  [[nodiscard]] int send_to(Socket& socket, const base::Ip& to);
  [[nodiscard]] std::string where() const;

  Announcement own_;
  base::Ip bound_;
  std::uint16_t port_;
  Heard heard_;
  base::Rng rng_;
  // They free themselves when libuv is done with them.
  Socket* v4_;
  Socket* v6_;
  bool has_v6_ = false;
  std::unique_ptr<Timer> timer_;
  int announced_ = 0;

  /// When each sender was last reported.
  std::map<std::pair<base::PeerId, std::string>, base::Time> peers_;
  std::set<std::string> other_runs_;  ///< "ip (run 0123abcd)"
  std::uint64_t malformed_ = 0;       ///< datagrams that are not announcements
  std::uint64_t own_heard_ = 0;       ///< own announcements that came back
  base::Time second_{};               ///< in which `in_second_` counts
  int in_second_ = 0;
  std::map<std::string, std::string> sent_;  ///< interface: nothing, or why not
};

}  // namespace starling::io
