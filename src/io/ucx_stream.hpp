// An ordered byte stream with back-pressure over one UCX endpoint.
//
// Bytes travel as active messages, always eager: then UCX keeps their order. Each has a header:
//
//   offset  size  field
//   0       4     bits 0-30: number of the message on this direction, from 0, modulo 2^31;
//                 bit 31: the sender sends nothing after this message
//   4       4     credit: cost of all messages that the sender of the header has consumed,
//                 modulo 2^32
//
// A message with data costs its bytes plus kMessageCost; at most kWindow of cost may be
// unconsumed. UCX itself has no back-pressure towards a reader that takes its time.
// While an endpoint is wired up UCX may let messages overtake each other: the first is sent alone,
// the others wait until it is complete or the other end is heard.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include <netinet/in.h>
#include <ucp/api/ucp.h>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "io/carrier.hpp"
#include "io/ucx_worker.hpp"

namespace starling::io {

inline constexpr std::uint32_t kMessageCost = 256;     ///< so that tiny messages are bounded too
inline constexpr std::uint32_t kWindow = 1024 * 1024;  ///< unconsumed cost a direction
inline constexpr std::size_t kMessageHeaderSize = 8;

class UcxStream;

/// The streams of a worker by endpoint: finds where a message belongs. Outlives its streams.
class UcxStreams {
 public:
  /// Registers for the worker's active messages. An ASSERT guards against a second one.
  explicit UcxStreams(UcxWorker& worker);
  UcxStreams(const UcxStreams&) = delete;
  UcxStreams& operator=(const UcxStreams&) = delete;
  ~UcxStreams();

 private:
  friend class UcxStream;
  static ucs_status_t received(void* arg, const void* header, size_t header_length, void* data,
                               size_t length, const ucp_am_recv_param_t* param);

  UcxWorker& worker_;
  std::unordered_map<ucp_ep_h, UcxStream*> by_endpoint_;
};

/// Not thread-safe. Nothing is reported by callback: the owner looks at its streams in its turn.
class UcxStream {
 public:
  /// Why a stream came to an end by itself.
  enum class Failure { none, network, protocol, overflow };

  /// Starts to connect; whether somebody answers shows later.
  [[nodiscard]] static base::Result<std::unique_ptr<UcxStream>> connect(UcxStreams& streams,
                                                                        const sockaddr_in& to);
  /// Answers a connection request. Fails if the asker is gone already.
  [[nodiscard]] static base::Result<std::unique_ptr<UcxStream>> accept(UcxStreams& streams,
                                                                       ucp_conn_request_h request);
  UcxStream(const UcxStream&) = delete;
  UcxStream& operator=(const UcxStream&) = delete;
  /// Only when closed().
  ~UcxStream();

  /// Bytes that send() takes now, at most kMessageMax; 0: wait for a turn.
  [[nodiscard]] std::size_t writable() const noexcept;
  /// Sends 1 to writable() bytes as one message.
  void send(base::Buffer data);
  /// Tells the other end that nothing follows. False: not possible yet, try in the next turn.
  [[nodiscard]] bool send_end();
  [[nodiscard]] bool end_sent() const noexcept { return end_sent_; }
  /// Gives the other end credit for what was taken, when it is worth a message.
  void send_credit();

  /// Whether a message lies ready to be taken.
  [[nodiscard]] bool readable() const noexcept { return !received_.empty(); }
  /// The oldest message's bytes; needs readable().
  [[nodiscard]] base::Buffer take();
  /// The other end sends nothing more and everything it sent was taken.
  [[nodiscard]] bool ended() const noexcept { return end_received_ && received_.empty(); }

  [[nodiscard]] Failure failure() const noexcept { return failure_; }
  [[nodiscard]] const std::string& failure_text() const noexcept { return failure_text_; }

  /// Cost of messages sent and not known to be consumed: what is in flight.
  [[nodiscard]] std::size_t unconsumed() const noexcept { return sent_cost_ - granted_cost_; }
  /// Cost of messages that are known to be consumed, modulo 2^32.
  [[nodiscard]] std::uint32_t consumed() const noexcept { return granted_cost_; }
  /// Header bytes of messages without data (credits, end) since the last call.
  [[nodiscard]] std::uint64_t take_overhead_sent() noexcept;
  [[nodiscard]] std::uint64_t take_overhead_received() noexcept;

  /// Tears the connection down at once; what is in flight is lost. Idempotent.
  void abort();
  /// After abort(): UCX has let go of everything; the stream may be destroyed.
  [[nodiscard]] bool closed() const noexcept { return aborted_ && !closing_ && in_flight_ == 0; }

 private:
  struct Message;
  friend class UcxStreams;

  explicit UcxStream(UcxStreams& streams) noexcept : streams_(streams) {}
  [[nodiscard]] base::Status open(ucp_ep_params_t& params);
  [[nodiscard]] bool may_send() const noexcept;
  void post(base::Buffer data, bool last);
  void sent(ucs_status_t status);
  void fail(Failure failure, std::string text);
  void on_message(base::ByteView header, base::ByteView data);

  UcxStreams& streams_;
  ucp_ep_h endpoint_ = nullptr;

  std::uint32_t sent_number_ = 0;
  std::uint32_t sent_cost_ = 0;
  std::uint32_t granted_cost_ = 0;  ///< of sent_cost_, what the other end has consumed
  std::size_t in_flight_ = 0;       ///< sends that UCX has not completed
  bool wired_ = false;
  bool end_sent_ = false;

  std::deque<base::Buffer> received_;
  std::uint32_t received_number_ = 0;
  std::uint32_t received_cost_ = 0;
  std::uint32_t consumed_cost_ = 0;
  std::uint32_t told_cost_ = 0;  ///< of consumed_cost_, what the other end was told
  bool end_received_ = false;

  std::uint64_t overhead_sent_ = 0;
  std::uint64_t overhead_received_ = 0;
  Failure failure_ = Failure::none;
  std::string failure_text_;
  bool aborted_ = false;
  bool closing_ = false;
};

}  // namespace starling::io
