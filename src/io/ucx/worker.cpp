#include "io/ucx/worker.hpp"

#include <cstdlib>
#include <utility>

#include <ucs/config/global_opts.h>

namespace starling::io::ucx {
namespace {

// Calls of ucp_worker_progress in a row before the owner gets its turn.
constexpr int kProgressMax = 64;

base::Status set(ucp_config_t* config, const std::string& name, const std::string& value) {
  const ucs_status_t status = ucp_config_modify(config, name.c_str(), value.c_str());
  if (status == UCS_OK) return {};
  return base::fail(base::ErrorCode::internal, "UCX does not take {}={}: {}", name, value,
                    ucs_status_string(status));
}

/// A setting of UCX's TCP. From 1.17 on, UCX knows it by its full name, as in the environment
/// variables. Earlier versions silently ignore that name: for them, the prefix is left out.
base::Status set_of_tcp(ucp_config_t* config, const std::string& name, const std::string& value) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  const bool full = major > 1 || minor >= 17;
  return set(config, full ? "TCP_" + name : name, value);
}

base::Status configure(ucp_config_t* config, const std::string& device, bool v6,
                       std::uint16_t port) {
  // Shared memory is never right between endpoints that must report a dead peer.
  if (auto status = set(config, "TLS", "tcp"); !status) return status;
  // The other end's ports may be closed to this machine: a connect that waits would stop the loop.
  if (auto status = set_of_tcp(config, "CONN_NB", "y"); !status) return status;
  // A restarted peer takes its port back although old connections linger.
  if (auto status = set_of_tcp(config, "CM_REUSEADDR", "y"); !status) return status;
  // One port, not a range: if all ports of a range are taken, UCX tries them forever.
  const std::string ports = port == 0 ? "0" : fmt::format("{0}-{0}", port);
  if (auto status = set_of_tcp(config, "PORT_RANGE", ports); !status) return status;
  if (auto status = set_of_tcp(config, "AF_PRIO", v6 ? "inet6" : "inet"); !status) return status;
  if (auto status = set(config, "SOCKADDR_TLS_PRIORITY", "tcp"); !status) return status;
  if (auto status = set(config, "MAX_RNDV_LANES", "1"); !status) return status;
  return set(config, "NET_DEVICES", device);
}

base::Result<ucp_context_h> make_context(const std::string& device, bool v6, std::uint16_t port) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    return base::fail(base::ErrorCode::internal, "UCX cannot read its configuration: {}",
                      ucs_status_string(status));
  }
  ucp_context_h context = nullptr;
  auto configured = configure(config, device, v6, port);
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
                      "UCX does not start on network interface {}: {}; is the interface up?",
                      device, ucs_status_string(status));
  }
  return context;
}

}  // namespace

void silence_ucx() {
  // Every failure that matters comes back as a status. To debug UCX, set its level in the
  // environment.
  if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
}

base::Result<std::unique_ptr<Worker>> Worker::create(const std::string& device, bool v6,
                                                     std::uint16_t port, bool& busy) {
  busy = false;
  auto context = make_context(device, v6, port);
  if (!context) return base::fail(std::move(context.error()));
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h worker = nullptr;
  ucs_status_t status = ucp_worker_create(*context, &params, &worker);
  if (status != UCS_OK) {
    ucp_cleanup(*context);
    busy = status == UCS_ERR_BUSY;
    return base::fail(base::ErrorCode::network, "UCX cannot make a worker on {}: {}", device,
                      ucs_status_string(status));
  }
  std::unique_ptr<Worker> made(new Worker(*context, worker));
  status = ucp_worker_get_efd(worker, &made->descriptor_);
  if (status != UCS_OK) {
    return base::fail(base::ErrorCode::internal, "UCX has no event descriptor: {}",
                      ucs_status_string(status));
  }
  return made;
}

bool Worker::progress() {
  int steps = 0;
  while (steps < kProgressMax && ucp_worker_progress(worker_) != 0) ++steps;
  return steps > 0;
}

Worker::~Worker() {
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

}  // namespace starling::io::ucx
