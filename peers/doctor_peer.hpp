// doctor: how others reach a running peer, by its own findings.
#pragma once

#include <string>

#include "base/result.hpp"
#include "findings.hpp"

namespace starling::peers {

/// `peer`: as in find_control(). Error (usage): it does not name a peer. A peer that does not
/// answer is a finding.
[[nodiscard]] base::Status find_reach(const std::string& peer, Findings& findings);

}  // namespace starling::peers
