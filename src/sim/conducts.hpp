// How the simulator gets the conduct of hostile peers: only some of its programs have them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "hostile/attack.hpp"
#include "peer/conduct.hpp"

namespace starling::sim {

/// Makes a hostile peer's conduct. `seconds`: since the start of the scenario. `seed`: for what the
/// peer draws.
using MakeConduct = std::function<std::unique_ptr<peer::Conduct>(
    const hostile::Attack& attack, std::function<double()> seconds, std::uint64_t seed)>;

}  // namespace starling::sim
