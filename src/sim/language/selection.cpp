#include "sim/language/selection.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace starling::sim {
namespace {

std::size_t percent_of(double percent, const Numbers& candidates) {
  if (candidates.empty()) return 0;
  const double exact = percent / 100 * static_cast<double>(candidates.size());
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::llround(exact)), 1,
                                 candidates.size());
}

Numbers draw(Numbers candidates, std::size_t count, Draws& draws) {
  base::shuffle(candidates, draws.rng);
  candidates.resize(count);
  std::ranges::sort(candidates);
  return candidates;
}

/// The following ones in order of number, round a circle.
Numbers next_ones(const Numbers& candidates, std::size_t count, Draws& draws) {
  Numbers chosen;
  for (std::uint32_t& next = draws.next; chosen.size() < count; ++next) {
    const auto from = std::ranges::lower_bound(candidates, next);
    next = from == candidates.end() ? candidates.front() : *from;
    chosen.push_back(next);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace

Numbers choose(const Selector& selector, const Numbers& candidates,
               const std::vector<PlannedPeer>& peers, Draws& draws) {
  using enum Selector::Kind;
  const std::size_t count = std::min<std::size_t>(selector.count, candidates.size());
  const auto size = static_cast<std::ptrdiff_t>(count);
  switch (selector.kind) {
    case all:
      return candidates;
    case first:
      return {candidates.begin(), candidates.begin() + size};
    case last:
      return {candidates.end() - size, candidates.end()};
    case random:
      return draw(candidates,
                  selector.percent > 0 ? percent_of(selector.percent, candidates) : count, draws);
    case next:
      return next_ones(candidates, count, draws);
    case region:
      return in_region(candidates, selector.region, peers);
    case numbers:
      break;
  }
  Numbers chosen;
  std::ranges::set_intersection(selector.numbers, candidates, std::back_inserter(chosen));
  return chosen;
}

Numbers in_region(Numbers candidates, const std::string& region,
                  const std::vector<PlannedPeer>& peers) {
  std::erase_if(candidates, [&](std::uint32_t peer) { return peers[peer].region != region; });
  return candidates;
}

}  // namespace starling::sim
