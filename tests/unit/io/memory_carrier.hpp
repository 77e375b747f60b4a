// Carriers in memory, whose bytes come as late, and break as badly, as a test wants.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "io/carrier.hpp"

namespace starling::io::test {

/// Two directions between end 0 and end 1.
struct Pipe {
  struct Direction {
    std::deque<base::Bytes> flying;
    std::deque<base::Bytes> arrived;
    bool ended = false;
  };

  std::array<Direction, 2> from;   ///< sent by end i
  std::array<bool, 2> broken{};    ///< end i has noticed that the pipe is broken
  std::array<bool, 2> gone{};      ///< end i has let go of it
  std::size_t room = 64UL * 1024;  ///< bytes under way, at most

  /// Lets `count` messages from end `side` arrive.
  void arrive(int side, std::size_t count) {
    Direction& direction = from[static_cast<std::size_t>(side)];
    for (; count > 0 && !direction.flying.empty(); --count) {
      direction.arrived.push_back(std::move(direction.flying.front()));
      direction.flying.pop_front();
    }
  }
  /// End `side` notices that the pipe is broken; bytes in flight are lost.
  void break_at(int side) {
    broken[static_cast<std::size_t>(side)] = true;
    for (Direction& direction : from) direction.flying.clear();
  }
};

class MemoryCarrier final : public Carrier {
 public:
  MemoryCarrier(std::shared_ptr<Pipe> pipe, int side)
      : pipe_(std::move(pipe)), side_(static_cast<std::size_t>(side)) {}

  [[nodiscard]] std::size_t writable() const noexcept override {
    if (aborted_ || end_sent_ || pipe_->broken[side_]) return 0;
    const std::size_t used = unconsumed();
    return used >= pipe_->room ? 0 : std::min(pipe_->room - used, kMessageMax);
  }
  void send(base::Bytes data) override {
    // Bytes sent into a pipe that broke at its other end are never read.
    if (pipe_->broken[1 - side_] || pipe_->gone[1 - side_]) return;
    out().flying.push_back(std::move(data));
  }
  [[nodiscard]] bool send_end() override {
    out().ended = end_sent_ = true;
    return true;
  }
  [[nodiscard]] bool end_sent() const noexcept override { return end_sent_; }
  void send_credit() override {}
  [[nodiscard]] bool readable() const noexcept override {
    return !aborted_ && !in().arrived.empty();
  }
  [[nodiscard]] base::Bytes take() override {
    base::Bytes data = std::move(in().arrived.front());
    in().arrived.pop_front();
    return data;
  }
  [[nodiscard]] bool ended() const noexcept override {
    return !aborted_ && in().ended && in().flying.empty() && in().arrived.empty();
  }
  [[nodiscard]] Failure failure() const noexcept override {
    return pipe_->broken[side_] ? Failure::network : Failure::none;
  }
  [[nodiscard]] const std::string& failure_text() const noexcept override { return text_; }
  [[nodiscard]] std::size_t unconsumed() const noexcept override {
    std::size_t sum = 0;
    for (const auto* queue : {&out().flying, &out().arrived}) {
      for (const base::Bytes& data : *queue) sum += data.size();
    }
    return sum;
  }
  [[nodiscard]] std::uint64_t take_overhead_sent() noexcept override { return 0; }
  [[nodiscard]] std::uint64_t take_overhead_received() noexcept override { return 0; }
  void abort() override {
    if (std::exchange(aborted_, true)) return;
    pipe_->gone[side_] = true;
    in().arrived.clear();
    out().flying.clear();
    out().ended = true;
  }
  [[nodiscard]] bool closed() const noexcept override { return aborted_; }

 private:
  [[nodiscard]] Pipe::Direction& out() const { return pipe_->from[side_]; }
  [[nodiscard]] Pipe::Direction& in() const { return pipe_->from[1 - side_]; }

  std::shared_ptr<Pipe> pipe_;
  std::size_t side_;
  bool aborted_ = false;
  bool end_sent_ = false;
  std::string text_ = "the pipe broke";
};

}  // namespace starling::io::test
