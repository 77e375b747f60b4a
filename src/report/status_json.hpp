// A peer's status as JSON, for its control port and `starling status --json`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "peer/status.hpp"
#include "report/summary.hpp"
#include "runfile/invite.hpp"

namespace starling::report {

/// The carrier of a link's bytes.
struct LinkCarrier {
  std::string kind;  ///< "tcp", "ucx" or "circuit"
  std::string why;   ///< why it is not "ucx"; may be empty
};

/// Whether the router lets others in at a peer's port.
struct PortMapped {
  std::vector<std::string> addresses;  ///< "ip:port" on the internet, if it does
  std::string text;                    ///< for people; empty: it has not answered yet
};

/// Facts about a peer that its core does not know.
struct StatusExtra {
  std::string run;               ///< its name
  std::string run_id;            ///< 32 hexadecimal digits
  std::uint64_t parameters = 0;  ///< of the model
  std::string address;           ///< "ip:port" for links from others
  /// The router's answer; nothing: it is not asked.
  std::optional<PortMapped> port_mapping;
  double seconds = 0;  ///< since training started
  double samples_per_second = 0;
  double bytes_per_label = 0;  ///< of the test set, if it is text; otherwise 0
  BytesByPurpose bytes_sent;
  BytesByPurpose bytes_received;
  /// By link, in the order of Status::links.
  std::vector<BytesByPurpose> link_sent;
  std::vector<BytesByPurpose> link_received;
  std::vector<LinkCarrier> link_carrier;
};

/// {"name", "id", "phase", "steps", "samples", ..., "bytes_sent": {...}}
[[nodiscard]] std::string status_json(const peer::Status& status, const StatusExtra& extra);
/// [{"name", "id", "state", "addresses", "samples", ...}], one object a member.
[[nodiscard]] std::string members_json(const peer::Status& status);
/// [{"name", "id", "address", "exchange", "drift", ...}], one object a link.
[[nodiscard]] std::string links_json(const peer::Status& status, const StatusExtra& extra);

/// {"invite", "address", "secret"}: the invite's text, or null, the peer's address, and whether
/// joining requires the swarm's secret.
[[nodiscard]] std::string invite_json(const std::optional<runfile::Invite>& invite,
                                      const std::string& address, bool secret);

}  // namespace starling::report
