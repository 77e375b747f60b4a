// doctor: how a running peer is reached, as it found out itself.
#pragma once

#include <string>

#include "base/result.hpp"
#include "findings.hpp"

namespace starling::peers {

/// `peer`: as find_control() has it. Error (usage): it names none. One that does not answer is a
/// finding.
[[nodiscard]] base::Status find_reach(const std::string& peer, Findings& findings);

}  // namespace starling::peers
