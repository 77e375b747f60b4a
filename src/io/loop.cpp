#include "io/loop.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>

namespace starling::io {

Loop::Loop() {
  ASSERT(uv_loop_init(&loop_) == 0, "no event loop: out of descriptors or memory");
  // libuv does not keep a write on a connection that the other end has cut from ending the program.
  sigset_t cut;
  sigemptyset(&cut);
  sigaddset(&cut, SIGPIPE);
  ASSERT(pthread_sigmask(SIG_BLOCK, &cut, nullptr) == 0);
}

Loop::~Loop() {
  // Only handles that are closing may be left: their callbacks come in this run.
  uv_run(&loop_, UV_RUN_DEFAULT);
  ASSERT(uv_loop_close(&loop_) == 0, "a handle outlived its loop");
}

void Loop::run() { uv_run(&loop_, UV_RUN_DEFAULT); }

void Loop::run_once() { uv_run(&loop_, UV_RUN_ONCE); }

void Loop::stop() { uv_stop(&loop_); }

base::Time Loop::now() noexcept {
  return base::Time(base::Duration(static_cast<base::Duration::rep>(uv_hrtime())));
}

void Timer::start(base::Duration after) {
  // The loop's own time is the start of its turn: without the update a timer could be early.
  uv_update_time(handle_.raw()->loop);
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(after).count();
  const auto milliseconds = static_cast<std::uint64_t>(std::max<std::int64_t>(whole, 0));
  ASSERT(uv_timer_start(handle_.raw(), Handle<uv_timer_t>::call<>, milliseconds, 0) == 0);
}

Signal::Signal(Loop& loop, int number, std::function<void()> callback)
    : handle_(std::move(callback), [&](uv_signal_t* signal) {
        const int status = uv_signal_init(loop.raw(), signal);
        if (status != 0) return status;
        return uv_signal_start(signal, Handle<uv_signal_t>::call<int>, number);
      }) {}

}  // namespace starling::io
