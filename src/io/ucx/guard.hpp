// Lets only members talk to UCX's listening ports. Part of the UCX module.
//
// Anybody who reaches a data port of UCX's TCP can write to any address of the process: a header
// may name one (uct_tcp_ep_handle_put_req), and nothing is checked before. So the kernel drops
// packets of others, by a filter on the listening socket (SO_ATTACH_FILTER), which the sockets of
// accepted connections inherit. The filter has to be there before the socket listens. UCX calls
// listen() as other libraries do, through its own table of imported functions. There it is
// replaced, only for UCX's libraries, no matter who has loaded them.
#pragma once

#include <span>
#include <vector>

#include "base/ip.hpp"
#include "base/result.hpp"

namespace starling::io::ucx {

/// The sockets on which UCX listens for one engine. Used only on its engine's thread.
class Guard {
 public:
  /// Replaces listen() for UCX's libraries, once in a process. Error (internal): they do not call
  /// it in the known way.
  [[nodiscard]] static base::Status install();

  Guard() = default;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// While it lives, sockets on which UCX begins to listen in this thread belong to the guard, and
  /// get the filter before that. Other users of the same libraries are not affected.
  class Watch {
   public:
    explicit Watch(Guard& guard) noexcept;
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();
  };

  /// Sets who may connect from now on: replaces the filters. At most kAllowedMax. Error (network):
  /// a filter cannot be replaced; then its socket lets nobody in.
  [[nodiscard]] base::Status allow(std::span<const base::Ip> members);
  /// Shuts connections that this address has made to one of the sockets.
  void shut(const base::Ip& member) const;

  struct Socket {
    int descriptor;
    base::IpPort at;
  };
  [[nodiscard]] const std::vector<Socket>& sockets() const noexcept { return sockets_; }

  /// UCX listens through this; returns -1 and errno like listen().
  int listen(int descriptor, int backlog) noexcept;

 private:
  std::vector<Socket> sockets_;
  std::vector<base::Ip> members_;
};

}  // namespace starling::io::ucx
