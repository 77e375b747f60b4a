// UCX's context and worker on one network interface. Part of the UCX module.
#pragma once

#include <memory>
#include <string>

#include <ucp/api/ucp.h>

#include "base/result.hpp"
#include "io/ucx/engine.hpp"
#include "io/ucx/guard.hpp"

namespace starling::io::ucx {

/// UCX prints to stdout, which is for the program's data: this stops it. Call it once.
void silence_ucx();

/// TCP only, single-threaded.
class Worker {
 public:
  /// `port`: for its data, 0: any. Error (network): no such interface, or the port is taken, which
  /// sets `busy`.
  [[nodiscard]] static base::Result<std::unique_ptr<Worker>> create(const std::string& device,
                                                                    bool v6, std::uint16_t port,
                                                                    bool& busy);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Every endpoint and listener of the worker must be gone.
  ~Worker();

  [[nodiscard]] ucp_worker_h raw() const noexcept { return worker_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Runs a bounded number of due UCX callbacks. True if there were any.
  bool progress();
  /// Call this after each endpoint is made. UCX's own thread handles the sockets of a connection
  /// that comes up, and events that it could not handle while this thread held UCX's lock wait
  /// until the next progress. Before 1.22, such an event is handled even if it is long over by
  /// then, and an assertion ends the process if the other end has died in between
  /// (openucx/ucx#11458).
  void handle_missed_events() { ucp_worker_progress(worker_); }
  [[nodiscard]] bool arm() { return ucp_worker_arm(worker_) == UCS_OK; }

 private:
  Worker(ucp_context_h context, ucp_worker_h worker) noexcept
      : context_(context), worker_(worker) {}

  ucp_context_h context_;
  ucp_worker_h worker_;
  int descriptor_ = -1;
};

}  // namespace starling::io::ucx
