// doctor: how others see this machine, and what a router makes of its connections.
#pragma once

#include <span>

#include "findings.hpp"
#include "io/visit.hpp"

namespace starling::peers {

/// `greetings`: of the peers that were dialed; `mapped`: what the router maps.
void find_nat(std::span<const io::Greeting> greetings, std::span<const base::IpPort> mapped,
              Findings& findings);

}  // namespace starling::peers
