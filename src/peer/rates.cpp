#include "peer/rates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "membership/record.hpp"
#include "peer/upper_median.hpp"

namespace starling::peer {
namespace {

/// The upper median of the values above 0 that members have which are alive; 0: there is none.
template <class Value>
double median_of(const membership::MemberTable& table, bool with_self, Value&& value) {
  std::vector<double> values;
  for (const auto& [id, member] : table.members()) {
    const wire::MemberRecord& record = member.record;
    if (!membership::counts_as_alive(record.state) || !record.has_replica) continue;
    if (!with_self && id == table.self_id()) continue;
    if (const auto told = static_cast<double>(value(record)); told > 0) values.push_back(told);
  }
  return values.empty() ? 0 : upper_median(std::move(values));
}

}  // namespace

double rate_factor(const membership::MemberTable& table, const train::Config& train,
                   std::uint32_t batch) {
  const double median =
      median_of(table, true, [](const wire::MemberRecord& record) { return record.batch; });
  if (median <= batch) return 1;
  const double part = batch / median;
  return train.optimizer == train::Optimizer::sgd ? part : std::sqrt(part);
}

std::optional<double> median_rate(const membership::MemberTable& table, bool with_self) {
  const double median =
      median_of(table, with_self, [](const wire::MemberRecord& record) { return record.lr; });
  return median > 0 ? std::optional(median) : std::nullopt;
}

double times_apart(double a, double b) noexcept { return std::max(a / b, b / a); }

std::optional<base::Error> refuse_rate(const membership::MemberTable& table,
                                       const train::Config& train) {
  const auto median = median_rate(table, false);
  if (!median || train.lr_differs || times_apart(train.lr, *median) <= kRateApartMax) {
    return std::nullopt;
  }
  return base::Error{
      base::ErrorCode::run_file,
      fmt::format("train.lr is {} here and {} at most other peers: take theirs, or set "
                  "train.lr_differs = true if this is meant",
                  train.lr, *median)};
}

}  // namespace starling::peer
