// A carrier over one TCP connection: the connection's bytes are the carrier's, with nothing added.
// TCP itself holds back an end that sends faster than the other reads.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "io/carrier.hpp"
#include "io/tcp.hpp"

namespace starling::io {

class TcpCarrier final : public Carrier {
 public:
  /// Bytes that may wait in this process for the socket to take them.
  static constexpr std::size_t kUnsentMax = 128UL * 1024;

  /// `stream` may still be connecting: nothing is writable until it is connected.
  explicit TcpCarrier(std::unique_ptr<TcpStream> stream) noexcept : stream_(std::move(stream)) {}

  [[nodiscard]] std::size_t writable() const noexcept override;
  void send(base::Bytes data) override;
  [[nodiscard]] bool send_end() override;
  [[nodiscard]] bool end_sent() const noexcept override { return end_sent_; }
  void send_credit() override {}
  [[nodiscard]] bool readable() const noexcept override;
  [[nodiscard]] base::Bytes take() override;
  [[nodiscard]] bool ended() const noexcept override;
  [[nodiscard]] Failure failure() const noexcept override;
  [[nodiscard]] const std::string& failure_text() const noexcept override;
  [[nodiscard]] std::size_t unconsumed() const noexcept override;
  [[nodiscard]] std::uint64_t take_overhead_sent() noexcept override { return 0; }
  [[nodiscard]] std::uint64_t take_overhead_received() noexcept override { return 0; }
  void abort() override { stream_.reset(); }
  [[nodiscard]] bool closed() const noexcept override { return stream_ == nullptr; }

 private:
  std::unique_ptr<TcpStream> stream_;  ///< null after abort()
  bool end_sent_ = false;
};

}  // namespace starling::io
