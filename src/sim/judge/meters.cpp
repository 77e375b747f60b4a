#include "sim/judge/meters.hpp"

#include <algorithm>

namespace starling::sim {
namespace {

/// The shortest time over which a rate is measured.
constexpr double kRateSeconds = 10;

}  // namespace

void Pace::gap(double seconds, double batches_per_second) {
  gap_ = std::max(gap_, seconds);
  possible_ += seconds * batches_per_second;
}

std::optional<double> Pace::longest_gap() const {
  return samples_ > 0 ? std::optional(gap_) : std::nullopt;
}

std::optional<double> Pace::throughput(std::uint32_t batch) const {
  if (samples_ == 0) return std::nullopt;
  return static_cast<double>(samples_) / batch / possible_;
}

void MembershipRates::told(std::uint32_t peer, double started, std::uint64_t bytes, double now) {
  if (now < std::max(last_start_, started) + kJoinSeconds) return;
  const auto at = quiet_.find(peer);
  if (at == quiet_.end() || at->second.started != started) {
    quiet_[peer] = {started, now, bytes};
    return;
  }
  const double passed = now - at->second.since;
  if (passed < kRateSeconds) return;
  rates_[peer] = (static_cast<double>(bytes) - static_cast<double>(at->second.bytes)) / passed;
}

std::optional<double> MembershipRates::most() const {
  std::optional<double> most;
  for (const auto& [peer, rate] : rates_) most = std::max(most.value_or(0), rate);
  return most;
}

void MindChanges::change(std::uint32_t observer, std::uint32_t subject, double now) {
  std::vector<double>& times = times_[{observer, subject}];
  std::erase_if(times, [&](double at) { return at <= now - kVerdictWindow; });
  times.push_back(now);
  most_ = std::max(most_, std::uint64_t{times.size()});
}

void MindChanges::forget(std::uint32_t observer) {
  times_.erase(times_.lower_bound({observer, 0}), times_.lower_bound({observer + 1, 0}));
}

PairTimes::PairTimes(const Scenario& scenario)
    : scenario_(scenario),
      expects_linked_(expects(scenario, Measure::pairs_linked_within_s)),
      expects_paths_(expects(scenario, Measure::paths_within_s)) {}

void PairTimes::look(double since, const std::vector<std::uint32_t>& running,
                     const PathOf& path_of) {
  const auto linked_to_all = [&](std::uint32_t a) {
    return std::ranges::all_of(
        running, [&](std::uint32_t b) { return b >= a || path_of(a, b).has_value(); });
  };
  const auto as_expected = [&](const ExpectedPath& path) {
    return path_of(path.a, path.b) == path.path;
  };
  if (expects_linked_ && !linked_ && std::ranges::all_of(running, linked_to_all)) linked_ = since;
  if (expects_paths_ && !paths_ && std::ranges::all_of(scenario_.paths, as_expected)) {
    paths_ = since;
  }
}

}  // namespace starling::sim
