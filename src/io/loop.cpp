#include "io/loop.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <vector>

#include <sys/eventfd.h>

#include "base/descriptor.hpp"

namespace starling::io {
namespace {

/// More descriptors than a peer opens until it waits for others.
constexpr std::size_t kDescriptorsAtStart = 64;

/// Whether enough descriptors are left; checked first, since libuv and UCX end the program if they
/// find too few for their own threads and signals.
bool has_descriptors() {
  std::vector<base::Descriptor> opened;
  while (opened.size() < kDescriptorsAtStart) {
    opened.emplace_back(::eventfd(0, EFD_CLOEXEC));
    if (!opened.back().valid()) return false;
  }
  return true;
}

}  // namespace

base::Result<Loop> Loop::create() {
  auto loop = std::make_unique<uv_loop_t>();
  if (const int failed = has_descriptors() ? uv_loop_init(loop.get()) : UV_EMFILE; failed != 0) {
    return base::fail(base::ErrorCode::network,
                      "no event loop can be made: {}; allow more open files (ulimit -n)",
                      uv_strerror(failed));
  }
  // libuv does not protect the program from SIGPIPE when it writes on a connection that the other
  // end has cut.
  sigset_t cut;
  sigemptyset(&cut);
  sigaddset(&cut, SIGPIPE);
  ASSERT(pthread_sigmask(SIG_BLOCK, &cut, nullptr) == 0);
  return Loop(std::move(loop));
}

Loop::~Loop() {
  if (loop_ == nullptr) return;
  // Only handles that are closing may be left: their callbacks come in this run.
  uv_run(raw(), UV_RUN_DEFAULT);
  ASSERT(uv_loop_close(raw()) == 0, "a handle outlived its loop");
}

void Loop::run() { uv_run(raw(), UV_RUN_DEFAULT); }

void Loop::run_once() { uv_run(raw(), UV_RUN_ONCE); }

void Loop::stop() { uv_stop(raw()); }

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
