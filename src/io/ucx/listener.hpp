// Listens for connections; requests are kept until the owner answers. Part of the UCX module.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include "base/ip.hpp"
#include "base/result.hpp"
#include "io/ucx/worker.hpp"

namespace starling::io::ucx {

class Listener {
 public:
  /// At most this many wait for an answer; more are rejected.
  static constexpr std::size_t kRequestsMax = 64;

  /// Error (network) names the address; `busy` tells that the port is taken.
  [[nodiscard]] static base::Result<std::unique_ptr<Listener>> create(Worker& worker,
                                                                      const base::Ip& at,
                                                                      std::uint16_t port,
                                                                      bool& busy);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  /// Rejects the waiting requests.
  ~Listener();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// The requests since the last call: each must be accepted or rejected.
  [[nodiscard]] std::vector<ucp_conn_request_h> take_requests() {
    return std::exchange(requests_, {});
  }
  void reject(ucp_conn_request_h request) { ucp_listener_reject(listener_, request); }

 private:
  Listener() = default;
  static void asked(ucp_conn_request_h request, void* arg);

  ucp_listener_h listener_ = nullptr;
  std::uint16_t port_ = 0;
  std::vector<ucp_conn_request_h> requests_;
};

}  // namespace starling::io::ucx
