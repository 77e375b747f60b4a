// A carrier over one UCX endpoint. Part of the UCX module.
//
// Bytes travel as active messages, always eager: then UCX keeps their order. Each has a header:
//
//   offset  size  field
//   0       4     bits 0-30: number of the message on this direction, from 0, modulo 2^31;
//                 bit 31: the sender sends nothing after this message
//   4       4     credit: cost of all messages that the sender of the header has consumed,
//                 modulo 2^32
//
// A message with data costs its bytes plus kMessageCost; at most kWindow of cost may be unconsumed.
// UCX itself has no back-pressure for a slow reader.
// While an endpoint is wired up, UCX may reorder messages: so the first is sent alone, and the
// others wait until it is complete or the other end is heard.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include <ucp/api/ucp.h>

#include "base/bytes.hpp"
#include "base/ip.hpp"
#include "base/result.hpp"
#include "io/carrier.hpp"
#include "io/ucx/worker.hpp"

namespace starling::io::ucx {

inline constexpr std::uint32_t kMessageCost = 256;     ///< so that tiny messages are bounded too
inline constexpr std::uint32_t kWindow = 1024 * 1024;  ///< unconsumed cost a direction
inline constexpr std::size_t kMessageHeaderSize = 8;

class UcxCarrier;

/// The carriers of a worker by endpoint: finds the carrier of a message. Outlives its carriers.
class UcxCarriers {
 public:
  /// Registers for the worker's active messages. An ASSERT guards against a second one.
  explicit UcxCarriers(Worker& worker);
  UcxCarriers(const UcxCarriers&) = delete;
  UcxCarriers& operator=(const UcxCarriers&) = delete;
  ~UcxCarriers();

 private:
  friend class UcxCarrier;
  static ucs_status_t received(void* arg, const void* header, size_t header_length, void* data,
                               size_t length, const ucp_am_recv_param_t* param);

  Worker& worker_;
  std::unordered_map<ucp_ep_h, UcxCarrier*> by_endpoint_;
};

/// See Carrier.
class UcxCarrier final : public Carrier {
 public:
  /// Starts to connect; the outcome shows later.
  [[nodiscard]] static base::Result<std::unique_ptr<UcxCarrier>> connect(UcxCarriers& carriers,
                                                                         const base::Ip& to,
                                                                         std::uint16_t port);
  /// Answers a connection request. Fails if the requester is gone already.
  [[nodiscard]] static base::Result<std::unique_ptr<UcxCarrier>> accept(UcxCarriers& carriers,
                                                                        ucp_conn_request_h request);
  ~UcxCarrier() override;

  [[nodiscard]] std::size_t writable() const noexcept override;
  void send(base::Bytes data) override;
  [[nodiscard]] bool send_end() override;
  [[nodiscard]] bool end_sent() const noexcept override { return end_sent_; }
  void send_credit() override;

  [[nodiscard]] bool readable() const noexcept override { return !received_.empty(); }
  [[nodiscard]] base::Bytes take() override;
  [[nodiscard]] bool ended() const noexcept override { return end_received_ && received_.empty(); }

  [[nodiscard]] Failure failure() const noexcept override { return failure_; }
  [[nodiscard]] const std::string& failure_text() const noexcept override { return failure_text_; }

  /// Cost of messages sent and not known to be consumed.
  [[nodiscard]] std::size_t unconsumed() const noexcept override {
    return sent_cost_ - granted_cost_;
  }
  [[nodiscard]] std::uint64_t take_overhead_sent() noexcept override;
  [[nodiscard]] std::uint64_t take_overhead_received() noexcept override;

  void abort() override;
  [[nodiscard]] bool closed() const noexcept override {
    return aborted_ && !closing_ && in_flight_ == 0;
  }

 private:
  struct Message;
  friend class UcxCarriers;

  explicit UcxCarrier(UcxCarriers& carriers) noexcept : carriers_(carriers) {}
  [[nodiscard]] base::Status open(ucp_ep_params_t& params);
  [[nodiscard]] bool may_send() const noexcept;
  void post(base::Bytes data, bool last);
  void sent(ucs_status_t status);
  void fail(Failure failure, std::string text);
  void on_message(base::ByteView header, base::ByteView data);

  UcxCarriers& carriers_;
  ucp_ep_h endpoint_ = nullptr;

  std::uint32_t sent_number_ = 0;
  std::uint32_t sent_cost_ = 0;
  std::uint32_t granted_cost_ = 0;  ///< the part of sent_cost_ that the other end has consumed
  std::size_t in_flight_ = 0;       ///< sends that UCX has not completed
  bool wired_ = false;
  bool end_sent_ = false;

  std::deque<base::Bytes> received_;
  std::uint32_t received_number_ = 0;
  std::uint32_t received_cost_ = 0;
  std::uint32_t consumed_cost_ = 0;
  std::uint32_t told_cost_ = 0;  ///< the part of consumed_cost_ that the other end was told
  bool end_received_ = false;

  std::uint64_t overhead_sent_ = 0;
  std::uint64_t overhead_received_ = 0;
  Failure failure_ = Failure::none;
  std::string failure_text_;
  bool aborted_ = false;
  bool closing_ = false;
};

}  // namespace starling::io::ucx
