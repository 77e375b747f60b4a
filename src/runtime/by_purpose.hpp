// The byte meter of links, for summaries and reports.
#pragma once

#include <iterator>

#include "io/traffic.hpp"
#include "report/summary.hpp"

namespace starling::runtime {

[[nodiscard]] inline report::BytesByPurpose by_purpose(const io::Bytes& bytes) {
  static_assert(io::kPurposes == std::size(report::kPurposes), "each of them stands below");
  const auto of = [&](wire::Purpose purpose) { return bytes[static_cast<std::size_t>(purpose)]; };
  report::BytesByPurpose result{.delta = of(wire::Purpose::delta),
                                .keyframe = of(wire::Purpose::keyframe),
                                .membership = of(wire::Purpose::membership),
                                .reduce = of(wire::Purpose::reduce),
                                .other = of(wire::Purpose::other),
                                .relayed = of(wire::Purpose::relayed)};
  result.total = io::LinkTraffic::total_of(bytes);
  return result;
}

}  // namespace starling::runtime
