// Listens for connections; who asks is kept until the owner answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <ucp/api/ucp.h>

#include "base/result.hpp"
#include "io/ucx_worker.hpp"

namespace starling::io {

class UcxListener {
 public:
  struct Request {
    ucp_conn_request_h handle;  ///< must be accepted or rejected
    std::string from;           ///< the asker's ip:port
  };

  /// At most this many wait for an answer; more are rejected.
  static constexpr std::size_t kRequestsMax = 64;

  /// Error (network) names the address and says whether it is occupied.
  [[nodiscard]] static base::Result<std::unique_ptr<UcxListener>> create(UcxWorker& worker,
                                                                         const sockaddr_in& at);
  UcxListener(const UcxListener&) = delete;
  UcxListener& operator=(const UcxListener&) = delete;
  /// Rejects who still waits.
  ~UcxListener();

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// Those who asked since the last call.
  [[nodiscard]] std::vector<Request> take_requests() { return std::exchange(requests_, {}); }
  void reject(const Request& request) { ucp_listener_reject(listener_, request.handle); }

 private:
  UcxListener() = default;
  static void asked(ucp_conn_request_h handle, void* arg);

  ucp_listener_h listener_ = nullptr;
  std::string address_;
  std::vector<Request> requests_;
};

}  // namespace starling::io
