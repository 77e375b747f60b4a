#include "io/turn.hpp"

#include <utility>

#include "base/assert.hpp"

namespace starling::io {
namespace {

// Rounds of work before the loop's other handles get theirs.
constexpr int kRoundsMax = 16;

}  // namespace

Turn::Turn(Loop& loop, std::function<bool()> work)
    : work_(std::move(work)),
      prepare_([this] { prepare(); },
               [&](uv_prepare_t* handle) { return uv_prepare_init(loop.raw(), handle); }),
      idle_([] {}, [&](uv_idle_t* handle) { return uv_idle_init(loop.raw(), handle); }) {
  ASSERT(uv_prepare_start(prepare_.raw(), Handle<uv_prepare_t>::call<>) == 0);
}

void Turn::prepare() {
  int rounds = 0;
  while (rounds < kRoundsMax && work_()) ++rounds;
  // An active idle handle keeps the loop from waiting: because there is more to do, or because the
  // work done here is an event that a caller of run_once() waits for.
  if (rounds > 0) {
    uv_idle_start(idle_.raw(), Handle<uv_idle_t>::call<>);
  } else {
    uv_idle_stop(idle_.raw());
  }
}

}  // namespace starling::io
