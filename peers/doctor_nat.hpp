// doctor: how others see this machine, and what a router does to its connections.
#pragma once

#include <span>

#include "findings.hpp"
#include "io/visit.hpp"

namespace starling::peers {

/// `greetings`: of the peers that were dialed; `mapped`: the router's mappings.
void find_nat(std::span<const io::Greeting> greetings, std::span<const base::IpPort> mapped,
              Findings& findings);

}  // namespace starling::peers
