// A simulated peer's folder: its checkpoints, as bytes that can be damaged, and the addresses of
// other peers.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "base/sample_counter.hpp"
#include "base/strong.hpp"

namespace starling::sim {

struct Checkpoint {
  base::StepNumber step;
  std::uint64_t samples = 0;
  double progress = 0;
  std::optional<std::int8_t> weight{};  ///< as train::CheckpointState::weight
  std::vector<base::SampleCounter> counters;
  std::vector<float> parameters;
  std::vector<float> buffers;
  std::vector<float> state;  ///< of the learner
  std::uint64_t hash = 0;    ///< of all members above, when it was written

  [[nodiscard]] std::uint64_t hash_now() const {
    return base::xxh3(std::as_bytes(std::span(parameters))) ^
           base::xxh3(std::as_bytes(std::span(buffers)), 1) ^
           base::xxh3(std::as_bytes(std::span(state)), step.value + 2);
  }
};

/// Keeps the newest kKept checkpoints; a damaged one is skipped, as when a real peer restarts. The
/// addresses of other peers are in a separate file, which is also written between two checkpoints.
class Folder {
 public:
  static constexpr std::size_t kKept = 2;

  base::Status write(Checkpoint checkpoint) {
    if (full) return base::fail(base::ErrorCode::data, "no space left on the device");
    checkpoint.hash = checkpoint.hash_now();
    kept_.push_back(std::move(checkpoint));
    if (kept_.size() > kKept) kept_.pop_front();
    return {};
  }
  void tear() {
    if (!kept_.empty()) kept_.back().parameters.resize(kept_.back().parameters.size() / 2);
  }
  void flip(std::uint64_t where) {
    if (kept_.empty() || kept_.back().parameters.empty()) return;
    auto& values = kept_.back().parameters;
    values[where % values.size()] += 1.0F;
  }
  void lose() {
    kept_.clear();
    addresses_.clear();
  }
  void write_addresses(const std::vector<std::string>& addresses) {
    if (!full) addresses_ = addresses;
  }
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  [[nodiscard]] const Checkpoint* newest_whole() const {
    for (auto at = kept_.rbegin(); at != kept_.rend(); ++at) {
      if (at->hash == at->hash_now()) return &*at;
    }
    return nullptr;
  }

  bool full = false;

 private:
  std::deque<Checkpoint> kept_;
  std::vector<std::string> addresses_;
};

}  // namespace starling::sim
