// A scenario: the TOML file that says which peers run, on which network, what goes wrong and when,
// and what must hold. Plain values, as written; plan.hpp resolves them. scenarios/LANGUAGE.md
// describes the language.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "hostile/attack.hpp"
#include "sim/language/expectation.hpp"

namespace starling::sim {

inline constexpr std::uint64_t kScenarioBytesMax = 1 << 20;
inline constexpr std::uint32_t kPeersMax = 4096;  ///< of a scenario, joiners included
inline constexpr std::size_t kRegionsMax = 64;
inline constexpr std::size_t kEntriesMax = 1000;    ///< of the timeline as written
inline constexpr std::size_t kEventsMax = 100'000;  ///< of the timeline as expanded
/// Peers that events affect, plus both ends of the paths that they cut or make worse, in all.
inline constexpr std::size_t kStruckMax = 1 << 26;
inline constexpr double kSecondsMax = 1e6;  ///< of any time in a scenario
inline constexpr double kPeriodMin = 0.01;  ///< seconds: of `every` and `period`

/// The effects of a path between two peers on its packets. A value that is not set keeps the one of
/// the level below (pair of regions, default).
struct Conditions {
  std::optional<double> latency_ms;  ///< one way
  std::optional<double> jitter_ms;   ///< standard deviation of the added delay, uniform from 0 on
  std::optional<double> rate_mbit;   ///< 0: not limited
  std::optional<double> loss;        ///< of packets, 0 to 1
  std::optional<double> duplicate;   ///< of packets, 0 to 1
  std::optional<double> reorder;     ///< of packets, 0 to 1
  std::optional<double> corrupt;     ///< of packets, 0 to 1

  [[nodiscard]] bool empty() const;
  friend bool operator==(const Conditions&, const Conditions&) = default;
};

/// Some of the peers.
struct Selector {
  enum class Kind : std::uint8_t { all, first, last, random, next, region, numbers };
  Kind kind = Kind::all;
  std::uint32_t count = 1;  ///< first, last, random, next
  double percent = 0;       ///< random: of the candidates, if above 0
  std::string region;       ///< region
  std::vector<std::uint32_t> numbers;
};

enum class Kind : std::uint8_t {
  kill,            ///< the process ends without a word
  stop,            ///< it stands still (SIGSTOP)
  restart,         ///< a dead peer starts again; a running one is killed first
  join,            ///< new peers start
  leave,           ///< the peer says goodbye and ends
  partition,       ///< nothing passes between some peers
  heal,            ///< partitions and degradations end, also those that have an end
  degrade,         ///< the conditions of some paths change
  throttle,        ///< the processor is slower
  disk_full,       ///< nothing can be written
  twin,            ///< a second process with the same key starts
  skew,            ///< the clock runs faster or slower
  router_restart,  ///< a router is off; when it is back, it has forgotten all connections
  mapping_lost,    ///< a peer's router has forgotten its connections
  address_change,  ///< a running peer is seen at another address from now on
};

/// How a partition cuts.
enum class Shape : std::uint8_t {
  halves,      ///< two random halves
  one,         ///< the selected peers, each alone
  minority,    ///< a random third
  ring,        ///< each peer sees its own majority: its neighbours on a circle
  bridge,      ///< two halves with one peer in common
  asymmetric,  ///< the selected peers' packets arrive nowhere; they still hear all
  flip_flop,   ///< the selected peers cut one way, then the other, and so on
  swizzle,     ///< the selected peers, each alone, one by one, and back in another order
  groups,      ///< as listed; a peer in no group is cut from nobody
};

/// Whether it cuts peers that an entry selects; other shapes concern all peers.
[[nodiscard]] constexpr bool cuts_selected(Shape shape) noexcept {
  return shape == Shape::one || shape == Shape::asymmetric || shape == Shape::flip_flop ||
         shape == Shape::swizzle;
}

/// The state of its folder that a restarted peer finds.
enum class Disk : std::uint8_t { kept, lost, torn, flipped };

/// The address at which a restarted peer is found.
enum class Address : std::uint8_t { kept, fresh };

/// Which direction of the selected peers' paths a degradation changes.
enum class Direction : std::uint8_t { both, out, in };

/// One [[timeline]] entry.
struct Entry {
  int line = 0;
  Kind kind = Kind::kill;
  double at = 0;
  std::optional<double> every;
  std::optional<double> until;     ///< of `every`; default: the end of the scenario
  std::optional<double> duration;  ///< key "for"
  std::optional<Selector> peers;
  std::uint32_t count = 1;  ///< join
  double spacing = 0;       ///< join: seconds between two
  std::string region;       ///< join; empty: dealt in turn
  Shape shape = Shape::halves;
  std::vector<std::vector<std::uint32_t>> groups;
  double period = 1;                 ///< flip_flop
  std::vector<std::string> between;  ///< degrade: two regions
  Direction direction = Direction::both;
  Conditions conditions;
  double speed = 1;  ///< throttle
  double rate = 1;   ///< skew: of the clock
  Disk disk = Disk::kept;
  Address address = Address::kept;
};

struct RegionPair {
  std::string a, b;
  Conditions conditions;
};

/// The line from each peer of a region to the network: all paths of the peer share it.
struct Line {
  std::string region;
  double rate_mbit = 0;  ///< each way
};

/// The device between a peer and the network; see sim/network/nat.hpp.
enum class NatKind : std::uint8_t { open, moderate, strict, cgnat, firewall };

/// In addition to IPv4, or instead of it.
enum class Ipv6 : std::uint8_t { none, only, both };

/// The only way out, if there is one.
enum class Proxy : std::uint8_t { none, socks5, http };

struct NatSettings {
  NatKind kind = NatKind::open;
  Ipv6 ipv6 = Ipv6::none;
  double mapping = 0;                ///< seconds of silence until it is forgotten; 0: never
  bool pcp = false;                  ///< the router opens ports on request
  bool shared = false;               ///< one router for all peers of the entry; otherwise one each
  std::uint32_t mtu_black_hole = 0;  ///< bytes; larger packets vanish on the way; 0: none
  Proxy proxy = Proxy::none;

