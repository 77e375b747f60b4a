// How a peer is run in its process.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "reach/config.hpp"
#include "report/log.hpp"
#include "wire/messages.hpp"

namespace starling::peer {
class Conduct;
}

namespace starling::runtime {

/// Options that are not in the run file.
struct Options {
  std::vector<std::string> join;  ///< beside swarm.join
  std::string listen = "[::]:0";
  std::vector<std::string> announce;  ///< where others reach the peer, told to them first
  std::string http = "127.0.0.1:0";   ///< of the page, the metrics and the commands
  std::string proxy;                  ///< URL; empty: as the environment says (io::choose_proxy)
  bool port_mapping = false;          ///< ask the router to let others in
  std::string port_mapper;            ///< the program for that; empty: io::find_mapper() finds it
  bool lan = false;                   ///< look for peers of this run on the local network
  std::string name;                   ///< empty: the host's, with a number if others run there
  std::string dir;                    ///< empty: runs/<run name>/<peer name>
  bool require_peers = false;         ///< end with an error if none is met within a minute
  bool signals = true;                ///< SIGINT, SIGTERM and SIGHUP make the peer leave
  bool quiet = false;                 ///< warnings go only to the log, not to stderr
  bool progress = false;              ///< print progress, and who joins or dies, to stdout
  double age = 0;                     ///< seconds that passed before, for seconds_to_first_step
  peer::Conduct* conduct = nullptr;   ///< of a peer that is not honest; outlives the run
};

/// The run and the limits of a relay.
struct RelayOptions {
  wire::RunId run;     ///< zero: that of the first peer that comes
  std::string secret;  ///< file with the swarm's secret; empty: the swarm has none
  reach::Config relay = reach::kRelayConfig;
};

/// Error (`code`): one of these addresses, given at `place`, cannot be dialed.
[[nodiscard]] base::Status check_targets(const std::vector<std::string>& addresses,
                                         base::ErrorCode code, const char* place);
/// Error (ErrorCode::usage): an address is invalid, or leads nowhere.
[[nodiscard]] base::Status check(const Options& options);

/// The program that maps the port; empty: none. If one was wanted, the log says why there is none.
[[nodiscard]] std::string choose_port_mapper(const Options& options, report::Log& log);

}  // namespace starling::runtime
