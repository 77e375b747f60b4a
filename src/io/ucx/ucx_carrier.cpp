#include "io/ucx/ucx_carrier.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/endian.hpp"
#include "io/raw_address.hpp"

namespace starling::io::ucx {
namespace {

constexpr unsigned kActiveMessage = 1;
constexpr std::uint32_t kLastBit = 1U << 31;
constexpr std::uint32_t kNumberMask = kLastBit - 1;
// Credit is sent in a separate message when this much is mirror_error; most is sent along with
// data.
constexpr std::uint32_t kCreditStep = kWindow / 4;

struct Header {
  std::uint32_t number;
  std::uint32_t credit;
};
static_assert(sizeof(Header) == kMessageHeaderSize);

std::uint32_t cost_of(std::size_t bytes) noexcept {
  return bytes == 0 ? 0 : static_cast<std::uint32_t>(bytes) + kMessageCost;
}

}  // namespace

// --- UcxCarriers ---

UcxCarriers::UcxCarriers(Worker& worker) : worker_(worker) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                     UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = kActiveMessage;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.cb = received;
  param.arg = this;
  ASSERT(ucp_worker_set_am_recv_handler(worker_.raw(), &param) == UCS_OK);
}

UcxCarriers::~UcxCarriers() { ASSERT(by_endpoint_.empty(), "a carrier outlived its table"); }

ucs_status_t UcxCarriers::received(void* arg, const void* header, size_t header_length, void* data,
                                   size_t length, const ucp_am_recv_param_t* param) {
  auto& self = *static_cast<UcxCarriers*>(arg);
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0) return UCS_OK;
  const auto found = self.by_endpoint_.find(param->reply_ep);
  if (found == self.by_endpoint_.end()) return UCS_OK;
  UcxCarrier& carrier = *found->second;
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    carrier.fail(UcxCarrier::Failure::protocol,
                 "the other end sent a message of a kind not in use");
    return UCS_OK;
  }
  carrier.on_message({static_cast<const std::byte*>(header), header_length},
                     {static_cast<const std::byte*>(data), length});
  return UCS_OK;
}

// --- opening and closing ---

base::Result<std::unique_ptr<UcxCarrier>> UcxCarrier::connect(UcxCarriers& carriers,
                                                              const base::Ip& to,
                                                              std::uint16_t port) {
  const RawAddress address({to, port});
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr.addrlen = address.size();
  params.sockaddr.addr = address.get();
  std::unique_ptr<UcxCarrier> carrier(new UcxCarrier(carriers));
  if (auto status = carrier->open(params); !status) return base::fail(std::move(status.error()));
  return carrier;
}

base::Result<std::unique_ptr<UcxCarrier>> UcxCarrier::accept(UcxCarriers& carriers,
                                                             ucp_conn_request_h request) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  std::unique_ptr<UcxCarrier> carrier(new UcxCarrier(carriers));
  if (auto status = carrier->open(params); !status) return base::fail(std::move(status.error()));
  return carrier;
}

base::Status UcxCarrier::open(ucp_ep_params_t& params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t status) {
    static_cast<UcxCarrier*>(arg)->fail(Failure::network, ucs_status_string(status));
  };
  params.err_handler.arg = this;
  const ucs_status_t status = ucp_ep_create(carriers_.worker_.raw(), &params, &endpoint_);
  if (status != UCS_OK) {
    aborted_ = true;  // nothing to close
    endpoint_ = nullptr;
    return base::fail(base::ErrorCode::network, "{}", ucs_status_string(status));
  }
  carriers_.by_endpoint_.emplace(endpoint_, this);
  carriers_.worker_.handle_missed_events();
  return {};
}

void UcxCarrier::abort() {
  if (aborted_) return;
  aborted_ = true;
  carriers_.by_endpoint_.erase(endpoint_);
  received_.clear();
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = [](void* request, ucs_status_t, void* arg) {
    static_cast<UcxCarrier*>(arg)->closing_ = false;
    ucp_request_free(request);
  };
  param.user_data = this;
  closing_ = UCS_PTR_IS_PTR(ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &param));
}

UcxCarrier::~UcxCarrier() { ASSERT(closed(), "UCX still works on this carrier"); }

