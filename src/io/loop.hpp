// The event loop: everything of a peer except training happens on its one thread (libuv).
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include <uv.h>

#include "base/assert.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace starling::io {

/// Owns a uv_loop_t. All methods belong to one thread. Handles made on it must be destroyed before
/// it; the destructor waits for libuv to release them and asserts that none is left.
class Loop {
 public:
  /// Error (network): this process may open too few further files for a peer.
  [[nodiscard]] static base::Result<Loop> create();
  /// Before anything refers to it.
  Loop(Loop&&) noexcept = default;
  ~Loop();

  /// Runs callbacks until stop() is called or nothing that could call back is left.
  void run();
  /// One turn: waits for at least one event unless there is something to do already.
  void run_once();
  /// Ends run() after the current turn.
  void stop();

  /// The monotonic clock, read afresh.
  [[nodiscard]] static base::Time now() noexcept;

  [[nodiscard]] uv_loop_t* raw() noexcept { return loop_.get(); }

 private:
  explicit Loop(std::unique_ptr<uv_loop_t> loop) noexcept : loop_(std::move(loop)) {}

  std::unique_ptr<uv_loop_t> loop_;  ///< null once this was moved from
};

/// A libuv handle with a callback. libuv uses a handle's memory until its close callback, which is
/// after the owner is gone: it lives on the heap and frees itself there. No callback comes after
/// destruction, which is allowed inside the callback.
template <class UvHandle>
class Handle {
 public:
  using Callback = std::function<void()>;

  /// `init` is called with the handle to initialise and returns libuv's status.
  template <class Init>
  Handle(Callback callback, Init init) : block_(new Block{{}, std::move(callback)}) {
    ASSERT(init(&block_->handle) == 0, "libuv refused to make a handle");
    block_->handle.data = block_;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    uv_close(reinterpret_cast<uv_handle_t*>(&block_->handle),
             [](uv_handle_t* closed) { delete static_cast<Block*>(closed->data); });
  }

  [[nodiscard]] UvHandle* raw() noexcept { return &block_->handle; }
  [[nodiscard]] bool active() const noexcept {
    return uv_is_active(reinterpret_cast<const uv_handle_t*>(&block_->handle)) != 0;
  }

  /// The callback for libuv; further arguments (events, signal number) are not used.
  template <class... Args>
  static void call(UvHandle* handle, Args...) {
    static_cast<Block*>(handle->data)->callback();
  }

 private:
  struct Block {
    UvHandle handle;
    Callback callback;
  };
  Block* block_;
};

/// Calls back once, some time after start(). Starting again moves the time.
class Timer {
 public:
  Timer(Loop& loop, std::function<void()> callback)
      : handle_(std::move(callback),
                [&](uv_timer_t* timer) { return uv_timer_init(loop.raw(), timer); }) {}

  /// `after` is rounded up to milliseconds, negative counts as zero.
  void start(base::Duration after);
  void stop() { uv_timer_stop(handle_.raw()); }
  [[nodiscard]] bool active() const noexcept { return handle_.active(); }

 private:
  Handle<uv_timer_t> handle_;
};

/// Lets other threads wake the loop.
class WakeUp {
 public:
  /// `callback` runs on the loop thread, once for any number of calls before it runs.
  WakeUp(Loop& loop, std::function<void()> callback)
      : handle_(std::move(callback), [&](uv_async_t* async) {
          return uv_async_init(loop.raw(), async, Handle<uv_async_t>::call<>);
        }) {}

  /// Any thread, also a signal handler, as long as this object lives.
  void wake() { uv_async_send(handle_.raw()); }

 private:
  Handle<uv_async_t> handle_;
};

/// Calls back on the loop thread when the process gets a signal.
class Signal {
 public:
  Signal(Loop& loop, int number, std::function<void()> callback);

 private:
  Handle<uv_signal_t> handle_;
};

}  // namespace starling::io
