#include "io/ucx_listener.hpp"

#include <cstring>
#include <utility>

#include "io/address.hpp"

namespace starling::io {
namespace {

std::string text_of(const sockaddr_storage& address) {
  if (address.ss_family != AF_INET) return "an unknown address";
  sockaddr_in v4;
  std::memcpy(&v4, &address, sizeof v4);
  return to_string(v4);
}

}  // namespace

base::Result<std::unique_ptr<UcxListener>> UcxListener::create(UcxWorker& worker,
                                                               const sockaddr_in& at) {
  std::unique_ptr<UcxListener> made(new UcxListener);
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&at);
  params.sockaddr.addrlen = sizeof at;
  params.conn_handler.cb = asked;
  params.conn_handler.arg = made.get();
  ucs_status_t status = ucp_listener_create(worker.raw(), &params, &made->listener_);
  if (status != UCS_OK) {
    made->listener_ = nullptr;
    const char* advice = status == UCS_ERR_BUSY
                             ? "another program has this port; choose another one, or port 0"
                             : "is it an address of this machine?";
    return base::fail(base::ErrorCode::network, "cannot listen on {}: {}; {}", to_string(at),
                      ucs_status_string(status), advice);
  }
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  status = ucp_listener_query(made->listener_, &attributes);
  if (status != UCS_OK) {
    return base::fail(base::ErrorCode::network, "cannot tell the port of {}: {}", to_string(at),
                      ucs_status_string(status));
  }
  made->address_ = text_of(attributes.sockaddr);
  return made;
}

void UcxListener::asked(ucp_conn_request_h handle, void* arg) {
  auto& self = *static_cast<UcxListener*>(arg);
  ucp_conn_request_attr_t attributes{};
  attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
  const bool known = ucp_conn_request_query(handle, &attributes) == UCS_OK;
  Request request{handle, known ? text_of(attributes.client_address) : "an unknown address"};
  if (self.requests_.size() >= kRequestsMax) return self.reject(request);
  self.requests_.push_back(std::move(request));
}

UcxListener::~UcxListener() {
  for (const Request& request : requests_) reject(request);
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
}

}  // namespace starling::io