void UcxCarrier::fail(Failure failure, std::string text) {
  if (failure_ != Failure::none) return;
  failure_ = failure;
  failure_text_ = std::move(text);
}

// --- sending ---

struct UcxCarrier::Message {
  Header header;  // UCX reads header and data until the send is complete
  base::Bytes data;
  UcxCarrier* carrier;
};

bool UcxCarrier::may_send() const noexcept {
  if (aborted_ || end_sent_ || failure_ != Failure::none) return false;
  return wired_ || sent_number_ == 0;
}

std::size_t UcxCarrier::writable() const noexcept {
  if (!may_send()) return 0;
  const std::size_t room = kWindow - (sent_cost_ - granted_cost_);
  return room <= kMessageCost ? 0 : std::min(room - kMessageCost, kMessageMax);
}

void UcxCarrier::send(base::Bytes data) {
  ASSERT(!data.empty() && data.size() <= writable());
  sent_cost_ += cost_of(data.size());
  post(std::move(data), false);
}

bool UcxCarrier::send_end() {
  if (!may_send()) return false;
  end_sent_ = true;
  post({}, true);
  return true;
}

void UcxCarrier::send_credit() {
  if (consumed_cost_ - told_cost_ < kCreditStep || !may_send()) return;
  post({}, false);
}

void UcxCarrier::post(base::Bytes data, bool last) {
  auto message = std::make_unique<Message>(
      Message{{(sent_number_ & kNumberMask) | (last ? kLastBit : 0), consumed_cost_},
              std::move(data),
              this});
  ++sent_number_;
  told_cost_ = consumed_cost_;
  overhead_sent_ += kMessageHeaderSize;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
  param.cb.send = [](void* request, ucs_status_t status, void* arg) {
    const std::unique_ptr<Message> done(static_cast<Message*>(arg));
    ucp_request_free(request);
    --done->carrier->in_flight_;
    done->carrier->sent(status);
  };
  param.user_data = message.get();
  auto* const request =
      ucp_am_send_nbx(endpoint_, kActiveMessage, &message->header, sizeof message->header,
                      message->data.data(), message->data.size(), &param);
  if (UCS_PTR_IS_PTR(request)) {
    ++in_flight_;
    static_cast<void>(message.release());  // the completion owns it
  } else {
    sent(UCS_PTR_STATUS(request));  // done already: no callback comes
  }
}

void UcxCarrier::sent(ucs_status_t status) {
  if (status == UCS_OK) {
    wired_ = true;
  } else if (!aborted_) {
    fail(Failure::network, ucs_status_string(status));
  }
}

std::uint64_t UcxCarrier::take_overhead_sent() noexcept { return std::exchange(overhead_sent_, 0); }

std::uint64_t UcxCarrier::take_overhead_received() noexcept {
  return std::exchange(overhead_received_, 0);
}

// --- receiving ---

void UcxCarrier::on_message(base::ByteView header, base::ByteView data) {
  if (failure_ != Failure::none || aborted_) return;
  if (header.size() != sizeof(Header) || data.size() > kMessageMax) {
    return fail(Failure::protocol, "the other end sent a message of a wrong size");
  }
  const auto head = base::load_little<Header>(header);
  if (end_received_ || (head.number & kNumberMask) != (received_number_ & kNumberMask)) {
    return fail(Failure::protocol, "the other end sent messages out of order");
  }
  if (head.credit - granted_cost_ > sent_cost_ - granted_cost_) {
    return fail(Failure::protocol, "the other end claims to have consumed what was not sent");
  }
  const std::uint32_t cost = cost_of(data.size());
  if (received_cost_ - consumed_cost_ + cost > kWindow) {
    return fail(Failure::overflow, "the other end sends more than it was given credit for");
  }
  wired_ = true;
  ++received_number_;
  granted_cost_ = head.credit;
  received_cost_ += cost;
  end_received_ = (head.number & kLastBit) != 0;
  overhead_received_ += kMessageHeaderSize;
  if (!data.empty()) received_.emplace_back(data.begin(), data.end());
}

base::Bytes UcxCarrier::take() {
  ASSERT(readable());
  base::Bytes data = std::move(received_.front());
  received_.pop_front();
  consumed_cost_ += cost_of(data.size());
  return data;
}

}  // namespace starling::io::ucx
