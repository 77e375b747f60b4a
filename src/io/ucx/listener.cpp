#include "io/ucx/listener.hpp"

#include "io/raw_address.hpp"

namespace starling::io::ucx {

base::Result<std::unique_ptr<Listener>> Listener::create(Worker& worker, const base::Ip& at,
                                                         std::uint16_t port, bool& busy) {
  busy = false;
  std::unique_ptr<Listener> made(new Listener);
  const RawAddress address({at, port});
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addrlen = address.size();
  params.sockaddr.addr = address.get();
  params.conn_handler.cb = asked;
  params.conn_handler.arg = made.get();
  ucs_status_t status = ucp_listener_create(worker.raw(), &params, &made->listener_);
  if (status != UCS_OK) {
    made->listener_ = nullptr;
    busy = status == UCS_ERR_BUSY;
    return base::fail(base::ErrorCode::network, "UCX cannot listen on {}, port {}: {}", at.text(),
                      port, ucs_status_string(status));
  }
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  status = ucp_listener_query(made->listener_, &attributes);
  if (status != UCS_OK) {
    return base::fail(base::ErrorCode::network, "UCX cannot tell its port at {}: {}", at.text(),
                      ucs_status_string(status));
  }
  made->port_ = ip_port_of(attributes.sockaddr).value_or(base::IpPort{}).port;
  return made;
}

void Listener::asked(ucp_conn_request_h request, void* arg) {
  auto& self = *static_cast<Listener*>(arg);
  if (self.requests_.size() >= kRequestsMax) return self.reject(request);
  self.requests_.push_back(request);
}

Listener::~Listener() {
  for (auto* const request : requests_) reject(request);
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
}

}  // namespace starling::io::ucx
