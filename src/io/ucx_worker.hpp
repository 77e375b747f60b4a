// UCX in the event loop: context, worker and its descriptor, without idle CPU.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <ucp/api/ucp.h>

#include "base/result.hpp"
#include "io/loop.hpp"

namespace starling::io {

/// One UCX context with one worker, progressed by the loop (TCP only, single-threaded).
///
/// All that follows from network events happens in the loop's prepare phase, right before the loop
/// would wait: UCX is progressed, `turn` does the owner's work, and the wait is entered only when
/// both had nothing left to do and UCX agreed to signal the descriptor ("armed").
class UcxWorker {
 public:
  /// `turn`: does the owner's work; true if there is more that needs no network event. It may make
  /// and close endpoints. `device`: the only network interface to use; empty: any.
  [[nodiscard]] static base::Result<std::unique_ptr<UcxWorker>> create(Loop& loop,
                                                                       const std::string& device,
                                                                       std::function<bool()> turn);

  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;
  /// Every endpoint and listener of the worker must be gone.
  ~UcxWorker();

  [[nodiscard]] ucp_worker_h raw() const noexcept { return worker_; }

  /// Runs UCX callbacks that are due, outside of the loop's turns: for clean-up.
  void progress() { ucp_worker_progress(worker_); }

 private:
  UcxWorker(ucp_context_h context, ucp_worker_h worker, std::function<bool()> turn) noexcept
      : context_(context), worker_(worker), turn_(std::move(turn)) {}
  [[nodiscard]] base::Status attach(Loop& loop);
  void prepare();

  ucp_context_h context_;
  ucp_worker_h worker_;
  std::function<bool()> turn_;
  std::unique_ptr<Handle<uv_poll_t>> poll_;
  std::unique_ptr<Handle<uv_prepare_t>> prepare_;
  std::unique_ptr<Handle<uv_idle_t>> idle_;
};

}  // namespace starling::io