  friend bool operator==(const NatSettings&, const NatSettings&) = default;
};

/// One [[network.nat]] entry: the device in front of some peers.
struct NatEntry {
  int line = 0;
  std::string region;                ///< either this,
  std::vector<std::uint32_t> peers;  ///< or these
  NatSettings settings;
};

/// One [[hostile]] entry: peers that attack the others.
struct HostileEntry {
  int line = 0;
  Selector peers;  ///< not next
  hostile::Attack attack;
};

/// The path of a link.
enum class LinkPath : std::uint8_t { direct, circuit };

/// Which path the link of two peers should have.
struct ExpectedPath {
  std::uint32_t a = 0, b = 0;  ///< a < b
  LinkPath path = LinkPath::direct;
};

enum class Problem : std::uint8_t { model, small, quadratic, none };

/// Settings that only the simulator needs.
struct SimSettings {
  Problem problem = Problem::model;
  double step_ms = 20;           ///< of a peer of speed 1
  std::uint32_t elements = 256;  ///< quadratic: of the replica
  std::uint32_t buffers = 0;     ///< quadratic: in addition to the replica
  bool buggify = false;          ///< rare branches are taken
};

struct Scenario {
  std::string file;  ///< as given, for messages
  std::string name;
  std::string about;
  std::uint64_t seed = 1;
  double duration = 0;  ///< seconds

  std::uint32_t count = 0;
  std::vector<std::string> regions{"local"};
  std::vector<double> speeds{1.0};
  double spacing = 0;                 ///< seconds between two starts
  std::vector<std::uint32_t> relays;  ///< peers that have no replica
  Selector via{.kind = Selector::Kind::first, .region = {}, .numbers = {}};

  std::string run_file;  ///< resolved against the scenario's folder; empty: none
  std::vector<std::string> set;

  Conditions network;
  std::vector<RegionPair> pairs;
  std::vector<Line> lines;
  std::vector<NatEntry> nats;
  std::vector<HostileEntry> hostiles;
  std::vector<Entry> timeline;
  std::vector<Expectation> expect;
  std::vector<ExpectedPath> paths;  ///< goes with Measure::paths_within_s
  SimSettings sim;
};

[[nodiscard]] bool expects(const Scenario& scenario, Measure measure);

/// Reads and checks a scenario. Errors (ErrorCode::run_file) name file and line, the fault, the
/// allowed values and, for an unknown word, the most similar one.
[[nodiscard]] base::Result<Scenario> read_scenario(const std::string& path);
/// The same for a text. Messages name `path`, and the run file is looked for beside it.
[[nodiscard]] base::Result<Scenario> parse_scenario(std::string_view text, const std::string& path);

[[nodiscard]] std::string_view to_string(Kind kind) noexcept;
[[nodiscard]] std::string_view to_string(Shape shape) noexcept;
[[nodiscard]] std::string_view to_string(Disk disk) noexcept;
[[nodiscard]] std::string_view to_string(Address address) noexcept;
[[nodiscard]] std::string_view to_string(Problem problem) noexcept;
[[nodiscard]] std::string_view to_string(NatKind kind) noexcept;
[[nodiscard]] std::string_view to_string(Ipv6 ipv6) noexcept;
[[nodiscard]] std::string_view to_string(Proxy proxy) noexcept;
[[nodiscard]] std::string_view to_string(LinkPath path) noexcept;

/// The scenario as TOML. parse_scenario makes an equal scenario of it if the text is in `folder`;
/// its run file is looked for beside that.
[[nodiscard]] std::string to_toml(const Scenario& scenario, const std::string& folder = {});

}  // namespace starling::sim
