#include "exchange/decision.hpp"

#include <algorithm>
#include <array>

#include "base/hash.hpp"
#include "base/simulated.hpp"

namespace starling::exchange {

OpenDecision decide_opening(const wire::LinkOpen& mine, const wire::LinkOpen& theirs) {
  const std::uint64_t ahead = std::max(mine.committed, theirs.committed).value;
  const std::uint64_t behind = std::min(mine.committed, theirs.committed).value;
  if (mine.session != 0 && mine.session == theirs.session && ahead - behind <= 1) {
    return OpenDecision::resume;
  }
  if (mine.progress <= kFreshProgress && theirs.progress <= kFreshProgress)
    return OpenDecision::fresh;
  if (mine.may_adopt && theirs.may_adopt) return OpenDecision::wait;
  if (mine.may_adopt) return SIM_BUG(merge_for_adopt) ? OpenDecision::merge : OpenDecision::adopt;
  if (theirs.may_adopt) return OpenDecision::give;
  return mine.told_little && theirs.told_little ? OpenDecision::fresh : OpenDecision::merge;
}

std::uint64_t session_of(std::uint64_t one_nonce, std::uint64_t other_nonce) {
  const std::array<std::uint64_t, 2> nonces{std::min(one_nonce, other_nonce),
                                            std::max(one_nonce, other_nonce)};
  const std::uint64_t session = base::xxh3(base::bytes_of(std::span(nonces)));
  return session == 0 ? 1 : session;
}

}  // namespace starling::exchange
