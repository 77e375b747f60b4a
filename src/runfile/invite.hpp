// Brings a machine without a run file into a swarm: an invite, which people pass on,
// and the run file as peers hand it out.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "runfile/run_file.hpp"
#include "wire/messages.hpp"

namespace starling::runfile {

inline constexpr std::size_t kInviteAddressesMax = 4;
/// Characters of an invite in words.
inline constexpr std::size_t kInviteTextMax = 1024;

/// Whether an address is "host:port" of letters, digits, '.' and '-', or "[IPv6]:port", with a port
/// above 0. An invite is pasted into shells, and addresses are what other peers say.
[[nodiscard]] bool may_be_in_invite(std::string_view address) noexcept;

/// The addresses of an invite, at most kInviteAddressesMax: a peer's own first address, of the
/// other family the first one, too, then others', then further own ones. `own` has the most useful
/// ones first, and so has `others`. Loopback addresses are named only where a peer has no other:
/// they lead to whoever is invited.
[[nodiscard]] std::vector<std::string> addresses_to_invite(std::span<const std::string> own,
                                                           std::span<const std::string> others);

/// Written as "ADDRESS[,ADDRESS...]/RUN", with the 32 hexadecimal digits of the run id, and
/// "/security=off" behind them if the swarm's links are not encrypted.
struct Invite {
  std::vector<std::string> addresses;  ///< of peers, 1 to kInviteAddressesMax
  wire::RunId run;
  Security security = Security::tls;

  friend bool operator==(const Invite&, const Invite&) = default;
};

[[nodiscard]] std::string to_string(const Invite& invite);

/// The same for a command line: in quotes where a shell would see more in it than a word.
[[nodiscard]] std::string invite_word(const std::string& invite);

/// Error (ErrorCode::usage): what is wrong.
[[nodiscard]] base::Result<Invite> parse_invite(std::string_view text);

/// The run file for another machine: TOML in which what is of one machine alone (addresses to join,
/// peers to wait for, device, threads, limits, the places of a secret and of private data) is as if
/// nothing had been said. Of other files only the names are left: whoever joins has them elsewhere.
[[nodiscard]] std::string shared_toml(RunFile run_file);

/// A text as one word of a shell's command line.
[[nodiscard]] std::string shell_word(std::string_view text);

/// The --set options with which another machine's shell gives a copy of the run file the values
/// that `set` ("section.key=value") gave it here: " --set '...'" each, in their order, without what
/// shared_toml() leaves out.
[[nodiscard]] std::string shared_settings(const RunFile& run_file,
                                          std::span<const std::string> set);

/// Keys of a run file by which it names files of the machine that it runs on, with what they say,
/// as in "data.path = /srv/text". Of another's run file, no such file may be read unasked: what is
/// trained on can be read out of deltas by those who get them.
struct NamedFile {
  std::string key;
  std::string value;
};
[[nodiscard]] std::vector<NamedFile> named_files(const RunFile& run_file);

}  // namespace starling::runfile
