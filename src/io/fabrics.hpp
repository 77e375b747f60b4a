// Decides which links of a transport go over UCX, and moves them there. Internal.
//
//  1. Once a link is accepted, each end sends its facts about fabrics (an `offer` cell): the name
//     in its run file, its UCX's version, and a proof of its machine and user.
//  2. Both ends make the same decision (ucx/fabric_choice.hpp). Most links stay where they are,
//     with a reason.
//  3. Each end loads UCX, if it has not yet: on a separate thread, since that may take half a
//     second (ucx::Loading).
//  4. The end that was the session's listener lets the other end's address in, and tells it the
//     port and a token (a `door` cell). The other end lets in the first end's address, since UCX
//     connects back, and connects.
//  5. On the connection, a new session begins, whose preamble has the token. Once it is up, the
//     link has another carrier, and moves there.
//
// Training does not wait for any of this: after a failure, the link stays as it was.
//
// Of an offer, little-endian:
//
//   offset  size  field
//   0       2     major version of UCX, 0 if it is not loaded yet
//   2       2     minor version
//   4       2     release
//   6       1     1: this end cannot use UCX
//   7       32    proof of the machine, or zeros
//   39      17    this end's address on the link's connection: 1 for IPv6, then 4 or 16 bytes
//   56      17    the other end's, as seen here
//   73      ..    links.fabric
//
// Of a door:
//
//   0       8     token
//   8       2     port of UCX's connection manager
//   10      6     version of UCX, as above
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/port_range.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "io/link.hpp"
#include "io/ucx/fabric.hpp"
#include "io/ucx/fabric_choice.hpp"
#include "io/ucx/machine_proof.hpp"

namespace starling::io {

/// A run file's settings for fabrics.
struct FabricKeys {
  std::string fabric = "auto";  ///< links.fabric: "auto", "none" or a name
  base::PortRange ports{};      ///< links.fabric_ports
};

class Fabrics {
 public:
  /// From an offer or a door to a link's other carrier.
  static constexpr base::Duration kPatience = std::chrono::seconds(5);
  /// How long an unused fabric is kept.
  static constexpr base::Duration kUnusedMax = std::chrono::seconds(60);
  /// Fabrics at a time: interfaces of this machine that have links.
  static constexpr std::size_t kFabricsMax = 8;

  /// The listener's message to the dialer.
  struct Door {
    std::uint64_t token = 0;
    std::uint16_t port = 0;
    ucx::Version version{};
  };

  /// A link's state about fabrics. The transport keeps it beside the link.
  struct Talk {
    bool offered = false;
    bool heard = false;
    std::string reason;       ///< why the link does not go over UCX; empty: it may, or it is open
    std::uint64_t token = 0;  ///< of the carrier that this end awaits; 0: none
    base::Time token_until{};
    std::optional<ucx::FabricConfig> on;  ///< the fabric that it is to use
    base::Ip other;                       ///< the other end there
    bool let_in = false;                  ///< the fabric's filter lets `other` in for it
    bool waits = false;                   ///< for UCX, which is being loaded
    Door door;                            ///< of a waiting dialer: where it will connect
  };

  /// `tls`, `closed`: links are encrypted, and their ends have proved a secret. `loop` must outlive
  /// it.
  Fabrics(Loop& loop, FabricKeys keys, bool tls, bool closed);
  Fabrics(const Fabrics&) = delete;
  Fabrics& operator=(const Fabrics&) = delete;
  /// Every carrier must be gone. Blocks for up to ucx::kQuiet, unless close() was called in time.
  ~Fabrics();

  /// The link was accepted.
  void begin(Link& link, Talk& talk);
  /// An offer or a door. Error (protocol): the other end's message makes no sense.
  [[nodiscard]] base::Status on_cell(Link& link, Talk& talk, CellType type, base::ByteView cell);
  /// Call this for a link that is up whenever it has its turn: it handles an offer or a door, once
  /// UCX is loaded. True if there was something. `make_session` makes a session for a new carrier.
  using MakeSession = std::function<base::Result<std::unique_ptr<Session>>(Role)>;
  [[nodiscard]] bool go_on(Link& link, Talk& talk, base::Time now, const MakeSession& make_session);
  /// The link's UCX carrier, or the attempt at it, has ended.
  void on_lost(Talk& talk, const std::string& why, base::Time now);
  /// The link is gone.
  void forget(Talk& talk, base::Time now);

  /// Runs UCX. True if something happened.
  bool progress();
  /// False: there is something to do already, so do not wait.
  [[nodiscard]] bool arm();
  /// The connections since the last call, at most `max`; others are turned away.
  [[nodiscard]] std::vector<std::unique_ptr<Carrier>> take_incoming(std::size_t max);
  /// Releases unused fabrics. Returns when to call it again; Time::max(): never.
  [[nodiscard]] base::Time drop_unused(base::Time now);
  /// Lets in no more connections. Returns when the fabrics can be destroyed without blocking.
  base::Time close();
  [[nodiscard]] bool any() const noexcept { return !open_.empty(); }

 private:
  struct Open {
    std::unique_ptr<ucx::Fabric> fabric;
    std::vector<base::Ip> let_in;  ///< once for each link
    base::Time unused_since = base::Time::max();
  };

  void decide(const Link& link, Talk& talk, const ucx::FabricFacts& facts);
  [[nodiscard]] base::Status on_door(Link& link, Talk& talk, base::ByteView cell);
  bool load();
  void listen(Link& link, Talk& talk, base::Time now);
  void connect(Link& link, Talk& talk, base::Time now, const MakeSession& make_session);
  [[nodiscard]] base::Result<ucx::Fabric*> let_in(Talk& talk);
  [[nodiscard]] base::Status renew_filter(Open& open);
  [[nodiscard]] Open* find(const ucx::FabricConfig& config);
  [[nodiscard]] base::Bytes proof_text(const Link& link, Role prover) const;

  Loop& loop_;
  FabricKeys keys_;
  bool tls_;
  bool closed_;
  std::optional<ucx::MachineProof> machine_;
  std::string why_not_;  ///< why this end cannot use UCX; empty: no reason is known
  bool loaded_ = false;  ///< UCX is loaded, or cannot be
  std::optional<ucx::Loading> loading_;
  std::vector<Open> open_;
};

}  // namespace starling::io
