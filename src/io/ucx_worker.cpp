#include "io/ucx_worker.hpp"

#include <csignal>
#include <cstdlib>
#include <utility>

#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

namespace starling::io {
namespace {

// Calls of ucp_worker_progress in a row before the owner gets its turn.
constexpr int kProgressMax = 64;
// Rounds of progress and turn before the loop's other handles get theirs.
constexpr int kRoundsMax = 16;

/// When UCX is loaded it takes signals that belong to the program, this one or one that embeds it:
/// a closed terminal would end nothing and raise UCX's log level, and a crash would be told by UCX.
void give_back_signals() {
  for (const int number : {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV}) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) != 0) continue;
    // UCX complains of those that it has not taken.
    const bool taken = now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
    if (taken) ucs_debug_disable_signal(number);
  }
}

/// UCX prints to stdout, which belongs to the program's data; every failure that matters comes back
/// as a status. Who debugs UCX sets its level in the environment.
const bool kUcxIsQuiet = [] {
  if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  give_back_signals();
  return true;
}();

base::Status set(ucp_config_t* config, const std::string& name, const std::string& value) {
  const ucs_status_t status = ucp_config_modify(config, name.c_str(), value.c_str());
  if (status == UCS_OK) return {};
  return base::fail(base::ErrorCode::internal, "UCX does not take {}={}: {}", name, value,
                    ucs_status_string(status));
}

/// A setting of UCX's TCP. From 1.17 on UCX knows it by its full name, as the environment variables
/// have it. Earlier versions pass that over without a word: there the prefix is left out.
base::Status set_of_tcp(ucp_config_t* config, const std::string& name, const std::string& value) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  const bool full = major > 1 || minor >= 17;
  return set(config, full ? "TCP_" + name : name, value);
}

base::Status configure(ucp_config_t* config, const std::string& device) {
  // Shared memory is never right between endpoints that must report a dead peer.
  if (auto status = set(config, "TLS", "tcp"); !status) return status;
  // The other end's ports may be closed to this machine: a connect that waits would stop the loop.
  if (auto status = set_of_tcp(config, "CONN_NB", "y"); !status) return status;
  // A restarted peer takes its port back although old connections linger.
  if (auto status = set_of_tcp(config, "CM_REUSEADDR", "y"); !status) return status;
  if (auto status = set(config, "SOCKADDR_TLS_PRIORITY", "tcp"); !status) return status;
  if (auto status = set(config, "MAX_RNDV_LANES", "1"); !status) return status;
  return device.empty() ? base::Status{} : set(config, "NET_DEVICES", device);
}

base::Result<ucp_context_h> make_context(const std::string& device) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    return base::fail(base::ErrorCode::internal, "UCX cannot read its configuration: {}",
                      ucs_status_string(status));
  }
  ucp_context_h context = nullptr;
  auto configured = configure(config, device);
  if (configured) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    status = ucp_init(&params, config, &context);
  }
  ucp_config_release(config);
  if (!configured) return base::fail(std::move(configured.error()));
  if (status != UCS_OK) {
    return base::fail(base::ErrorCode::network,
                      "UCX does not start (network interface {}): {}; is the interface up?",
                      device.empty() ? "any" : device, ucs_status_string(status));
  }
  return context;
}

}  // namespace

base::Result<std::unique_ptr<UcxWorker>> UcxWorker::create(Loop& loop, const std::string& device,
                                                           std::function<bool()> turn) {
  auto context = make_context(device);
  if (!context) return base::fail(std::move(context.error()));
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h worker = nullptr;
  const ucs_status_t status = ucp_worker_create(*context, &params, &worker);
  if (status != UCS_OK) {
    ucp_cleanup(*context);
    return base::fail(base::ErrorCode::network, "UCX cannot make a worker: {}",
                      ucs_status_string(status));
  }
  std::unique_ptr<UcxWorker> made(new UcxWorker(*context, worker, std::move(turn)));
  if (auto attached = made->attach(loop); !attached) return base::fail(attached.error());
  return made;
}

base::Status UcxWorker::attach(Loop& loop) {
  int descriptor = -1;
  const ucs_status_t status = ucp_worker_get_efd(worker_, &descriptor);
  if (status != UCS_OK) {
    return base::fail(base::ErrorCode::internal, "UCX has no event descriptor: {}",
                      ucs_status_string(status));
  }
  // Waking up is all that the descriptor is for: the next prepare phase does the work.
  poll_ = std::make_unique<Handle<uv_poll_t>>(
      [this] { ucp_worker_progress(worker_); },
      [&](uv_poll_t* handle) { return uv_poll_init(loop.raw(), handle, descriptor); });
  prepare_ = std::make_unique<Handle<uv_prepare_t>>(
      [this] { prepare(); },
      [&](uv_prepare_t* handle) { return uv_prepare_init(loop.raw(), handle); });
  idle_ = std::make_unique<Handle<uv_idle_t>>(
      [] {}, [&](uv_idle_t* handle) { return uv_idle_init(loop.raw(), handle); });
  ASSERT(uv_poll_start(poll_->raw(), UV_READABLE, Handle<uv_poll_t>::call<int, int>) == 0);
  ASSERT(uv_prepare_start(prepare_->raw(), Handle<uv_prepare_t>::call<>) == 0);
  return {};
}

void UcxWorker::prepare() {
  bool worked = false;
  bool armed = false;
  for (int round = 0; round < kRoundsMax && !armed; ++round) {
    int steps = 0;
    while (steps < kProgressMax && ucp_worker_progress(worker_) != 0) ++steps;
    const bool more = turn_();
    worked = worked || steps > 0 || more;
    if (steps == 0 && !more) armed = ucp_worker_arm(worker_) == UCS_OK;
  }
  // An active idle handle keeps the loop from waiting: because there is more to do, or because
  // what was done here is an event that a caller of run_once() waits for.
  if (worked || !armed) {
    uv_idle_start(idle_->raw(), Handle<uv_idle_t>::call<>);
  } else {
    uv_idle_stop(idle_->raw());
  }
}

UcxWorker::~UcxWorker() {
  // The poll handle must let go of the descriptor before UCX closes it.
  poll_.reset();
  prepare_.reset();
  idle_.reset();
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

}  // namespace starling::io
