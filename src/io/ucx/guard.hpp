// Nobody but members may talk to the ports that UCX listens on. Part of the UCX module.
//
// Who reaches a data port of UCX's TCP writes to any address of the process: a header may name one
// (uct_tcp_ep_handle_put_req), and nothing is asked before. So packets of others are dropped by the
// kernel, by a filter on the listening socket (SO_ATTACH_FILTER), which the sockets of accepted
// connections inherit. It has to be there before the socket listens: UCX calls listen() as other
// libraries do, through a table of its own that says where imported functions are. There it is
// replaced, for UCX's libraries alone, whoever has loaded them.
#pragma once

#include <span>
#include <vector>

#include "base/ip.hpp"
#include "base/result.hpp"

namespace starling::io::ucx {

/// The sockets that UCX listens on for one engine. One thread, that of its engine.
class Guard {
 public:
  /// Replaces listen() for UCX's libraries, once in a process. Error (internal): they do not call
  /// it as is known.
  [[nodiscard]] static base::Status install();

  Guard() = default;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// While it lives, sockets on which UCX begins to listen in this thread are the guard's, and get
  /// the filter before. What others do in the meantime with the same libraries is theirs.
  class Watch {
   public:
    explicit Watch(Guard& guard) noexcept;
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();
  };

  /// Who may connect from now on: replaces the filters. At most kAllowedMax. Error (network): one
  /// cannot be replaced; its socket lets nobody in then.
  [[nodiscard]] base::Status allow(std::span<const base::Ip> members);
  /// Shuts connections that this address has made to one of the sockets.
  void shut(const base::Ip& member) const;

  struct Socket {
    int descriptor;
    base::IpPort at;
  };
  [[nodiscard]] const std::vector<Socket>& sockets() const noexcept { return sockets_; }

  /// UCX listens through this; -1 and errno as of listen().
  int listen(int descriptor, int backlog) noexcept;

 private:
  std::vector<Socket> sockets_;
  std::vector<base::Ip> members_;
};

}  // namespace starling::io::ucx
